"""Who is given away, who is asked first, and who is refused, by how a device is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from berth.errors import ClaimError
from berth.health.verdict import HealthState, Verdict
from berth.node.health.fitness import Fitness
from tests.unit.node.verdicts import DEGRADED, RULES, SICK, SILENT, UNASKED, WELL, Judge

FAULT = "berth.dev/fault"
UNKNOWN = "berth.dev/unknown"


def fitness(verdict: Verdict, **answers: Verdict) -> Fitness:
    """What is known of the device ``gpu``."""
    return Fitness(state=HealthState(verdicts={"gpu": verdict}), rules=RULES, answers=answers)


@pytest.mark.parametrize("verdict", [WELL, DEGRADED])
def test_device_that_works_is_given(verdict: Verdict) -> None:
    """What a person should know of it keeps nobody away."""

    known = fitness(verdict)

    known.require("gpu")
    assert not known.is_unsure("gpu")


def test_sick_device_is_refused_by_name_with_what_to_do() -> None:
    """Reason and message are the verdict's, and the way out is told."""

    with pytest.raises(ClaimError) as refused:
        fitness(SICK).require("gpu")

    assert str(refused.value) == (
        "gpu: is unhealthy (xid-79): it fell off the bus; reboot; `berth devices` shows when it is "
        "well; a claim that tolerates berth.dev/fault gets it all the same"
    )
    assert not fitness(SICK).is_unsure("gpu")


@pytest.mark.parametrize(
    ("tolerations", "given"),
    [((FAULT,), True), (("",), True), ((UNKNOWN,), False), (("fault",), False)],
)
def test_sick_device_is_given_to_whoever_tolerates_it(
    tolerations: tuple[str, ...], *, given: bool
) -> None:
    """By the key alone: value and effect are the scheduler's business."""

    known = fitness(SICK)

    assert known.is_tolerated("gpu", tolerations) is given
    if given:
        known.require("gpu", tolerations=tolerations)
    else:
        with pytest.raises(ClaimError):
            known.require("gpu", tolerations=tolerations)


def test_device_of_which_nobody_knows_is_asked_first() -> None:
    """It is not refused before, and after that its answer decides."""

    fitness(UNASKED).require("gpu")
    assert fitness(UNASKED).is_unsure("gpu")

    answered = fitness(UNASKED, gpu=WELL)
    answered.require("gpu")
    assert not answered.is_unsure("gpu")
    for answer in (SICK, SILENT):
        with pytest.raises(ClaimError, match=f"is {answer.status.value} \\({answer.reason}\\)"):
            fitness(UNASKED, gpu=answer).require("gpu")


def test_verdict_that_came_since_outweighs_an_answer() -> None:
    """A device that answered well and then fell ill is sick; one that recovered is well."""

    with pytest.raises(ClaimError):
        fitness(SICK, gpu=WELL).require("gpu")
    fitness(WELL, gpu=SILENT).require("gpu")


@pytest.mark.parametrize(
    ("tolerations", "unsure"), [((), True), ((UNKNOWN,), True), ((UNKNOWN, FAULT), False)]
)
def test_only_who_takes_whatever_comes_asks_nobody(
    tolerations: tuple[str, ...], *, unsure: bool
) -> None:
    """An answer could still be that it is sick."""

    assert fitness(UNASKED).is_unsure("gpu", tolerations=tolerations) is unsure


def test_silence_is_tolerated_by_its_own_key() -> None:
    """Whoever tolerates the unknown is not refused for it."""

    fitness(SILENT, gpu=SILENT).require("gpu", tolerations=(UNKNOWN,))
    with pytest.raises(ClaimError):
        fitness(SILENT, gpu=SILENT).require("gpu", tolerations=(FAULT,))


async def test_devices_are_asked_together_and_not_for_long(autojump_clock: MockClock) -> None:
    """Two seconds for all of them; who says nothing is as before."""

    judge = Judge(quiet=SILENT)
    judge.answers["quick"] = WELL
    began = trio.current_time()

    answers: Mapping[str, Verdict] = await judge.inquiry().ask(["quick", "quiet", "new"])

    assert answers == {"quick": WELL, "quiet": SILENT, "new": UNASKED}
    assert trio.current_time() - began == pytest.approx(2.0)
    assert sorted(judge.asked) == ["new", "quick", "quiet"]


async def test_nobody_is_asked_who_is_known(autojump_clock: MockClock) -> None:
    """The usual case costs nothing."""

    judge = Judge(gpu=WELL, other=DEGRADED)

    await judge.inquiry().require(["gpu", "other"])

    assert judge.asked == []


async def test_start_is_waited_for_no_longer_than_it_takes(autojump_clock: MockClock) -> None:
    """Until all were asked, or for five seconds."""

    judge = Judge(gpu=WELL)
    began = trio.current_time()
    await judge.inquiry().wait_asked(lambda: ["gpu"])
    assert trio.current_time() == began

    await judge.inquiry().wait_asked(lambda: ["gpu", "late"])
    assert trio.current_time() - began == pytest.approx(5.0)
