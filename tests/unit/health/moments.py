"""Moments, findings and subjects for tests of health."""

from __future__ import annotations

from typing import Final

from berth.health.course import Course, Moment
from berth.health.finding import Finding, Severity
from berth.health.terms import Terms

TERMS: Final = Terms(interval_s=5, deadline_s=4, timeout_s=30)
HOLD_S: Final = TERMS.recover_after_s
LOST: Final = Finding(code="lost", severity=Severity.LOST, message="it fell off the bus; reboot")
SICK: Final = Finding(code="xid-48", severity=Severity.FAULT, message="two bits flipped; reset it")
MUTE: Final = Finding(code="no-answer", severity=Severity.FAULT, message="it does not answer")
WORN: Final = Finding(code="remap-pending", severity=Severity.DEGRADED, message="reset it soon")

EPOCH: Final = 1_800_000_000
"""What the wall says at 0 s."""


def at(s: float) -> Moment:
    """So many seconds after the beginning."""
    return Moment(s=s, wall_s=EPOCH + int(s))


def heard(course: Course, *findings: Finding, s: float, source: str = "nvml") -> Course:
    """After a source has asked, and named these; what has healed until then is gone."""
    settled = course.settled(at(s), recover_after_s=HOLD_S, asked=course)
    return settled.reported(source, findings, asked=True, at=at(s))


def codes(course: Course) -> list[str]:
    """What speaks against it."""
    return [cause.finding.code for cause in course.causes]
