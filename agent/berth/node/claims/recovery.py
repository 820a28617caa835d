"""Makes the node's state true again after a restart: nothing of disk is trusted unchecked.

Each open record is finished forwards when its claim is prepared and its sandbox lives, else
backwards. After a reboot every NIC is at home by nature, under the values of a fresh driver.

Source: network.md §4.5 (agent start); daemon.md §5 for the order at start.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from berth.errors import BerthError, StateError
from berth.model.claim import ClaimRef
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.claims.arrivals import Moves
from berth.node.claims.ending import Returns
from berth.node.holders.nicholders import NicHolder, NicHolders, nics_of
from berth.node.ledger import Hold, Ledger
from berth.node.nics.nics import sandbox_alive
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision, run_in_thread

ATTACH_S: Final = 20.0
"""Time for finishing an interrupted attach: nobody's hook waits for it any more."""

_log = get_log(__name__)


class Files(Protocol):
    """Who writes what containers and kubelet read; see `berth.node.claims.handout.Handout`."""

    async def write(self, record: ClaimRecord) -> None:
        """Write every file of the claim."""
        ...

    async def claims(self) -> frozenset[str]:
        """UIDs of all claims that have files of ours."""
        ...


class Recovery:
    """What is done once, before anything is served.

    Args:
        driver: Our driver's name; records of another one refuse the start.
        boot_id: Of this boot.
        home: Brings home what belongs there.
    """

    def __init__(
        self,
        *,
        driver: str,
        boot_id: str,
        records: Records,
        ledger: Ledger,
        nics: Moves,
        home: Returns,
        handout: Files,
        holders: NicHolders | None = None,
    ) -> None:
        self._driver = driver
        self._boot_id = boot_id
        self._records = records
        self._ledger = ledger
        self._nics = nics
        self._home = home
        self._handout = handout
        self._holders = holders or NicHolders(records)

    async def load(self) -> None:
        """Read the records and enter their holds; nothing may be offered before.

        Raises:
            StateError: A record is of a newer program, or of another driver name.
            HostError: The state folder cannot be used.
        """
        await take_up(self._records, self._ledger, driver=self._driver, boot_id=self._boot_id)

    async def finish(self) -> None:
        """Bring every record to where it should be; what fails is left to the return queue."""
        for record in self._holders.all():
            try:
                await self._finish(record)
            except BerthError as error:
                _log.warning("not recovered yet, trying again", **record.told_as, reason=error)
                self._home.look_again()

    async def orphans(self) -> tuple[ClaimRef, ...]:
        """Claims that files of ours speak of and no record does: their devices count as held.

        Namespace and name are not known; unprepare goes by UID alone.
        """
        known = {record.claim.uid for record in self._records.all()}
        uids = sorted(await self._handout.claims() - known)
        return tuple(ClaimRef(namespace="?", name=uid, uid=uid) for uid in uids)

    async def _finish(self, record: NicHolder) -> None:
        if isinstance(record, ClaimRecord):
            await self._finish_claim(record)
            return
        for index, nic in nics_of(record):
            if nic.boot_id != self._boot_id:
                record = record.with_nic(index, _anew(nic, self._boot_id))
        async with self._holders.lock(record.uid):
            await self._holders.put_or_note(record)
        if record.revoked:
            await self._nics.give_back(record.uid)
        else:
            await self._settle(record)

    async def _finish_claim(self, record: ClaimRecord) -> None:
        if record.boot_id != self._boot_id:
            record = await self._at_home_by_nature(record)
        if record.revoked or not record.prepared:
            await self._records.put_or_note(attrs.evolve(record, revoked=True))
            await self._home.give_back(record.uid)
            return
        if record.boot_id == self._boot_id:
            # Links first: they do not wait for a disk that takes no file.
            await self._settle(record)
            await self._handout.write(self._records.get(record.uid) or record)

    async def _at_home_by_nature(self, record: ClaimRecord) -> ClaimRecord:
        async with self._records.lock(record.uid):
            record = record.after_reboot()
            for index, nic in nics_of(record):
                record = record.with_nic(index, _after_reboot(nic))
            await self._records.put_or_note(record)
        return record

    async def _settle(self, record: NicHolder) -> None:
        """Finish what a hook began, in or out, and leave alone what is as it was recorded."""
        nics = [nic for _, nic in nics_of(record)]
        if any(nic.stage is Stage.RETURNING for nic in nics):
            await self._nics.give_back(record.uid)
            return
        for sandbox in {nic.sandbox for nic in nics if nic.is_away and nic.sandbox is not None}:
            if not await run_in_thread("nics", sandbox_alive, sandbox):
                await self._nics.give_back(record.uid, sandbox_id=sandbox.id)
            elif await self._is_unfinished(record, sandbox):
                uids = [holder.uid for holder in self._holders.of_pod(sandbox.pod_uid)]
                await self._nics.attach(uids, sandbox, limit_s=ATTACH_S, decision=Decision())

    async def _is_unfinished(self, record: NicHolder, sandbox: SandboxRef) -> bool:
        """Whether the sandbox lacks a NIC; what the pod did with those it has is its own affair."""
        begun = any(nic.stage is Stage.ATTACHING for _, nic in nics_of(record))
        return begun or bool(await self._nics.verify(record, sandbox))


async def take_up(records: Records, ledger: Ledger, *, driver: str, boot_id: str) -> None:
    """Read the records that the last life left, and enter their holds.

    Args:
        driver: Our driver's name.
        boot_id: Of this boot.

    Raises:
        StateError: A record is of a newer program, or of another driver name.
        HostError: The state folder cannot be used.
    """
    for sentence in await records.load():
        _log.warning("record set aside", reason=sentence)
    for record in records.all():
        if record.driver != driver:
            raise StateError(
                "[dra] driver",
                f"is {driver}, claim {record.claim} has devices under {record.driver}",
                rule="the name cannot change while claims have devices",
                mend=f'set it back to "{record.driver}" until they are gone',
            )
        known = record if record.boot_id == boot_id else record.after_reboot()
        ledger.restore(holds_of(known))


def holds_of(record: ClaimRecord) -> tuple[Hold, ...]:
    """The ledger's entries that a record stands for."""
    return tuple(
        Hold(
            key=key,
            device=device.result.device,
            holder=record.claim,
            share=device.share,
            slots=device.slots,
            limit=device.slot_limit,
        )
        for device in record.devices
        for key in device.keys
    )


def _anew(nic: NicRecord, boot_id: str) -> NicRecord:
    """A NIC that was asked for as a resource, in another boot: nobody prepares it once more.

    What berth moves has to be planned by what the machine is now; until then it is not attached.
    How a link was in the boot before is nothing to put back: the host may have been set up anew.
    """
    stage = Stage.LENT if nic.stage is Stage.LENT else Stage.RESERVED
    return attrs.evolve(_after_reboot(nic), boot_id=boot_id, stage=stage, originals=None)


def _after_reboot(nic: NicRecord) -> NicRecord:
    return attrs.evolve(
        nic,
        stage=Stage.HOME,
        sandbox=None,
        pod_index=0,
        network=None,
        carrier=False,
        announced=False,
        fault="",
        vrf_table=0,
        scrub_step=None,
        duplicates=(),
        home_name="",
    )
