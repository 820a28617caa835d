"""What was last refused or is waited for, claim by claim and pod by pod.

A refused prepare leaves no record and a refused hook may leave none either, so that ``berth why``
would find nothing; here the words that kubelet or the runtime were given stay for a while. Bounded,
in memory only, changed on the trio thread alone.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from berth.model.claim import Claim

LIMIT: Final = 256
"""Troubles that are remembered; beyond it the oldest is forgotten."""


@attrs.frozen(kw_only=True)
class Trouble:
    """One refusal or wait.

    Attributes:
        claim: ``namespace/name`` of the claim; empty when it is a pod that was refused.
        pod: ``namespace/name`` of the pod; empty where only the claim is known.
        text: The words that were told.
        waiting: It is waited for something now, and nothing was refused yet.
        at: Time of the last one, RFC 3339.
        count: How often the same was told.
    """

    claim: str = ""
    pod: str = ""
    text: str
    waiting: bool = False
    at: str
    count: int = 1


class Troubles:
    """The troubles of now, by the UID of the claim or the pod that has them."""

    def __init__(self) -> None:
        self._troubles: dict[str, Trouble] = {}
        self._pods: dict[str, str] = {}

    def belongs(self, claim: Claim) -> None:
        """Take note of whose claim it is; kubelet says no more than its name."""
        pods = [consumer.name for consumer in claim.consumers if consumer.is_pod]
        if pods:
            self._pods.pop(claim.ref.uid, None)
            self._pods[claim.ref.uid] = f"{claim.ref.namespace}/{pods[0]}"
            _bound(self._pods)

    def note(self, uid: str, trouble: Trouble) -> None:
        """Take note of a refusal or a wait; it replaces what was known of ``uid``."""
        trouble = attrs.evolve(trouble, pod=trouble.pod or self._pods.get(uid, ""))
        before = self._troubles.pop(uid, None)
        if before is not None and (before.text, before.waiting) == (trouble.text, trouble.waiting):
            trouble = attrs.evolve(trouble, count=before.count + 1)
        self._troubles[uid] = trouble
        _bound(self._troubles)

    def forget(self, uid: str) -> None:
        """It is over; an unknown one is no fault."""
        self._troubles.pop(uid, None)
        self._pods.pop(uid, None)

    def all(self) -> tuple[Trouble, ...]:
        """Every trouble, oldest first."""
        return tuple(self._troubles.values())


def _bound(table: dict[str, Any]) -> None:
    while len(table) > LIMIT:
        del table[next(iter(table))]
