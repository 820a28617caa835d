"""Those who do what claims decide: records in memory, files in memory, NICs that move by word."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.model.claim import NetworkData, PreparedClaim, PreparedDevice
from berth.nic.record import NicRecord, Originals, SandboxRef, Stage
from berth.node.holders.nicholders import NicHolder, nics_of
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.runtime.threads import Decision

ORIGINALS = Originals(
    name="ens1",
    index=2,
    kind="",
    mtu=1500,
    mac="02:00:00:00:00:01",
    flags=0,
    txqlen=1000,
    group=0,
    alias="",
)


class Disk:
    """A disk that can be full or read-only.

    Attributes:
        room: How many more writes it takes.
        locked: Whether nothing can be removed either.
        writes: How many it took.
    """

    def __init__(self) -> None:
        self.room = 1_000_000
        self.locked = False
        self.writes = 0

    async def write(self, what: str) -> None:
        """Take a write, if there is room."""
        await trio.lowlevel.checkpoint()
        if self.locked or self.room <= 0:
            number = errno.EROFS if self.locked else errno.ENOSPC
            raise HostError(what, "cannot write: No space left on device", errno=number)
        self.room -= 1
        self.writes += 1

    async def remove(self, what: str) -> None:
        """Take a removal."""
        await trio.lowlevel.checkpoint()
        if self.locked:
            raise HostError(what, "cannot remove: Read-only file system", errno=errno.EROFS)


class MemoryRecords(Records):
    """Records whose files are words to a disk.

    Attributes:
        stored: What a restart would find, by claim UID.
    """

    def __init__(self, disk: Disk) -> None:
        super().__init__(Path("/nowhere"))
        self.disk = disk
        self.stored: dict[str, ClaimRecord] = {}

    async def put(self, record: ClaimRecord) -> None:
        """Write it; a cancel is served before or after, never between, as with the real ones."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            await self.disk.write("records")
        self.stored[record.claim.uid] = record
        self._hold(record)

    async def delete(self, uid: str) -> None:
        """Remove it."""
        with trio.CancelScope(shield=True):
            await self.disk.remove("records")
        self.stored.pop(uid, None)
        if self._records.pop(uid, None) is not None:
            self._notify()


class MemoryPapers:
    """Files of claims, by claim UID and kind, with the generation that they tell of."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.files: dict[tuple[str, str], int] = {}

    def answer(self, record: ClaimRecord) -> PreparedClaim:
        """Tell its devices."""
        return PreparedClaim(
            ref=record.claim,
            devices=tuple(
                PreparedDevice(
                    requests=(device.result.base_request,),
                    pool=device.result.pool,
                    device=device.result.device,
                    cdi_ids=(f"{record.claim.uid}_{device.result.device}",),
                    share_id=device.result.share_id,
                )
                for device in record.devices
            ),
        )

    async def write(self, record: ClaimRecord) -> None:
        """Write metadata, then the CDI file."""
        await self.write_metadata(record)
        await self.disk.write("cdi")
        self.files[record.claim.uid, "cdi"] = record.generation

    async def write_metadata(self, record: ClaimRecord) -> None:
        """Write metadata alone."""
        await self.disk.write("metadata")
        self.files[record.claim.uid, "metadata"] = record.generation

    async def remove(self, claim_uid: str) -> None:
        """Remove what there is."""
        for key in [key for key in self.files if key[0] == claim_uid]:
            await self.disk.remove(key[1])
            del self.files[key]


class SpokenNics:
    """NICs that move by word: the records tell where they are.

    Attributes:
        stuck: Devices that do not come home for now.
        lost: Devices that have gone for good.
        hidden: Devices that are not where the records say.
        faults: What staging or attaching a device ends with.
        moved: Every attach that was done, as device and sandbox.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._stirred = trio.Event()
        self.stuck: set[str] = set()
        self.lost: set[str] = set()
        self.hidden: set[str] = set()
        self.faults: dict[str, BerthError] = {}
        self.moved: list[tuple[str, str]] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring home what belongs there whenever asked to look, until cancelled."""
        task_status.started()
        while True:
            await self._stirred.wait()
            self._stirred = trio.Event()
            for record in self._records.all():
                if record.revoked or not record.prepared:
                    await self.give_back(record.claim.uid)

    async def stage(self, record: ClaimRecord, homes: Sequence[int]) -> ClaimRecord:
        """Announce it, then say that it is done."""
        assert len(homes) == len(record.devices)
        for index, nic in _nics(record):
            if not nic.is_child:
                assert homes[index] > 0
                record = record.with_nic(index, attrs.evolve(nic, originals=ORIGINALS))
        await self._records.put(record)
        staged = record
        for index, nic in _nics(record):
            await trio.lowlevel.checkpoint()
            if nic.device in self.faults:
                await self._bring(record)
                raise self.faults[nic.device]
            staged = staged.with_nic(index, attrs.evolve(nic, stage=Stage.STAGED))
        return staged

    async def attach(
        self, uids: Iterable[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> tuple[ClaimRecord, ...]:
        """Say that all are in the sandbox, or none."""
        assert limit_s > 0
        async with self._records.locked(uids) as found:
            for record in found:
                for _, nic in _nics(record):
                    if nic.device in self.faults:
                        raise self.faults[nic.device]
            done = [self._attached(record, sandbox) for record in found]
            for record in done:
                await self._records.put(record)
        decision.claim_done()
        return tuple(done)

    async def verify(self, record: NicHolder, sandbox: SandboxRef) -> tuple[str, ...]:
        """Tell which are not in the sandbox; one that is there may not be recorded as such yet."""
        await trio.lowlevel.checkpoint()
        there = {Stage.ATTACHING, Stage.ATTACHED}
        return tuple(
            nic.device
            for _, nic in nics_of(record)
            if nic.stage not in there or nic.sandbox != sandbox or nic.device in self.hidden
        )

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Say that the claim's NICs are home."""
        async with self._records.locked((uid,)) as found:
            for record in found:
                if not sandbox_id or any(
                    nic.sandbox is not None and nic.sandbox.id == sandbox_id
                    for _, nic in _nics(record)
                ):
                    await self._bring(record)
        now = self._records.get(uid)
        return now is None or now.is_home

    def look_again(self) -> None:
        """Let `run` look."""
        self._stirred.set()

    def free(self, device: str) -> None:
        """Let a device come home after all."""
        self.stuck.discard(device)
        self.look_again()

    def _attached(self, record: ClaimRecord, sandbox: SandboxRef) -> ClaimRecord:
        if not record.prepared or record.revoked:
            raise ClaimError(f"claim {record.claim}", "is not prepared any more")
        for index, nic in _nics(record):
            self.moved.append((nic.device, sandbox.id))
            there = NetworkData(interface_name="net1", ips=(), hardware_address="02::1")
            record = record.with_nic(
                index,
                attrs.evolve(
                    nic, stage=Stage.ATTACHED, sandbox=sandbox, network=there, carrier=True
                ),
            )
        return record

    async def _bring(self, record: ClaimRecord) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            for index, nic in _nics(record):
                if nic.is_touched:
                    record = record.with_nic(
                        index, attrs.evolve(nic, stage=self._back(nic), sandbox=None, network=None)
                    )
            if record != self._records.get(record.claim.uid):
                await self._records.put_or_note(record)

    def _back(self, nic: NicRecord) -> Stage:
        if nic.device in self.lost:
            return Stage.LOST
        return Stage.RETURNING if nic.device in self.stuck else Stage.HOME


def _nics(record: ClaimRecord) -> list[tuple[int, NicRecord]]:
    return [(i, device.nic) for i, device in enumerate(record.devices) if device.nic is not None]
