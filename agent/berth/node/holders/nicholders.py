"""Everybody for whom NICs are moved: claims, and containers that asked for a resource.

What moves a NIC, looks after it and brings it home needs to know no door: it works on records that
have NICs in them, whose they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import trio

from berth.nic.config.children import child_of
from berth.nic.config.devicefacts import Child
from berth.nic.record import NicRecord
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.records.shelf import Shelf, all_of

NicHolder: TypeAlias = "ClaimRecord | Given"
"""A record with NICs in it."""

H = TypeVar("H", ClaimRecord, Given)
"""One or the other, and the same again."""


class NicHolders:
    """The records of both doors, as one.

    Args:
        claims: Those of claims.
        given: Those of the device plugin; ``None`` where there is none.
    """

    def __init__(self, claims: Records, given: Shelf[Given] | None = None) -> None:
        self._claims = claims
        self._given = given

    def get(self, uid: str) -> NicHolder | None:
        """The record, if there is one."""
        given = self._given.get(uid) if self._given is not None else None
        return given or self._claims.get(uid)

    def all(self) -> tuple[NicHolder, ...]:
        """Every record, claims first."""
        return (*self._claims.all(), *(self._given.all() if self._given is not None else ()))

    def of_pod(self, pod_uid: str) -> tuple[NicHolder, ...]:
        """Prepared records whose NICs are for the pod, and that nobody asked to undo."""
        return tuple(
            record
            for record in self.all()
            if record.serves_pod(pod_uid) and record.prepared and not record.revoked
        )

    def lock(self, uid: str) -> trio.Lock:
        """The lock of a record that there is."""
        if self._given is not None and self._given.get(uid) is not None:
            return self._given.lock(uid)
        return self._claims.lock(uid)

    @contextlib.asynccontextmanager
    async def locked(self, uids: Iterable[str]) -> AsyncIterator[list[NicHolder]]:
        """Those of the records that exist, locked in one order for everybody."""
        ordered = sorted(set(uids))
        async with all_of(map(self.lock, ordered)):
            yield [record for record in map(self.get, ordered) if record is not None]

    async def put(self, record: NicHolder) -> None:
        """Write a record, as `Shelf.put` does.

        Raises:
            HostError: The disk refused.
        """
        if isinstance(record, ClaimRecord):
            await self._claims.put(record)
        elif self._given is not None:
            await self._given.put(record)

    async def put_or_note(self, record: NicHolder) -> None:
        """Write a record if the disk takes it, as `Shelf.put_or_note` does."""
        if isinstance(record, ClaimRecord):
            await self._claims.put_or_note(record)
        elif self._given is not None:
            await self._given.put_or_note(record)


def nics_of(record: NicHolder) -> Iterator[tuple[int, NicRecord]]:
    """Every NIC of a record, by the index of its device."""
    for index, nic in enumerate(record.nics):
        if nic is not None:
            yield index, nic


def children_of(records: Iterable[NicHolder]) -> Mapping[str, tuple[Child, ...]]:
    """Links that holders have, or will have, over each parent, by its identity."""
    found: dict[str, list[Child]] = {}
    for record in records:
        holder = f"claim {record.claim}" if isinstance(record, ClaimRecord) else str(record.holder)
        for _, nic in nics_of(record):
            child = child_of(nic.config, holder)
            if child is not None:
                found.setdefault(nic.identity, []).append(child)
    return {identity: tuple(children) for identity, children in found.items()}
