"""How a device fares whose claim's pod is not bound yet: it waits, is ready, or is given up."""

from __future__ import annotations

import math

import pytest

from berth.model.readiness import UNASKED, Answer
from berth.readiness.course import AHEAD_S, Course, advanced, begun, waited_for

UP = Answer(ready=True, reason="LinkUp")
DOWN = Answer(ready=False, reason="NoCarrier", message="ens1 has no carrier")
UNKNOWN = Answer(ready=None, reason="Unknown", message="it does not know")
SICK = Answer(ready=False, reason="Xid79", message="it fell off the bus")


def said(course: Course, answer: Answer, now_s: float, *, obstacle: Answer | None = None) -> Course:
    """The course after an answer, of a device that may take a minute."""
    return advanced(course, answer, obstacle=obstacle, within_s=60, now_s=now_s)


def test_ready_device_is_waited_for_no_more() -> None:
    """Nothing is due by time alone."""

    course = said(begun(100), UP, 105)

    assert (course.ready, course.failed(105).ready) == (UP, False)
    assert course.due_s(60) == math.inf
    assert waited_for([("nic-1", course)]) == ""


@pytest.mark.parametrize("answer", [DOWN, UNKNOWN, UNASKED])
def test_device_that_is_not_ready_in_time_is_given_up(answer: Answer) -> None:
    """First others are kept from it, a moment later its claim is told; nothing undoes that."""

    waiting = said(begun(100), answer, 159)
    assert (waiting.ready, waiting.given_up, waiting.due_s(60)) == (answer, None, 160)

    late = said(waiting, answer, 160)
    assert late.given_up is not None
    assert late.given_up.reason == "NotReadyInTime"
    assert answer.message in late.given_up.message
    assert late.due_s(60) == 160 + AHEAD_S
    assert (late.failed(160).ready, late.failed(160 + AHEAD_S).ready) == (False, True)
    assert said(late, UP, 161) == late
    assert late.ready.ready is False


def test_link_that_falls_again_has_its_whole_time_anew() -> None:
    """For as long as the pod may not be bound it is kept back."""

    fallen = said(said(begun(100), UP, 150), DOWN, 170)

    assert (fallen.ready, fallen.unready_s) == (DOWN, 170)
    assert said(fallen, DOWN, 229).given_up is None
    assert said(fallen, DOWN, 230).given_up is not None


def test_sick_device_is_given_up_at_once() -> None:
    """It is not waited for, and its own reason is told, ready or not."""

    course = said(begun(100), UP, 101, obstacle=SICK)

    assert course.given_up == SICK
    assert course.failed(101 + AHEAD_S) == Answer(
        ready=True, reason="Xid79", message="it fell off the bus"
    )


def test_clock_that_was_set_back_gives_nobody_up() -> None:
    """The time of an allocation may lie in the future, as the node's clock has it."""

    course = said(begun(5000), DOWN, 100)

    assert (course.unready_s, course.given_up) == (100, None)


def test_words_name_each_device_that_is_waited_for() -> None:
    """And none that is ready."""

    late = said(begun(0), DOWN, 60)

    assert waited_for(
        [("nic-1", said(begun(0), DOWN, 1)), ("nic-2", said(begun(0), UP, 1)), ("nic-3", late)]
    ) == (
        "nic-1 is not ready: ens1 has no carrier; nic-3 is given up, so that the scheduler takes "
        "another: it was not ready within 60 s: ens1 has no carrier"
    )
