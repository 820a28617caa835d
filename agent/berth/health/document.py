"""What speaks against devices as bytes of a file, and back.

What an agent knew when it ended holds for the next one: its restart heals no device. A new boot
does, apart from what a person said and what is said to be for good.

Times by the clock that nobody sets mean nothing to the next process, so ages are written. Whether a
cause was healing is not: the next one waits until its source speaks.

Source: gpu-and-health.md §6.1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

import attrs

from berth.health.course import Cause, Course, Flapping, Moment
from berth.health.finding import OPERATOR, Finding, Severity, cut
from berth.model.envelope import opened
from berth.model.names import is_dns_label
from berth.model.structure import Misfit, from_json, to_json

SCHEMA: Final = 1
"""Number of the form of today."""

_DOUBLINGS: Final = 10


@attrs.frozen(kw_only=True)
class KeptCause:
    """One cause.

    Attributes:
        severity: The word for it, in lower case.
        since_s: In seconds since 1970.
        age_s: How long it has held when it was written.
    """

    source: str
    code: str
    severity: str
    message: str
    since_s: int
    age_s: float
    permanent: bool = False


@attrs.frozen(kw_only=True)
class KeptCourse:
    """One subject."""

    subject: str
    causes: tuple[KeptCause, ...]
    doublings: int = 0


@attrs.frozen(kw_only=True)
class KeptCourses:
    """Every subject against which something speaks."""

    boot_id: str
    courses: tuple[KeptCourse, ...]


def kept_of(courses: Mapping[str, Course], *, boot_id: str, at: Moment) -> KeptCourses:
    """What of the courses outlives this process."""
    return KeptCourses(
        boot_id=boot_id,
        courses=tuple(
            _kept(subject, course, at)
            for subject, course in sorted(courses.items())
            if course.causes
        ),
    )


def same(one: Course, other: Course) -> bool:
    """Whether of two courses the same outlives this process, whenever and in whichever words.

    A command may say another number in each turn; its words are written with what else changes.
    """
    return one is other or _told(one) == _told(other)


def to_bytes(kept: KeptCourses) -> bytes:
    """The file."""
    document = {"schema": SCHEMA, "health": to_json(kept)}
    return json.dumps(document, sort_keys=True).encode() + b"\n"


def from_bytes(content: bytes, *, where: str) -> KeptCourses:
    """Read a file that `to_bytes` made.

    Raises:
        StateError: It is none, or one of a newer program.
    """
    document = opened(content, schema=SCHEMA, where=where)
    kept = from_json(KeptCourses, document.get("health"), where=f"{where}: health")
    for course in kept.courses:
        for cause in course.causes:
            _require_sound(cause, f"{where}: {course.subject}")
    return kept


def recalled(kept: KeptCourses, *, boot_id: str, at: Moment) -> Mapping[str, Course]:
    """The courses as they go on now."""
    is_same_boot = kept.boot_id == boot_id
    found = {each.subject: _course(each, is_same_boot, at) for each in kept.courses}
    return {subject: course for subject, course in found.items() if course.causes}


def _kept(subject: str, course: Course, at: Moment) -> KeptCourse:
    return KeptCourse(
        subject=subject,
        causes=tuple(
            KeptCause(
                source=cause.source,
                code=cause.finding.code,
                severity=cause.severity.name.lower(),
                message=cut(cause.finding.message),
                since_s=cause.since.wall_s,
                age_s=float(max(at.s - cause.since.s, 0)),
                permanent=cause.finding.permanent,
            )
            for cause in course.causes
        ),
        doublings=course.flapping.doublings,
    )


def _told(course: Course) -> tuple[object, ...]:
    """What of a course is written down, but for ages and words."""
    causes = tuple((each.key, each.finding.permanent, each.since.wall_s) for each in course.causes)
    return causes, course.flapping.doublings


def _require_sound(cause: KeptCause, where: str) -> None:
    if cause.severity not in _severities():
        raise Misfit(where, f"has the severity {cause.severity!r}")
    if not is_dns_label(cause.code):
        # It becomes the value of a taint, and a server would refuse the whole device for another.
        raise Misfit(where, f"has the code {cause.code!r}")
    if not math.isfinite(cause.age_s) or cause.age_s < 0:
        raise Misfit(where, f"has an age of {cause.age_s} s")


def _severities() -> Mapping[str, Severity]:
    return {severity.name.lower(): severity for severity in Severity}


def _course(kept: KeptCourse, is_same_boot: bool, at: Moment) -> Course:
    causes = (_cause(each, at) for each in kept.causes if is_same_boot or _outlives_boot(each))
    return Course(
        causes=tuple(sorted(causes, key=lambda cause: cause.since.s)),
        flapping=_flapping(kept.doublings, at) if is_same_boot else Flapping(),
    )


def _flapping(doublings: int, at: Moment) -> Flapping:
    """Hold times that were doubled stay so until it is quiet for long enough in this life too."""
    if doublings < 1:
        return Flapping()
    return Flapping(changes=(at.s,), doublings=min(doublings, _DOUBLINGS))


def _outlives_boot(cause: KeptCause) -> bool:
    return cause.permanent or cause.source == OPERATOR


def _cause(kept: KeptCause, at: Moment) -> Cause:
    return Cause(
        source=kept.source,
        finding=Finding(
            code=kept.code,
            severity=_severities()[kept.severity],
            message=kept.message,
            permanent=kept.permanent,
        ),
        since=Moment(s=at.s - kept.age_s, wall_s=kept.since_s),
    )
