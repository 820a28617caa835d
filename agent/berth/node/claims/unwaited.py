"""Devices that nobody waited for before their pod was bound, though their group asks for it.

The API server may drop conditions, or drop them no more since the claim was allocated. Then the pod
is bound to this node and to this device, and its prepare waits, which is all that can be done.

Source: KC §9.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from berth.model.claim import Claim
from berth.model.inventory import Inventory
from berth.model.readiness import UNASKED, Answer
from berth.readiness.demands import Demands
from berth.runtime.latest import Latest


class Asks(Protocol):
    """Who asks devices; see `berth.node.watches.readiness.ReadinessWatch`."""

    @property
    def answers(self) -> Latest[Mapping[str, Answer]]:
        """By slice name, what those say that somebody waits for."""
        ...

    def want(self, who: str, names: Iterable[str]) -> None:
        """Somebody waits for these, and for no others."""
        ...


class Unwaited:
    """What a prepare has to wait for.

    Args:
        asks: Asks devices.
        inventory: Which devices there are.
        demands: What groups ask for.
    """

    def __init__(
        self, asks: Asks, *, inventory: Latest[Inventory], demands: Latest[Demands]
    ) -> None:
        self._asks = asks
        self._inventory = inventory
        self._demands = demands

    @property
    def answers(self) -> Latest[Mapping[str, Answer]]:
        """What devices say."""
        return self._asks.answers

    @contextlib.contextmanager
    def asking(self, claim: Claim) -> Iterator[None]:
        """Have a claim's devices asked for a block."""
        who = f"prepare {claim.ref.uid}"
        self._asks.want(who, self._names(claim))
        try:
            yield
        finally:
            self._asks.want(who, ())

    def unready(self, claim: Claim) -> str:
        """Which of a claim's devices are not ready, in words; empty for none."""
        answers = self._asks.answers.get()
        said = ((name, answers.get(name, UNASKED)) for name in self._names(claim))
        return "; ".join(
            f"{name} is not ready: {answer.message or answer.reason}"
            for name, answer in said
            if not answer.ready
        )

    def _names(self, claim: Claim) -> tuple[str, ...]:
        return tuple(
            result.device
            for result in claim.results
            if not result.admin_access
            and result.device not in claim.awaited
            and self._is_demanded(result.device)
        )

    def _is_demanded(self, name: str) -> bool:
        one = self._inventory.get().seen(name)
        return one is not None and self._demands.get().of_seen(one) is not None
