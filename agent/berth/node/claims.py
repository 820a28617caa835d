"""Claims from prepare to unprepare: repeatable, each under its own lock, durable at each step.

Prepare, in order: hold in the ledger, fresh look and uplink check, configuration and all its
checks, record on disk, links staged at home, files, record prepared, answer. Whatever fails undoes
what was done before it, in reverse. The hook finds the rest in the record.

Unprepare needs nobody but the record: the claim may be gone, the device too. It never waits long
for a namespace; what is not home then is brought home by `berth.node.nics`, with the hold kept.

Source: network.md §4; KC §3 for what kubelet does and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from berth.errors import BerthError, ClaimError, HostError
from berth.kube.api import KubeApi
from berth.model.claim import Claim, ClaimRef, PreparedClaim
from berth.nic.config.group import GroupPolicy
from berth.nic.record import SandboxRef, Stage
from berth.node.claimstatus import StatusSink, now_text
from berth.node.discovery import Discovery
from berth.node.drafting import Settings, draft
from berth.node.handout import Handout
from berth.node.ledger import Ledger
from berth.node.nics import Nics
from berth.node.record import ClaimRecord
from berth.node.records import Records
from berth.node.reservation import Reservation, waiting_time_s
from berth.node.snapshot import Snapshot
from berth.node.views.troubles import Trouble, Troubles
from berth.runtime.logs import get_log
from berth.runtime.threads import Decision

HOMECOMING_S: Final = 2.0
"""How long unprepare waits for NICs to be home before it answers all the same."""

_log = get_log(__name__)


class Claims:
    """Prepares and undoes claims, and completes them when their NICs are in their pod."""

    def __init__(
        self,
        settings: Settings,
        *,
        api: KubeApi,
        records: Records,
        ledger: Ledger,
        nics: Nics,
        discovery: Discovery,
        handout: Handout,
        status: StatusSink,
        troubles: Troubles,
    ) -> None:
        self._settings = settings
        self._api = api
        self._records = records
        self._ledger = ledger
        self._nics = nics
        self._discovery = discovery
        self._handout = handout
        self._status = status
        self._troubles = troubles
        self._drafts: dict[str, ClaimRecord] = {}
        self._reservation = Reservation(
            settings.driver,
            api=api,
            records=records,
            ledger=ledger,
            discovery=discovery,
            troubles=troubles,
            revoke=self._revoke,
        )

    def reload(self, policies: Mapping[str, GroupPolicy]) -> None:
        """Judge claims from now on by other groups; what is prepared stays as it is."""
        self._settings = attrs.evolve(self._settings, policies=policies)

    async def prepare(self, ref: ClaimRef, *, beside: Sequence[ClaimRef] = ()) -> PreparedClaim:
        """Make the claim's devices ready for its pod, waiting for what may come soon.

        Args:
            beside: The claims of its pod that are prepared together, in the pod's order.

        Raises:
            ClaimError: It is refused, or what it waited for did not come in the caller's time.
            BerthError: The API server, the disk or the kernel refused; nothing is left half done.
        """
        try:
            async with self._records.lock(ref.uid):
                record = self._records.get(ref.uid)
                if record is None or not self._stands(record):
                    record = await self._prepare(ref, beside)
                else:
                    await self._handout.write(record)
        except BerthError as error:
            self._troubles.note(ref.uid, Trouble(claim=str(ref), text=str(error), at=now_text()))
            raise
        self._troubles.forget(ref.uid)
        self._status.tell(record)
        return self._handout.answer(record)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Undo `prepare`; a claim that nobody knows is undone already.

        Raises:
            HostError: The disk refused; devices are home, and kubelet asks again.
        """
        self._troubles.forget(ref.uid)
        record = self._records.get(ref.uid)
        if record is None:
            await self._handout.remove(ref.uid)
            self._ledger.release(ref.uid)
            return
        with trio.CancelScope(shield=True):
            home = await self._revoke(ref.uid)
        if not home:
            _log.warning("claim undone, its NICs follow", claim=record.claim)

    async def attach(
        self, pod_uid: str, sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> int:
        """Bring the pod's NICs into its sandbox, and complete what containers read of them.

        Returns:
            How many NICs the pod has there.

        Raises:
            ClaimError: A NIC could not be attached; none of the pod's is there.
            HostError: Nothing could be written; none is there either.
        """
        records = self._records.of_pod(pod_uid)
        uids = [r.claim.uid for r in records if any(d.nic is not None for d in r.devices)]
        if not uids:
            return 0
        try:
            attached = await self._nics.attach(uids, sandbox, limit_s=limit_s, decision=decision)
        except ClaimError:
            self._tell(uids)
            raise
        with trio.CancelScope(shield=True):
            try:
                for record in attached:
                    await self._complete(record)
            except BerthError:
                for uid in uids:
                    await self._nics.give_back(uid, sandbox_id=sandbox.id)
                raise
        return sum(device.nic is not None for record in attached for device in record.devices)

    async def detach(self, sandbox_id: str) -> None:
        """Bring home whatever is in the sandbox; late events of an old one find nothing."""
        for uid in self._in_sandbox(sandbox_id):
            await self._nics.give_back(uid, sandbox_id=sandbox_id)
            self._tell((uid,))

    async def missing(self, uids: Iterable[str], sandbox: SandboxRef) -> tuple[str, ...]:
        """Devices of the claims that are not in the sandbox now, or not told of in files yet.

        A NIC that comes late is in the pod a moment before its containers could read of it.
        """
        missing: list[str] = []
        for uid in uids:
            record = self._records.get(uid)
            if record is not None:
                missing.extend(await self._nics.verify(record, sandbox))
            record = self._records.get(uid)
            if record is not None:
                missing.extend(
                    device.result.device
                    for device in record.devices
                    if device.nic is not None and device.told != device.nic.network
                )
        return tuple(dict.fromkeys(missing))

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """The prepared claims that the pod uses."""
        return self._records.of_pod(pod_uid)

    def by_marker(self, uids: Iterable[str]) -> tuple[ClaimRecord | None, ...]:
        """Records by claim UIDs without hyphens, as a container's environment names them."""
        known = {record.claim.uid.replace("-", ""): record for record in self._records.all()}
        return tuple(known.get(uid) for uid in uids)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Close claims that are undone as soon as their last NIC is home, until cancelled."""
        task_status.started()
        while True:
            version = self._records.changes.version
            for record in self._records.all():
                if record.revoked and record.is_home:
                    await self._close_quietly(record.claim.uid)
            await self._records.changes.wait_changed(version)

    async def _prepare(self, ref: ClaimRef, beside: Sequence[ClaimRef]) -> ClaimRecord:
        await self._wait_undone(ref)
        claim = await self._api.get_claim(ref, driver=self._settings.driver)
        siblings = await self._read_siblings(claim, beside)
        snapshot, admitted = await self._reservation.reserve(claim)
        try:
            record = draft(
                claim,
                snapshot,
                admitted,
                settings=self._settings,
                # No await from here to the draft's place among them: two claims of a pod that
                # are prepared together must see each other.
                records=self._with_drafts(),
                siblings=siblings,
            )
        except BaseException:
            self._ledger.release(ref.uid)
            raise
        self._drafts[ref.uid] = record
        try:
            return await self._carry_out(record, snapshot)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._undo(record)
            raise
        finally:
            del self._drafts[ref.uid]

    async def _read_siblings(self, claim: Claim, beside: Sequence[ClaimRef]) -> tuple[Claim, ...]:
        """Claims by their refs; one that cannot be read is left out, and not prepared either."""
        found = {claim.ref.uid: claim}

        async def read(ref: ClaimRef) -> None:
            try:
                found[ref.uid] = await self._api.get_claim(ref, driver=self._settings.driver)
            except BerthError as error:
                _log.debug("sibling not read", claim=ref, reason=error)

        async with trio.open_nursery() as nursery:
            for ref in beside:
                if ref.uid not in found:
                    nursery.start_soon(read, ref)
        return tuple(found[ref.uid] for ref in beside if ref.uid in found)

    def _with_drafts(self) -> tuple[ClaimRecord, ...]:
        known = {record.claim.uid: record for record in self._records.all()}
        return tuple({**known, **self._drafts}.values())

    async def _wait_undone(self, ref: ClaimRef) -> None:
        """Wait until an earlier life of the claim has let go of its devices."""
        with trio.move_on_after(waiting_time_s()):
            while True:
                version = self._records.changes.version
                record = self._records.get(ref.uid)
                if record is None or record.is_home:
                    self._ledger.release(ref.uid)
                    return
                self._nics.look_again()
                await self._records.changes.wait_changed(version)
        raise ClaimError(f"claim {ref}", "is still being undone: its NICs are not home yet")

    async def _carry_out(self, record: ClaimRecord, snapshot: Snapshot) -> ClaimRecord:
        homes = [
            home.index if (home := snapshot.homes.get(device.result.device)) is not None else 0
            for device in record.devices
        ]
        staged = await self._nics.stage(record, homes)
        prepared = attrs.evolve(staged, generation=1, prepared=True)
        await self._handout.write(prepared)
        await self._records.put(prepared)
        return prepared

    def _stands(self, record: ClaimRecord) -> bool:
        """Whether what was prepared then is still worth anything: same boot, nothing undone."""
        lost = any(d.nic is not None and d.nic.stage is Stage.LOST for d in record.devices)
        usable = record.prepared and not record.revoked and not lost
        return usable and record.boot_id == self._settings.boot_id

    async def _complete(self, record: ClaimRecord) -> None:
        """Tell containers how the NICs look, if that differs from what they were told."""
        async with self._records.lock(record.claim.uid):
            current = self._records.get(record.claim.uid)
            if current is None:
                return
            devices = tuple(
                attrs.evolve(device, told=device.nic.network) if device.nic is not None else device
                for device in current.devices
            )
            if devices != current.devices:
                current = attrs.evolve(current, devices=devices, generation=current.generation + 1)
                await self._handout.write_metadata(current)
                await self._records.put(current)
        self._status.tell(current)
        for device in current.devices:
            if device.nic is not None and device.nic.network is not None:
                _log.info(
                    "NIC attached",
                    device=device.result.device,
                    claim=current.claim,
                    pod=device.nic.sandbox.pod if device.nic.sandbox else "",
                    name=device.nic.network.interface_name,
                    ips=",".join(device.nic.network.ips) or "-",
                )

    async def _revoke(self, uid: str) -> bool:
        """Undo a claim whose end is certain; gives whether everything of it is home and gone."""
        async with self._records.lock(uid):
            record = self._records.get(uid)
            if record is None:
                self._ledger.release(uid)
                return True
            if not record.revoked:
                await self._records.put_or_note(attrs.evolve(record, revoked=True))
            await self._handout.remove(uid)
        self._status.forget(uid)
        with trio.move_on_after(HOMECOMING_S) as scope:
            scope.shield = True
            await self._nics.give_back(uid)
        return await self._close(uid)

    async def _close(self, uid: str) -> bool:
        """Forget an undone claim whose NICs are home; the ledger is freed last."""
        async with self._records.lock(uid):
            record = self._records.get(uid)
            if record is not None:
                if not record.is_home:
                    return False
                await self._handout.remove(uid)
                await self._records.delete(uid)
        self._ledger.release(uid)
        self._discovery.look_again()
        return True

    async def _close_quietly(self, uid: str) -> None:
        try:
            await self._close(uid)
        except HostError as error:
            _log.warning("claim's files not removed, trying again", claim=uid, reason=error)

    async def _undo(self, record: ClaimRecord) -> None:
        """Take back a prepare that failed; what the disk refuses is undone at the next start."""
        uid = record.claim.uid
        current = self._records.get(uid)
        try:
            if current is not None and not current.is_home:
                await self._records.put(attrs.evolve(current, revoked=True, prepared=False))
                self._nics.look_again()
                return
            await self._handout.remove(uid)
            await self._records.delete(uid)
        except BerthError as error:
            _log.warning("failed prepare not wholly undone", claim=record.claim, reason=error)
        self._ledger.release(uid)

    def _in_sandbox(self, sandbox_id: str) -> tuple[str, ...]:
        return tuple(
            record.claim.uid
            for record in self._records.all()
            if any(
                device.nic is not None
                and device.nic.sandbox is not None
                and device.nic.sandbox.id == sandbox_id
                for device in record.devices
            )
        )

    def _tell(self, uids: Iterable[str]) -> None:
        for uid in uids:
            record = self._records.get(uid)
            if record is not None and not record.revoked:
                self._status.tell(record)
