"""Devices that were given up, and are kept from claims for a while or until they are ready.

They are in one small file of the state folder, so that a restart offers none too early. Nothing but
a late taint depends on it.

Source: GH §9, fault 7.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from berth.config.bind import REST_LIMIT_S
from berth.model.envelope import Damaged, opened
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.statefile import StateFile

FILE: Final = "rests.json"
SCHEMA: Final = 1

RestFile: TypeAlias = StateFile[Mapping[str, float]]
"""Until when devices rest, by slice name, in seconds since 1970."""


def rest_file(folder: Folder) -> RestFile:
    """Those that are kept in the state folder."""
    return StateFile(
        folder,
        FILE,
        to_bytes=_to_bytes,
        from_bytes=_from_bytes,
        lost="devices that rest are lost, they are offered again",
        unwritten="a restart would offer devices that rest",
    )


class Resting:
    """Who rests until when, in seconds since 1970.

    Args:
        file: Keeps them over a restart: a taint must not go with the process.

    Attributes:
        names: Slice names of those that rest.
    """

    def __init__(self, file: RestFile) -> None:
        self.names: Latest[frozenset[str]] = Latest(frozenset())
        self._file = file
        self._until_s: Latest[Mapping[str, float]] = Latest({})
        self._written: Mapping[str, float] = {}

    async def load(self, now_s: float) -> None:
        """Take up what rested in the last life, as far as it still does.

        No rest ends farther away than one can be, whatever the clock was when it began.
        """
        most_s = now_s + REST_LIMIT_S
        found = await self._file.read() or {}
        left = {name: min(at_s, most_s) for name, at_s in found.items() if at_s > now_s}
        self._written = left
        self._until_s.set(left)
        self.names.set(frozenset(left))

    async def run(self) -> None:
        """Have it on disk what rests, until cancelled; a disk that hangs keeps nobody else."""
        async for until_s in self._until_s.changes():
            if until_s != self._written:
                await self._file.write_or_note(until_s)
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


def _to_bytes(until_s: Mapping[str, float]) -> bytes:
    return json.dumps({"schema": SCHEMA, "until": dict(sorted(until_s.items()))}).encode()


def _from_bytes(content: bytes, /, *, where: str) -> Mapping[str, float]:
    until_s = opened(content, schema=SCHEMA, where=where).get("until")
    if not isinstance(until_s, dict):
        raise Damaged(where, "has no moments")
    if not all(type(at_s) in {int, float} for at_s in until_s.values()):
        raise Damaged(where, "has a moment that is no number")
    return until_s
