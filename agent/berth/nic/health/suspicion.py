"""What is told only once it has held for a while.

A cable that is plugged in, or a driver that is bound anew, looks like a fault for a moment; and a
fault that was told once takes its time to heal. So some evidence waits, by its code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import attrs

from berth.errors import printable
from berth.health.finding import Finding, Severity, cut


@attrs.frozen(kw_only=True)
class Suspicion:
    """A finding, and when it may be told.

    Attributes:
        after_s: How long it must have held.
        not_before_s: It waits for that moment, too.
    """

    finding: Finding
    after_s: float = 0.0
    not_before_s: float = -math.inf


@attrs.frozen(kw_only=True)
class Weighed:
    """What became of suspicions.

    Attributes:
        findings: What is told now.
        since_s: Since when each suspicion holds, by its code.
        due_s: When the next one would be told; infinite where none waits.
    """

    findings: tuple[Finding, ...]
    since_s: Mapping[str, float]
    due_s: float


def weigh(
    suspicions: Iterable[Suspicion], before_s: Mapping[str, float], *, at_s: float
) -> Weighed:
    """Tell what has held for long enough.

    Args:
        before_s: `Weighed.since_s` of the look before. What was told in another life of the daemon
            holds since for ever, and waits for nothing.
    """
    findings: list[Finding] = []
    since_s: dict[str, float] = {}
    due_s = math.inf
    for one in suspicions:
        code = one.finding.code
        since = since_s.setdefault(code, before_s.get(code, at_s))
        told_s = max(since + one.after_s, one.not_before_s) if since > -math.inf else since
        if told_s <= at_s:
            findings.append(one.finding)
        else:
            due_s = min(due_s, told_s)
    return Weighed(findings=tuple(findings), since_s=since_s, due_s=due_s)


def found(code: str, severity: Severity, message: str, *, after_s: float = 0.0) -> Suspicion:
    """A suspicion in one line."""
    return Suspicion(finding=finding_of(code, severity, message), after_s=after_s)


def finding_of(code: str, severity: Severity, message: str) -> Finding:
    """A finding whose message, with whatever names are in it, can be shown."""
    return Finding(code=code, severity=severity, message=cut(printable(message)))
