"""What the scheduler makes of a claim whose devices it waits for, before it binds the pod.

Source: KC §9.2, and what tests/cluster/test_binding.py sees of the scheduler of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from berth.rehearsal.apiserver.claimrules import device_key

Json: TypeAlias = "Mapping[str, Any]"


class Readiness(Enum):
    """Whether a pod with the claim may be bound."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"
    """The allocation is to be cleared, and the pod is scheduled anew."""


def readiness_of(claim: Json) -> Readiness:
    """Whether every condition of every device holds, and none that gives the claim up."""
    status = claim.get("status") or {}
    told = {device_key(entry): _holding(entry) for entry in status.get("devices") or ()}
    results = [(one, told.get(device_key(one), frozenset())) for one in _awaited(status)]
    if any(not held.isdisjoint(one.get("bindingFailureConditions") or ()) for one, held in results):
        return Readiness.FAILED
    if all(held.issuperset(one["bindingConditions"]) for one, held in results):
        return Readiness.READY
    return Readiness.WAITING


def _awaited(status: Json) -> Iterator[Json]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return (one for one in devices.get("results") or () if one.get("bindingConditions"))


def _holding(entry: Json) -> frozenset[str]:
    conditions = entry.get("conditions") or ()
    return frozenset(one["type"] for one in conditions if one["status"] == "True")
