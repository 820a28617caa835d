"""What the stand-in for kubelet remembers of devices, as 1.37.2 was seen to."""

from __future__ import annotations

import pytest

from berth.pb import dra_health_v1_pb2 as pb
from berth.rehearsal.kubelet.healthinfo import DEVICES_LIMIT, DeviceHealth, HealthInfo

DRIVER, POOL = "d.test", "n"


def report(name: str = "a", health: int = 1, message: str = "", timeout_s: int = 0) -> object:
    """Give what a plugin tells of a device."""
    return pb.DeviceHealth(
        device=pb.DeviceIdentifier(pool_name=POOL, device_name=name),
        health=pb.HealthStatus.ValueType(health),
        last_updated_time=1,
        health_check_timeout_seconds=timeout_s,
        message=message,
    )


def words(info: HealthInfo, now_s: float, name: str = "a") -> str:
    """Give how a pod's status has a device."""
    return str(info.of(DRIVER, POOL, name, now_s))


@pytest.mark.parametrize(("timeout_s", "lease_s"), [(0, 30), (-1, 30), (5, 5)])
def test_report_lapses_by_kubelets_own_clock(timeout_s: int, lease_s: int) -> None:
    """The time that the plugin says is not looked at."""

    info = HealthInfo()
    assert words(info, 0) == "Unknown"
    assert info.take(DRIVER, [report(timeout_s=timeout_s)], 100.0) == ((POOL, "a"),)
    assert words(info, 100 + lease_s) == "Healthy"
    assert words(info, 101 + lease_s) == "Unknown"


@pytest.mark.parametrize(
    ("again", "changed"),
    [
        (report(), False),
        (report(message="told again"), True),
        (report(health=2), True),
        (report(timeout_s=60), True),
    ],
)
def test_report_that_lapsed_is_a_change_only_if_it_is_another(again: object, changed: bool) -> None:
    """Which is why an equal one needs a mark."""

    info = HealthInfo()
    info.take(DRIVER, [report()], 0.0)
    assert bool(info.take(DRIVER, [again], 50.0)) is changed


def test_device_that_is_left_out_lapses_at_the_next_message() -> None:
    """Partial lists are taken; what lapsed meanwhile is told to its pods at once."""

    info = HealthInfo()
    info.take(DRIVER, [report("a"), report("b")], 0.0)
    assert info.take(DRIVER, [report("b")], 20.0) == ()
    assert words(info, 20) == "Healthy"
    assert info.take(DRIVER, [report("b")], 40.0) == ((POOL, "a"),)
    assert info.take(DRIVER, [report("b")], 80.0) == ()
    assert words(info, 80) == "Unknown"


def test_end_of_the_stream_is_forgetting() -> None:
    """So the same is a change when it comes back."""

    info = HealthInfo()
    info.take(DRIVER, [report()], 0.0)
    info.forget(DRIVER)
    assert words(info, 1) == "Unknown"
    assert info.take(DRIVER, [report()], 2.0) == ((POOL, "a"),)


def test_memory_is_bounded() -> None:
    """Devices and messages beyond kubelet's limits are not kept."""

    info = HealthInfo()
    many = [report(f"d{number}") for number in range(DEVICES_LIMIT)]
    info.take(DRIVER, many, 0.0)
    assert info.take(DRIVER, [report("one-more"), report("d0", 2, "x" * 2000)], 1.0) == (
        (POOL, "d0"),
    )
    assert info.of(DRIVER, POOL, "d0", 1.0) == DeviceHealth(
        health="Unhealthy", message="x" * 1021 + "..."
    )
