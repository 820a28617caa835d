"""Records of one kind on disk and in memory: one file each, written before memory changes.

A file that cannot be read is kept aside under a new name and told, never counted as absent without
a word.

Each record has a lock; where a record is changed from several places, whoever changes it holds that
over the whole change.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

import trio

from berth.errors import ClaimError, HostError
from berth.model.envelope import Damaged
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

T = TypeVar("T")

_SUFFIX: Final = ".json"
_log = get_log(__name__)


@contextlib.asynccontextmanager
async def all_of(locks: Iterable[trio.Lock]) -> AsyncIterator[None]:
    """Hold every lock, taken in this order: one for everybody, or two may wait for each other."""
    async with contextlib.AsyncExitStack() as stack:
        for lock in locks:
            await stack.enter_async_context(lock)
        yield


class Shelf(Generic[T]):
    """Every record of one kind, by its UID.

    Args:
        folder: Where the files are; made by `load`.
        uid_of: The UID of a record, which is its file's name.
        to_bytes: The file of a record.
        from_bytes: The record of a file, given its path for errors.

    Attributes:
        changes: Counts the changes, for those who wait for one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        uid_of: Callable[[T], str],
        to_bytes: Callable[[T], bytes],
        from_bytes: Callable[[bytes, str], T],
    ) -> None:
        self._folder = Folder(folder)
        self._uid_of = uid_of
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes
        self._records: dict[str, T] = {}
        # A lock lives as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self.changes: Latest[int] = Latest(0)

    def lock(self, uid: str) -> trio.Lock:
        """The lock of the record ``uid``; the same object as long as anybody holds it."""
        lock = self._locks.get(uid)
        if lock is None:
            lock = self._locks[uid] = trio.Lock()
        return lock

    @contextlib.asynccontextmanager
    async def locked(self, uids: Iterable[str]) -> AsyncIterator[list[T]]:
        """Those of the records that exist, locked in one order for everybody."""
        ordered = sorted(set(uids))
        async with all_of(map(self.lock, ordered)):
            yield [record for record in map(self.get, ordered) if record is not None]

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
            except (Damaged, HostError) as error:
                found.append(f"{error}; {await self._folder.set_aside(name)}")
        return tuple(found)

    async def _read(self, name: str) -> None:
        where = str(self._folder.path / name)
        content = await self._folder.read(name)
        if content is None:
            raise HostError(where, "leads nowhere")
        record = self._from_bytes(content, where)
        uid = self._uid_of(record)
        if f"{uid}{_SUFFIX}" != name:
            raise Damaged(where, f"is the record of {uid!r}")
        self._records[uid] = record

    @property
    def folder(self) -> Folder:
        """Where they lie, for its figures."""
        return self._folder

    def get(self, uid: str) -> T | None:
        """The record, if there is one."""
        return self._records.get(uid)

    def all(self) -> tuple[T, ...]:
        """Every record, in the order in which they came; after a start, by UID."""
        return tuple(self._records.values())

    async def put(self, record: T) -> None:
        """Write the record, then hold it as the truth; on an error nothing has changed.

        A cancel is served before or after, never between.

        Raises:
            ClaimError: Its UID cannot be the name of a file.
            HostError: The disk refused.
        """
        name = _name(self._uid_of(record))
        with trio.CancelScope(shield=True):
            await self._folder.write(name, self._to_bytes(record))
        self._hold(record)

    async def put_or_note(self, record: T) -> None:
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
        """Forget the record; an unknown one is no fault.

        Raises:
            HostError: The disk refused; the record stands.
        """
        with trio.CancelScope(shield=True):
            await self._folder.remove(_name(uid))
        if self._records.pop(uid, None) is not None:
            self._notify()

    def _hold(self, record: T) -> None:
        self._records[self._uid_of(record)] = record
        self._notify()

    def _notify(self) -> None:
        self.changes.set(self.changes.get() + 1)


def _name(uid: str) -> str:
    if not uid or "/" in uid or uid.startswith(".") or "\0" in uid:
        raise ClaimError(f"UID {uid!r}", "is no name of a file")
    return f"{uid}{_SUFFIX}"
