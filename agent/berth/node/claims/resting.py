"""Devices that were given up, and are kept from claims for a while or until they are ready."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from berth.runtime.latest import Latest


class Kept(Protocol):
    """Where a restart finds them; see `berth.node.claims.restfile`."""

    async def read(self, now_s: float) -> Mapping[str, float]:
        """Give those that still rest, and until when."""

    async def write(self, until_s: Mapping[str, float]) -> None:
        """Put these in their place."""


class Resting:
    """Who rests until when, in seconds since 1970.

    Args:
        kept: Keeps them over a restart: a taint must not go with the process (GH §9, fault 7).

    Attributes:
        names: Slice names of those that rest.
    """

    def __init__(self, kept: Kept) -> None:
        self.names: Latest[frozenset[str]] = Latest(frozenset())
        self._kept = kept
        self._until_s: Latest[Mapping[str, float]] = Latest({})
        self._written: Mapping[str, float] = {}

    async def load(self, now_s: float) -> None:
        """Take up what rested in the last life."""
        self._written = await self._kept.read(now_s)
        self._until_s.set(self._written)
        self.names.set(frozenset(self._written))

    async def run(self) -> None:
        """Have it on disk what rests, until cancelled; a disk that hangs keeps nobody else."""
        async for until_s in self._until_s.changes():
            if until_s != self._written:
                await self._kept.write(until_s)
                self._written = until_s

    def begin(self, name: str, until_s: float) -> None:
        """Let a device rest from the next `settle` on."""
        self._until_s.set({**self._until_s.get(), name: until_s})

    def settle(self, now_s: float, *, is_ready: Callable[[str], bool]) -> float:
        """Let devices be offered again that are ready, or have rested; gives the next moment."""
        left = {
            name: until_s
            for name, until_s in self._until_s.get().items()
            if until_s > now_s and not is_ready(name)
        }
        self._until_s.set(left)
        self.names.set(frozenset(left))
        return min(left.values(), default=math.inf)
