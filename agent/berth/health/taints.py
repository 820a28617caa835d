"""What a verdict keeps claims and pods from: the taints of a device, and its place in a list.

A device has one taint of health at most, that of its one verdict; its value is the reason. An
effect of ``None`` only tells.

Source: gpu-and-health.md §6.5; KC §9.1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from berth.health.verdict import Status, Verdict
from berth.model.device import Taint

DEGRADED: Final = "degraded"
FAULT: Final = "fault"
UNKNOWN: Final = "unknown"

TELLS: Final = "None"
"""Effect that keeps nobody from a device; servers know it from 1.35 on."""

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

HEALTH_WORDS: Final = frozenset({DEGRADED, FAULT, UNKNOWN})
"""Names of the taints of health; their keys have our driver's name before a slash."""

_WORDS: Final = {Status.HEALTHY: "", Status.UNHEALTHY: FAULT, Status.UNKNOWN: UNKNOWN}


@attrs.frozen(kw_only=True)
class Rules:
    """What an operator lets verdicts do.

    Attributes:
        driver: Our driver's name, the domain of our taints.
        unknown_effect: Effect of the taint on a device that nobody could ask lately.
        evict: Reasons for which the pods that have a device are ended too.
    """

    driver: str
    unknown_effect: str = TELLS
    evict: frozenset[str] = frozenset()


def taint_key(verdict: Verdict, driver: str) -> str:
    """Key of the taint that a verdict puts on a device; empty where it puts none."""
    word = _WORDS[verdict.status] or (DEGRADED if verdict.is_degraded else "")
    return f"{driver}/{word}" if word else ""


def taints_of(verdict: Verdict, rules: Rules) -> tuple[Taint, ...]:
    """The taints that a verdict puts on a device."""
    key = taint_key(verdict, rules.driver)
    if not key:
        return ()
    return (Taint(key=key, value=verdict.reason, effect=_effect(verdict, rules)),)


def _effect(verdict: Verdict, rules: Rules) -> str:
    if verdict.status is Status.UNHEALTHY:
        return NO_EXECUTE if verdict.reason in rules.evict else NO_SCHEDULE
    return rules.unknown_effect if verdict.status is Status.UNKNOWN else TELLS


def closes(verdict: Verdict, rules: Rules) -> bool:
    """Whether a device is listed as unhealthy, where there are no taints to tell it by."""
    return any(taint.effect != TELLS for taint in taints_of(verdict, rules))


def tolerates(tolerations: Collection[str], key: str) -> bool:
    """Whether keys of taints that a claim tolerates have one among them; ``""`` tolerates all."""
    return key in tolerations or "" in tolerations
