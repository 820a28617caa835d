"""What kubelet is told of devices, when again, and what is done about a report that had lapsed."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.dra.healthreport import (
    DEVICES_LIMIT,
    MESSAGE_LIMIT,
    DeviceReport,
    Place,
    Told,
    beat_s,
    cut,
    places_of,
    reports_of,
)
from berth.health.finding import Severity
from berth.health.verdict import HealthState, Status, Verdict
from berth.model.claim import DeviceResult
from tests.unit.dra.shelf import nic, part

HEALTHY = Verdict(status=Status.HEALTHY, observed_s=1000)
LATER = {"time_s": 1_800_000_000.0}


def report(name: str = "gpu-0", **facts: Any) -> DeviceReport:
    """Give a report on a device that is well, unless the keywords say otherwise."""
    return attrs.evolve(
        DeviceReport(place=Place(pool="n", device=name), status=Status.HEALTHY), **facts
    )


def texts(told: Told) -> Mapping[str, str]:
    """Give what goes out of messages, by device."""
    return {one.place.device: one.message for one in told.messages()}


def test_devices_told_of_are_those_held_and_those_offered() -> None:
    """A held one that left the slices is told of under the pool that its claim names."""

    held = (
        DeviceResult(request="r", pool="old-name/nic", device="nic-0009"),
        DeviceResult(request="r", pool="n/nic", device="nic-0001"),
    )
    places = places_of("n", (nic(1), nic(2), part(0)), held)

    assert [(place.pool, place.device) for place in places] == [
        ("old-name/nic", "nic-0009"),
        ("n/nic", "nic-0001"),
        ("n/nic", "nic-0002"),
        ("n", "mig-00-0"),
    ]
    assert places_of("", (nic(1),), held) == places[:2]


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (HEALTHY, ""),
        (attrs.evolve(HEALTHY, message="not for kubelet"), ""),
        (attrs.evolve(HEALTHY, severity=Severity.DEGRADED, message="slow link"), "slow link"),
        (Verdict(status=Status.UNHEALTHY, reason="lost", message="gone"), "gone"),
        (Verdict(status=Status.UNKNOWN, reason="stopped"), "stopped"),
    ],
)
def test_report_says_what_a_person_should_know(verdict: Verdict, message: str) -> None:
    """A device that is well says nothing; whatever else it is has a message."""

    state = HealthState(verdicts={"gpu-0": attrs.evolve(verdict, timeout_s=60, observed_s=7)})
    (told,) = reports_of(state, [Place(pool="n", device="gpu-0")])

    assert (told.status, told.message) == (verdict.status, message)
    assert (told.timeout_s, told.observed_s) == (60, 7)


def test_device_that_nobody_judges_is_unknown() -> None:
    """It is told of, so that kubelet does not keep what it was told before."""

    (told,) = reports_of(HealthState(), [Place(pool="n", device="gpu-0")])

    assert told.status is Status.UNKNOWN
    assert told.message == "nobody has asked it yet"
    assert told.observed_s == 0


def test_reports_are_bounded_in_one_order_and_each_device_once() -> None:
    """The first places win; the order of the list is that of names, so that equal is equal."""

    many = [Place(pool="n", device=f"d-{number:05d}") for number in range(DEVICES_LIMIT)]
    held = Place(pool="z", device="held")
    told = reports_of(HealthState(), [held, *reversed(many), held])

    assert len(told) == DEVICES_LIMIT
    assert told[-1].place == held
    assert [one.place for one in told[:-1]] == many[1:]


@pytest.mark.parametrize(
    ("leases", "seconds"),
    [((), 10), ((30,), 10), ((90, 60), 10), ((30, 12), 4), ((0,), 10), ((-5,), 10), ((2,), 1)],
)
def test_beat_is_a_third_of_the_shortest_lease(leases: tuple[int, ...], seconds: float) -> None:
    """And never above 10 s, since older kubelets know the lease of 30 s alone."""

    assert beat_s([report(timeout_s=lease) for lease in leases]) == seconds


def test_report_that_was_confirmed_again_is_the_same() -> None:
    """Kubelet does not look at the time, and an answer each 5 s is nothing to tell."""

    assert report(observed_s=1) == report(observed_s=6)
    assert report(timeout_s=30) != report(timeout_s=60)


def test_first_message_of_all_has_no_mark() -> None:
    """Nothing was told before that could have lapsed."""

    assert texts(Told().following((report(),), now_s=5.0, **LATER)) == {"gpu-0": ""}


def test_report_that_lapsed_is_marked_until_something_changes() -> None:
    """One message differs from the one before, the rest repeat it: no status flaps."""

    old = Told(reports=(report(), report("nic-0", timeout_s=90)), at_s=0.0)
    late = old.following(old.reports, now_s=40.0, **LATER)
    mark = "told again since 2027-01-15 08:00:00 UTC, after a silence of 40 s"
    assert texts(late) == {"gpu-0": mark, "nic-0": ""}

    again = late.following(old.reports, now_s=50.0, time_s=LATER["time_s"] + 10)
    assert texts(again) == texts(late)

    ill = report(status=Status.UNHEALTHY, message="xid 79")
    changed = again.following((ill, old.reports[1]), now_s=60.0, **LATER)
    assert texts(changed) == {"gpu-0": "xid 79", "nic-0": ""}
    back = changed.following(old.reports, now_s=70.0, **LATER)
    assert texts(back) == {"gpu-0": "", "nic-0": ""}


def test_every_lapse_has_a_mark_of_its_own() -> None:
    """A second silence as long as the first is a change, too."""

    old = Told(reports=(report(message="slow", status=Status.UNHEALTHY),), at_s=0.0)
    first = old.following(old.reports, now_s=40.0, time_s=0.0)
    second = first.following(old.reports, now_s=80.0, time_s=40.0)

    assert texts(first) != texts(second)
    assert texts(second)["gpu-0"].startswith("slow (told again since ")


@pytest.mark.parametrize(("silence_s", "lapsed"), [(29.9, False), (30.0, True)])
def test_report_lapses_with_its_lease(silence_s: float, lapsed: bool) -> None:
    """A moment before, it still holds."""

    old = Told(reports=(report(),), at_s=100.0)

    assert bool(texts(old.following(old.reports, now_s=100 + silence_s, **LATER))["gpu-0"]) is (
        lapsed
    )


def test_report_that_changed_in_the_silence_needs_no_mark() -> None:
    """The change is one by itself, and so is a device that was not told of before."""

    old = Told(reports=(report(message="slow"),), at_s=0.0)
    told = old.following((report(message="slower"), report("new")), now_s=500.0, **LATER)

    assert texts(told) == {"gpu-0": "slower", "new": ""}


def test_mark_is_never_cut() -> None:
    """What makes the change has its room, however long the message."""

    old = Told(reports=(report(message="é" * 2000),), at_s=0.0)
    text = texts(old.following(old.reports, now_s=40.0, **LATER))["gpu-0"]

    assert len(text.encode()) <= MESSAGE_LIMIT
    assert text.endswith("... (told again since 2027-01-15 08:00:00 UTC, after a silence of 40 s)")


def test_message_is_cut_as_kubelet_cuts() -> None:
    """1024 bytes pass, more become 1021 and three dots."""

    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1021 + "..."
    assert cut("x" * 1020 + "éé" * 9) == "x" * 1020 + "..."


@settings(max_examples=50)
@given(st.text(st.characters(), min_size=330, max_size=1100))
def test_cut_message_is_text_of_at_most_its_bytes(text: str) -> None:
    """Whatever stands in it, lone surrogates included, protobuf takes it."""

    content = cut(text).encode()

    assert len(content) <= MESSAGE_LIMIT
    assert content.decode()
