"""What a PCI function's state says against its NIC, row by row of network.md §7."""

from __future__ import annotations

import attrs
import pytest

from berth.health.finding import MESSAGE_LIMIT, Finding, Severity
from berth.host.pcihealth import ABSENT, FunctionSight
from berth.nic.health.function import (
    ERRORS_A_MINUTE,
    QUIET_S,
    FunctionMemory,
    judge_function,
    resumed,
)
from berth.nic.health.post import Place, Post

FREE = Post(identity="pci:0000:41:00.0", place=Place.FREE, address="0000:41:00.0", index=3)
HELD = attrs.evolve(FREE, place=Place.POD, holder="team/claim", driver="mlx5_core")
STAGED = attrs.evolve(HELD, place=Place.STAGED)
WELL = FunctionSight(driver="mlx5_core", binding=7, fatal=0, nonfatal=0)
SILENT = attrs.evolve(WELL, answers=False)


class Course:
    """Looks one after the other, each judged with what the ones before left."""

    def __init__(self, post: Post, memory: FunctionMemory | None = None) -> None:
        self.post = post
        self.memory = memory or FunctionMemory()

    def look(
        self, at_s: float, sight: FunctionSight, pf: FunctionSight | None = None
    ) -> dict[str, Finding]:
        """What is told at a moment, by code."""
        verdict = judge_function(self.post, sight, self.memory, pf=pf, at_s=at_s)
        self.memory = verdict.memory
        assert all(0 < len(f.message.encode()) <= MESSAGE_LIMIT for f in verdict.findings)
        return {finding.code: finding for finding in verdict.findings}


@pytest.mark.parametrize("post", [FREE, HELD])
def test_a_function_with_its_driver_is_well(post: Post) -> None:
    """What its counters held before anybody looked is history."""

    assert Course(post).look(0, attrs.evolve(WELL, fatal=3, nonfatal=4000)) == {}


@pytest.mark.parametrize("sight", [ABSENT, SILENT])
def test_a_function_that_is_gone_or_silent_is_lost(sight: FunctionSight) -> None:
    """At once, and until it is seen again."""

    course = Course(HELD)

    assert course.look(0, sight)["lost"].severity is Severity.LOST
    assert course.look(1, WELL) == {}


@pytest.mark.parametrize("pf", [ABSENT, SILENT])
def test_a_vf_is_lost_with_its_pf(pf: FunctionSight) -> None:
    """Whatever it shows of itself."""

    vf = attrs.evolve(WELL, physfn="0000:41:00.0")

    assert "0000:41:00.0" in Course(HELD).look(0, vf, pf)["lost"].message
    assert Course(HELD).look(0, vf, WELL) == {}


def test_no_driver_and_another_driver() -> None:
    """A held one has the driver that it was given with; a free one has whatever makes its link."""

    bare, other = (attrs.evolve(WELL, driver=driver) for driver in ("", "uio"))

    for post, sight in [(HELD, bare), (FREE, bare), (HELD, other)]:
        told = Course(post).look(0, sight)["no-driver"]
        assert told.severity is Severity.FAULT
    assert Course(FREE).look(0, other) == {}
    assert Course(attrs.evolve(HELD, driverless=True)).look(0, bare) == {}


def test_fatal_errors_are_a_fault_until_an_hour_is_quiet() -> None:
    """One is enough."""

    course = Course(HELD)
    course.look(0, WELL)
    told = course.look(15, attrs.evolve(WELL, fatal=1))
    assert told["aer-fatal"].severity is Severity.FAULT
    late = 15 + QUIET_S
    assert "aer-fatal" in course.look(late - 1, attrs.evolve(WELL, fatal=1))
    assert course.look(late + 90, attrs.evolve(WELL, fatal=1)) == {}


def test_fatal_errors_are_over_with_another_bind() -> None:
    """So they are with a function that appeared anew, whose counters begin at nought."""

    for anew in (attrs.evolve(WELL, fatal=1, binding=8), WELL):
        course = Course(FREE)
        course.look(0, WELL)
        assert "aer-fatal" in course.look(15, attrs.evolve(WELL, fatal=1))
        assert course.look(30, anew) == {}


def test_many_errors_in_a_minute_degrade() -> None:
    """Ten are allowed, more are not, however they fall between looks."""

    course = Course(HELD)
    for turn in range(5):
        told = course.look(15 * turn, attrs.evolve(WELL, nonfatal=turn * ERRORS_A_MINUTE // 4))
        assert told == {}
    more = attrs.evolve(WELL, nonfatal=ERRORS_A_MINUTE + 5)
    assert course.look(75, more)["aer"].severity is Severity.DEGRADED
    assert "aer" in course.look(75 + QUIET_S - 1, more)
    assert course.look(75 + QUIET_S + 90, more) == {}


def test_few_errors_now_and_then_are_allowed() -> None:
    """Ten in each minute for an hour."""

    course = Course(HELD)
    for minute in range(60):
        sight = attrs.evolve(WELL, nonfatal=minute * ERRORS_A_MINUTE)
        assert course.look(60.0 * minute, sight) == {}


def test_errors_that_go_on_put_the_end_off() -> None:
    """An hour without any is meant, not an hour without too many."""

    course = Course(HELD)
    course.look(0, WELL)
    course.look(15, attrs.evolve(WELL, nonfatal=100))
    course.look(15 + QUIET_S / 2, attrs.evolve(WELL, nonfatal=101))

    assert "aer" in course.look(15 + QUIET_S, attrs.evolve(WELL, nonfatal=101))


def test_a_kernel_that_counts_no_errors_tells_none() -> None:
    """As one that was built without AER."""

    blind = attrs.evolve(WELL, fatal=None, nonfatal=None)
    course = Course(HELD)

    assert course.look(0, blind) == course.look(15, blind) == {}


@pytest.mark.parametrize("seen_bare", [False, True])
@pytest.mark.parametrize("seen_in_pod", [False, True])
def test_a_driver_bound_anew_in_a_pod_is_told_until_the_holder_ends(
    *, seen_bare: bool, seen_in_pod: bool
) -> None:
    """Whether it was seen without driver between, and before its record said that it is home."""

    course = Course(HELD)
    course.look(0, WELL)
    if seen_bare:
        course.look(1, attrs.evolve(WELL, driver="", binding=0))
    anew = attrs.evolve(WELL, binding=8)
    if seen_in_pod:
        course.look(2, anew)
        course.look(2, anew)
    course.post = attrs.evolve(HELD, place=Place.RETURNING)
    course.look(3, anew)
    course.post = STAGED
    told = course.look(4, anew)["driver-rebound"]
    assert told.severity is Severity.FAULT
    assert "team/claim" in told.message
    assert "driver-rebound" in course.look(5000, anew)
    course.post = FREE
    assert course.look(5001, anew) == {}


def test_a_driver_bound_anew_is_over_when_the_nic_is_in_a_pod_again() -> None:
    """The pod's next sandbox has it whole."""

    course = Course(HELD)
    course.look(0, WELL)
    course.post = STAGED
    anew = attrs.evolve(WELL, binding=8)
    assert "driver-rebound" in course.look(1, anew)
    course.post = HELD
    assert course.look(2, anew) == course.look(3, anew) == {}


def test_a_driver_bound_anew_at_home_is_nobodys_loss() -> None:
    """Before its pod came, or after it went."""

    course = Course(HELD)
    course.look(0, WELL)
    course.post = STAGED
    course.look(1, WELL)

    assert course.look(2, attrs.evolve(WELL, binding=8)) == {}


def test_rdma_ports_and_devices() -> None:
    """A port without its fabric degrades; a device that is gone is a fault."""

    ports = {"mlx5_0/1": "ACTIVE"}
    course = Course(HELD)
    assert course.look(0, attrs.evolve(WELL, ports=ports)) == {}
    told = course.look(1, attrs.evolve(WELL, ports={"mlx5_0/1": "DOWN"}))
    assert told["rdma-port"].severity is Severity.DEGRADED
    assert "mlx5_0/1 is DOWN" in told["rdma-port"].message
    assert course.look(2, WELL)["rdma-lost"].severity is Severity.FAULT
    assert "rdma-lost" not in course.look(3, attrs.evolve(WELL, binding=8))
    assert "rdma-lost" not in course.look(4, attrs.evolve(WELL, driver="vfio-pci", ports=ports))


def test_rdma_ports_of_a_free_nic_count_as_its_carrier_does() -> None:
    """What nobody uses needs no fabric, unless the group says so."""

    down = attrs.evolve(WELL, ports={"mlx5_0/1": "DOWN", "mlx5_1/1": ""})

    assert Course(FREE).look(0, down) == {}
    assert "rdma-port" in Course(attrs.evolve(FREE, carrier_when_free=True)).look(0, down)


def test_a_restart_takes_up_what_was_told() -> None:
    """Counters and binds say nothing of what was before them."""

    standing = [
        Finding(code=code, severity=Severity.FAULT, message="told")
        for code in ("aer-fatal", "aer", "driver-rebound", "rdma-lost")
    ]
    course = Course(STAGED, resumed(standing, STAGED, at_s=1000))

    assert course.look(1000, WELL).keys() == {each.code for each in standing}
    assert course.look(1000 + QUIET_S, WELL).keys() == {"driver-rebound", "rdma-lost"}
    course.post = FREE
    whole = attrs.evolve(WELL, ports={"mlx5_0/1": "ACTIVE"})
    assert course.look(1001 + QUIET_S, whole) == {}
