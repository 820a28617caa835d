"""The answer to ``health.list``, and what other answers say of a device's health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from berth.health.course import Cause, Course
from berth.health.fold import shown
from berth.health.verdict import HealthState, Verdict
from berth.model.device import Nic
from berth.model.inventory import Inventory

Courses: TypeAlias = "Sequence[tuple[str, Course]]"
"""How a device's own subject fares, and each whole of it, by subject."""


def health_view(
    state: HealthState,
    inventory: Inventory,
    courses_of: Callable[[str], Courses],
    *,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Every device with its verdict, what speaks against it, and who asks it."""
    return {
        "warnings": list(warnings),
        "devices": [
            {
                "name": one.name,
                "identity": one.identity,
                "kind": one.kind.value if isinstance(one, Nic) else one.type,
                "group": one.group,
                "held_by": list(one.held_by),
                **verdict_entry(state.of(one.name)),
                "findings": list(_findings(courses_of(one.name))),
                "asked_by": list(_askers(courses_of(one.name))),
            }
            for one in inventory.every
        ],
    }


def verdict_entry(verdict: Verdict) -> dict[str, Any]:
    """One verdict."""
    severity = verdict.severity
    return {
        "status": verdict.status.value,
        "severity": severity.name.lower() if severity is not None else "",
        "reason": verdict.reason,
        "message": verdict.message,
        "causes": verdict.causes,
        "observed_s": verdict.observed_s,
        "timeout_s": verdict.timeout_s,
    }


def _findings(courses: Courses) -> Iterator[dict[str, Any]]:
    """The worst first, then the oldest."""
    found = [(subject, cause) for subject, course in courses for cause in course.causes]
    for subject, cause in sorted(found, key=lambda pair: _weight(pair[1])):
        yield {
            "code": cause.finding.code,
            "severity": cause.severity.name.lower(),
            "message": cause.finding.message,
            "source": cause.source,
            "subject": subject,
            "since": shown(cause.since.wall_s),
            "since_s": cause.since.wall_s,
            "healing": cause.gone_s is not None,
            "permanent": cause.finding.permanent,
        }


def _weight(cause: Cause) -> tuple[int, float]:
    return -cause.severity, cause.since.s


def _askers(courses: Courses) -> Iterator[dict[str, Any]]:
    for subject, course in courses:
        for source, asker in course.askers.items():
            yield {
                "source": source,
                "subject": subject,
                "confirmed_s": asker.confirmed.wall_s if asker.confirmed is not None else 0,
                "refused": asker.refused,
            }
