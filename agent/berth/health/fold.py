"""From all that speaks against a device to the one verdict on it.

The worst cause wins, then the oldest. A fault stands though everybody is silent; well is only what
was confirmed lately.

Source: gpu-and-health.md §6.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Final

import attrs

from berth.health.course import Asker, Cause, Course, Moment, asked_of
from berth.health.finding import MESSAGE_LIMIT, Severity, cut
from berth.health.terms import Terms
from berth.health.verdict import UNASKED, Status, Verdict

EXPIRED: Final = "expired"
"""Reason of a verdict that nobody has confirmed in time."""

REFUSED: Final = "cannot-ask"
"""Reason of a verdict while somebody who asks the device cannot."""

_NAMED: Final = 3
# How many others a message names by their codes.

_MARK: Final = "…"


@attrs.frozen(kw_only=True)
class Doubt:
    """Why nothing is known."""

    reason: str
    message: str


def fold(courses: Sequence[Course], terms: Terms, at: Moment) -> Verdict:
    """The verdict on a device now.

    Args:
        courses: Of the device, and of its wholes from the nearest on.
        terms: Of the device.
    """
    causes = sorted(_causes(courses), key=lambda cause: (-cause.severity, cause.since.s))
    worst = causes[0] if causes else None
    doubt = _doubt(courses, terms, at)
    bare = Verdict(
        status=Status.HEALTHY,
        severity=worst.severity if worst is not None else None,
        reason=worst.finding.code if worst is not None else "",
        message=_message(causes, courses),
        causes=len(causes),
        observed_s=_observed_s(courses),
        timeout_s=terms.timeout_s,
    )
    if worst is not None and worst.severity >= Severity.FAULT:
        return attrs.evolve(bare, status=Status.UNHEALTHY)
    if doubt is None:
        return bare
    also = f"; besides: {bare.message}" if bare.message else ""
    return attrs.evolve(
        bare,
        status=Status.UNKNOWN,
        reason=doubt.reason,
        message=ended(doubt.message, also),
    )


def expires_s(courses: Sequence[Course], terms: Terms, at: Moment) -> float:
    """When the last confirmation is too old, if none follows; infinity where it is so already."""
    due_s = _oldest_s(courses) + terms.timeout_s
    return due_s if due_s > at.s else math.inf


def ended(text: str, ending: str, *, limit: int = MESSAGE_LIMIT) -> str:
    """A text with an ending that is whole; what is too long for both is cut off the text."""
    rest = cut(ending, limit)
    room = limit - len(rest.encode())
    if len(text.encode(errors="replace")) <= room:
        return cut(text, room) + rest
    return cut(f"{cut(text, room - len(_MARK.encode()))}{_MARK}", room) + rest


def shown(wall_s: int) -> str:
    """A moment for people, such as ``2026-11-30 17:12:49 UTC``."""
    try:
        moment = datetime.fromtimestamp(wall_s, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return f"{wall_s} s after 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _causes(courses: Sequence[Course]) -> Iterator[Cause]:
    """What counts: a code that one source told both milder and worse is one cause."""
    for course in courses:
        worst: dict[tuple[str, str], Cause] = {}
        for cause in course.causes:
            place = cause.source, cause.finding.code
            if place not in worst or cause.severity > worst[place].severity:
                worst[place] = cause
        yield from worst.values()


def _message(causes: Sequence[Cause], courses: Sequence[Course]) -> str:
    flaps = any(course.flapping.doublings for course in courses)
    ending = "; flapping" if flaps else ""
    if not causes:
        return ending.removeprefix("; ")
    worst = causes[0]
    # Two sources may see the same thing; it is told once.
    others = [cause for cause in causes if cause.finding.code != worst.finding.code]
    if others:
        codes = [cause.finding.code for cause in others[:_NAMED]]
        more = ", …" if len(others) > _NAMED else ""
        ending = f"; {len(others)} more: {', '.join(codes)}{more}{ending}"
    ending = f" (since {shown(worst.since.wall_s)}){ending}"
    return ended(worst.finding.message or worst.finding.code, ending)


def _asking(courses: Sequence[Course]) -> tuple[Asker, ...]:
    course = asked_of(courses)
    return tuple(course.askers.values()) if course is not None else ()


def _doubt(courses: Sequence[Course], terms: Terms, at: Moment) -> Doubt | None:
    """Why it cannot be said that the device is well; ``None`` when it can."""
    askers = _asking(courses)
    for asker in askers:
        if asker.refused:
            since = f" (since {shown(asker.refused_at.wall_s)})" if asker.refused_at else ""
            return Doubt(reason=REFUSED, message=f"it cannot be asked: {asker.refused}{since}")
    if not askers or any(asker.confirmed is None for asker in askers):
        return Doubt(reason=UNASKED.reason, message=UNASKED.message)
    if _oldest_s(courses) + terms.timeout_s <= at.s:
        since = shown(_observed_s(courses))
        message = f"nobody has confirmed it since {since}, and a word holds for {terms.timeout_s} s"
        return Doubt(reason=EXPIRED, message=message)
    return None


def _oldest_s(courses: Sequence[Course]) -> float:
    """The last confirmation of whoever asks most seldom; minus infinity without one."""
    found = [asker.confirmed for asker in _asking(courses)]
    return min((-math.inf if one is None else one.s for one in found), default=-math.inf)


def _observed_s(courses: Sequence[Course]) -> int:
    found = [asker.confirmed for asker in _asking(courses)]
    if not found or None in found:
        return 0
    return min((one.s, one.wall_s) for one in found if one is not None)[1]
