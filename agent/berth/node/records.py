"""Claim records on disk and in memory: one file per claim, written before memory changes.

A file that cannot be read is kept aside under a new name and told; the claim's devices are then
found by what the system still shows (`berth.node.nics`), never counted as free for want of a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import cattrs
import trio
from cattrs.preconf.json import make_converter

from berth.errors import HostError, StateError
from berth.model.device import Version
from berth.node.record import SCHEMA, ClaimRecord
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_SUFFIX: Final = ".json"
_log = get_log(__name__)


class DamagedRecord(StateError):
    """A file is no record of any program; it is set aside, unlike one of a newer program."""


def to_bytes(record: ClaimRecord) -> bytes:
    """The file of a record."""
    document = {"schema": SCHEMA, "record": _converter.unstructure(record)}
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def from_bytes(content: bytes, *, where: str) -> ClaimRecord:
    """Read a record's file.

    Raises:
        DamagedRecord: It is not a record.
        StateError: It is one of a newer program.
    """
    try:
        document = json.loads(content)
        schema = document["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedRecord(where, f"is no record ({error!r})") from error
    if schema != SCHEMA:
        raise StateError(
            where,
            f"has schema {schema!r}",
            rule=f"this program reads {SCHEMA}",
            mend="install the berthd that wrote it, or unprepare its claim there first",
        )
    try:
        record: ClaimRecord = _converter.structure(document["record"], ClaimRecord)
    except (cattrs.BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise DamagedRecord(where, f"is no record ({type(error).__name__})") from error
    return record


class Records:
    """Every record of the node.

    Each claim has a lock; whoever changes a record holds its claim's lock over the whole change.

    Attributes:
        changes: Counts the changes, for those who wait for one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder)
        self._records: dict[str, ClaimRecord] = {}
        self._locks: dict[str, trio.Lock] = {}
        self.changes: Latest[int] = Latest(0)

    async def load(self) -> tuple[str, ...]:
        """Read every file of the folder, setting unreadable ones aside.

        Returns:
            What was set aside, one sentence each.

        Raises:
            StateError: A file is of a newer program; nothing may be undone that we cannot read.
            HostError: The folder itself cannot be made or listed.
        """
        await self._folder.make()
        await self._folder.sweep()
        aside = []
        for name in await self._folder.names(suffix=_SUFFIX):
            try:
                record = await self._read(name)
            except (DamagedRecord, HostError) as error:
                kept = await self._folder.quarantine(name)
                aside.append(f"{error}; kept as {kept}")
                continue
            if record is not None:
                self._records[record.claim.uid] = record
        return tuple(aside)

    async def _read(self, name: str) -> ClaimRecord | None:
        content = await self._folder.read(name)
        where = str(self._folder.path / name)
        return None if content is None else from_bytes(content, where=where)

    def lock(self, uid: str) -> trio.Lock:
        """The lock of the claim ``uid``; the same object as long as anybody holds it."""
        return self._locks.setdefault(uid, trio.Lock())

    def get(self, uid: str) -> ClaimRecord | None:
        """The record of the claim, if there is one."""
        return self._records.get(uid)

    def all(self) -> tuple[ClaimRecord, ...]:
        """Every record, oldest claim first."""
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

        Raises:
            HostError: The disk refused.
        """
        with trio.CancelScope(shield=True):
            await self._folder.write(_name(record.claim.uid), to_bytes(record))
        self._records[record.claim.uid] = record
        self._notify()

    async def put_or_note(self, record: ClaimRecord) -> None:
        """Write the record if the disk takes it, and hold it as the truth in either case.

        For steps homewards only: hardware is freed on a full disk too, and the older record on
        disk leads the next start to the same steps again.
        """
        try:
            await self.put(record)
        except HostError as error:
            _log.warning("record not written, going on homewards", reason=error)
            self._records[record.claim.uid] = record
            self._notify()

    async def delete(self, uid: str) -> None:
        """Forget the claim; an unknown one is no fault.

        Raises:
            HostError: The disk refused; the record stands.
        """
        with trio.CancelScope(shield=True):
            await self._folder.remove(_name(uid))
        self._records.pop(uid, None)
        lock = self._locks.get(uid)
        if lock is not None and not lock.statistics().tasks_waiting:
            self._locks.pop(uid)
        self._notify()

    def _notify(self) -> None:
        self.changes.set(self.changes.get() + 1)


def _name(uid: str) -> str:
    return f"{uid}{_SUFFIX}"


def _make_converter() -> cattrs.Converter:
    converter = make_converter(forbid_extra_keys=True)

    def attribute_out(value: Any) -> Any:
        return {"version": value.text} if isinstance(value, Version) else value

    def attribute_in(value: Any, _: Any) -> Any:
        return Version(value["version"]) if isinstance(value, dict) else value

    union = bool | int | str | Version
    converter.register_unstructure_hook_func(lambda kind: kind == union, attribute_out)
    converter.register_structure_hook_func(lambda kind: kind == union, attribute_in)
    return converter


_converter: Final = _make_converter()
