"""Claim records on disk and in memory: one file per claim, written before memory changes.

A file that cannot be read is kept aside under a new name and told; the claim's devices are then
found by what the system still shows (`Recovery.orphans`), never counted as free for want of a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import trio

from berth.errors import ClaimError, HostError
from berth.node.document import DamagedRecord, claim_from_bytes, to_bytes
from berth.node.record import ClaimRecord
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_SUFFIX: Final = ".json"
_log = get_log(__name__)


class Records:
    """Every record of the node.

    Each claim has a lock; whoever changes a record holds its claim's lock over the whole change.

    Args:
        folder: Where the files are; made by `load`.

    Attributes:
        changes: Counts the changes, for those who wait for one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder)
        self._records: dict[str, ClaimRecord] = {}
        # A lock lives as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self.changes: Latest[int] = Latest(0)

    async def load(self) -> tuple[str, ...]:
        """Read every file of the folder, setting unreadable ones aside.

        Returns:
            What was set aside, or could not be, one sentence each.

        Raises:
            StateError: A file is of a newer program; nothing may be undone that we cannot read.
            HostError: The folder itself cannot be made or listed.
        """
        await self._folder.make()
        try:
            await self._folder.sweep()
        except HostError as error:
            _log.warning("leftovers of interrupted writes stay", reason=error)
        found = []
        for name in await self._folder.names(suffix=_SUFFIX, any_kind=True):
            try:
                await self._read(name)
            except (DamagedRecord, HostError) as error:
                found.append(f"{error}; {await self._set_aside(name)}")
        return tuple(found)

    async def _read(self, name: str) -> None:
        where = str(self._folder.path / name)
        content = await self._folder.read(name)
        if content is None:
            raise HostError(where, "leads nowhere")
        record = claim_from_bytes(content, where=where)
        # The UID may be what no file can be named by, so it is not asked for its file's name.
        if record.claim.uid != name.removesuffix(_SUFFIX):
            raise DamagedRecord(where, f"is the record of claim {record.claim.uid!r}")
        self._records[record.claim.uid] = record

    async def _set_aside(self, name: str) -> str:
        try:
            return f"kept as {await self._folder.quarantine(name)}"
        except HostError as error:
            # On a read-only disk the daemon runs on all the same; the next start tries again.
            return f"left where it is, since {error}"

    def lock(self, uid: str) -> trio.Lock:
        """The lock of the claim ``uid``; the same object as long as anybody holds it."""
        lock = self._locks.get(uid)
        if lock is None:
            lock = self._locks[uid] = trio.Lock()
        return lock

    @contextlib.asynccontextmanager
    async def locked(self, uids: Iterable[str]) -> AsyncIterator[list[ClaimRecord]]:
        """The records of those claims that exist, locked in one order for everybody."""
        ordered = sorted(set(uids))
        async with contextlib.AsyncExitStack() as stack:
            for uid in ordered:
                await stack.enter_async_context(self.lock(uid))
            found = [self.get(uid) for uid in ordered]
            yield [record for record in found if record is not None]

    def get(self, uid: str) -> ClaimRecord | None:
        """The record of the claim, if there is one."""
        return self._records.get(uid)

    def all(self) -> tuple[ClaimRecord, ...]:
        """Every record, in the order in which they came; after a start, by UID."""
        return tuple(self._records.values())

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """Prepared records that the pod consumes and that nobody asked to undo."""
        return tuple(
            record
            for record in self._records.values()
            if record.serves_pod(pod_uid) and record.prepared and not record.revoked
        )

    def away(self) -> Iterator[tuple[ClaimRecord, int]]:
        """Every NIC that is not known to be at home, as record and device index."""
        for record in self.all():
            for index, device in enumerate(record.devices):
                if device.nic is not None and device.nic.is_away:
                    yield record, index

    async def put(self, record: ClaimRecord) -> None:
        """Write the record, then hold it as the truth; on an error nothing has changed.

        A cancel is served before or after, never between.

        Raises:
            ClaimError: The claim's UID cannot be the name of a file.
            HostError: The disk refused.
        """
        name = _name(record.claim.uid)
        with trio.CancelScope(shield=True):
            await self._folder.write(name, to_bytes(record))
        self._hold(record)

    async def put_or_note(self, record: ClaimRecord) -> None:
        """Write the record if the disk takes it, and hold it as the truth in either case.

        For steps homewards only: hardware is freed on a full disk too, and the older record on
        disk leads the next start to the same steps again.
        """
        try:
            await self.put(record)
        except HostError as error:
            _log.warning("record not written, going on homewards", reason=error)
            self._hold(record)

    async def delete(self, uid: str) -> None:
        """Forget the claim; an unknown one is no fault.

        Raises:
            HostError: The disk refused; the record stands.
        """
        with trio.CancelScope(shield=True):
            await self._folder.remove(_name(uid))
        if self._records.pop(uid, None) is not None:
            self._notify()

    def _hold(self, record: ClaimRecord) -> None:
        self._records[record.claim.uid] = record
        self._notify()

    def _notify(self) -> None:
        self.changes.set(self.changes.get() + 1)


def _name(uid: str) -> str:
    if not uid or "/" in uid or uid.startswith(".") or "\0" in uid:
        raise ClaimError(f"claim UID {uid!r}", "is no name of a file")
    return f"{uid}{_SUFFIX}"
