"""How one device of a claim whose pod is not bound yet fares: it waits, is ready, or is given up.

The scheduler reads two conditions (KC §9.2). ``ready`` follows the device for as long as the pod
may not be bound: a link that falls again keeps the pod back. ``failed`` is final for one
allocation. Whoever gives a device up keeps claims from it first (`AHEAD_S`), since the scheduler
would choose the same one again.

Times are seconds since 1970 by the node's clock: they outlive the process, in conditions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs

from berth.model.readiness import UNASKED, Answer

AHEAD_S: Final = 1.0
"""How long before its claim is told a device that is given up is kept from others: the publisher
gathers changes for 0.05 s, and writes them in one or two requests."""

PREPARED: Final = Answer(ready=True, reason="Prepared", message="it was prepared for its pod")
"""Of a device that its pod has, or is about to have: the scheduler is done with it."""

_NO_FAILURE: Final = Answer(ready=False, reason="InTime")


@attrs.frozen(kw_only=True)
class Course:
    """How far it is.

    Attributes:
        answer: What was said of it last.
        unready_s: Since when it is not ready; ``None`` while it is.
        given_up: Why it was given up; ``None`` while it was not.
        given_up_s: When that was.
    """

    answer: Answer = UNASKED
    unready_s: float | None
    given_up: Answer | None = None
    given_up_s: float = math.inf

    def is_failed(self, now_s: float) -> bool:
        """Whether its claim is to be told that it was given up."""
        return now_s >= self.given_up_s + AHEAD_S

    @property
    def ready(self) -> Answer:
        """What ``ready`` says: of a device that was given up, that it is not."""
        if self.given_up is not None:
            return attrs.evolve(self.given_up, ready=False)
        return self.answer

    def failed(self, now_s: float) -> Answer:
        """What ``failed`` says; it holds where the answer's ``ready`` is true."""
        if self.given_up is None or not self.is_failed(now_s):
            return _NO_FAILURE
        return attrs.evolve(self.given_up, ready=True)

    def due_s(self, within_s: float) -> float:
        """When to look at it again though nothing is said."""
        if self.given_up is not None:
            return self.given_up_s + AHEAD_S
        return math.inf if self.unready_s is None else self.unready_s + within_s


def begun(since_s: float) -> Course:
    """The course of a device that was not ready at that time."""
    return Course(unready_s=since_s)


def advanced(
    course: Course, answer: Answer, *, obstacle: Answer | None, within_s: float, now_s: float
) -> Course:
    """The course after something was said, or some time went by.

    Args:
        answer: What is said of it now.
        obstacle: Why nobody gets it, ready or not, such as a fault; no time is lost with it.
        within_s: How long it may be not ready.
    """
    if course.given_up is not None:
        return course
    if obstacle is not None:
        return attrs.evolve(course, answer=answer, given_up=obstacle, given_up_s=now_s)
    if answer.ready:
        return attrs.evolve(course, answer=answer, unready_s=None)
    since_s = now_s if course.unready_s is None else min(course.unready_s, now_s)
    after = attrs.evolve(course, answer=answer, unready_s=since_s)
    if now_s < since_s + within_s:
        return after
    late = Answer(
        ready=False,
        reason="NotReadyInTime",
        message=f"it was not ready within {within_s:g} s: {answer.message or answer.reason}",
    )
    return attrs.evolve(after, given_up=late, given_up_s=now_s)


def waited_for(courses: Sequence[tuple[str, Course]]) -> str:
    """What a claim waits for, in words; empty when for nothing.

    Args:
        courses: Each with the name of its device.
    """
    return "; ".join(
        f"{name} {_words(course)}"
        for name, course in courses
        if course.given_up is not None or not course.answer.ready
    )


def _words(course: Course) -> str:
    if course.given_up is not None:
        return f"is given up, so that the scheduler takes another: {course.given_up.message}"
    return f"is not ready: {course.answer.message or course.answer.reason}"
