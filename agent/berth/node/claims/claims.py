"""Claims from prepare to unprepare: repeatable, each under its own lock, durable at each step.

Prepare, in order: hold in the ledger, fresh look and uplink check, configuration and all its
checks, record on disk, links staged at home, functions bound to vfio-pci, files, record prepared,
answer. Whatever fails undoes what was done before it, in reverse. The hook finds the rest in the
record.

Unprepare needs nobody but the record: the claim may be gone, the device too. It never waits long
for a namespace; what is not home then is brought home by `berth.node.nics.nics`, with the hold kept
until `berth.node.claims.ending` has closed the claim.

Source: network.md §4; KC §3 for what kubelet does and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError, ClaimError
from berth.kube.api import KubeApi
from berth.model.claim import Claim, ClaimRef, Consumer, DeviceResult, PreparedClaim
from berth.nic.config.group import GroupPolicy
from berth.nic.record import Stage
from berth.node.claims.arrivals import Moves
from berth.node.claims.drafting import Settings, draft
from berth.node.claims.ending import Ending, Remains
from berth.node.claims.reservation import Reservation, waiting_time_s
from berth.node.claims.status import StatusSink, now_text
from berth.node.gpus.occupancy import Occupancy
from berth.node.inventory.snapshot import Snapshot
from berth.node.ledger import Ledger
from berth.node.nics.nics import sandbox_alive
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.node.views.troubles import Trouble, Troubles
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread
from berth.runtime.together import together

TAKE_BACK_S: Final = 10.0
"""How long a prepare that failed is undone before it answers; the rest is done later."""

_log = get_log(__name__)


class Papers(Remains, Protocol):
    """Who hands out what containers and kubelet read; see `berth.node.claims.handout.Handout`."""

    def answer(self, record: ClaimRecord) -> PreparedClaim:
        """What kubelet is told of the claim."""
        ...

    async def write(self, record: ClaimRecord) -> None:
        """Write every file of the claim."""
        ...


class Binds(Protocol):
    """Who gives functions to vfio-pci; see `berth.node.vfio.bindings.Bindings`."""

    async def bind(self, record: ClaimRecord) -> ClaimRecord:
        """Bind the claim's functions."""
        ...


class Claims:
    """Prepares and undoes claims."""

    def __init__(
        self,
        settings: Settings,
        *,
        api: KubeApi,
        records: Records,
        ledger: Ledger,
        nics: Moves,
        reservation: Reservation,
        ending: Ending,
        papers: Papers,
        status: StatusSink,
        troubles: Troubles,
        occupancy: Occupancy | None = None,
        bindings: Binds | None = None,
    ) -> None:
        self._settings = settings
        self._api = api
        self._records = records
        self._ledger = ledger
        self._nics = nics
        self._reservation = reservation
        self._ending = ending
        self._papers = papers
        self._status = status
        self._troubles = troubles
        self._occupancy = occupancy
        self._bindings = bindings
        self._drafts: dict[str, ClaimRecord] = {}

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
            record = await self._make_prepared(ref, beside)
        except BerthError as error:
            self._troubles.note(ref.uid, Trouble(claim=str(ref), text=str(error), at=now_text()))
            raise
        self._troubles.forget(ref.uid)
        self._status.tell(record)
        return self._papers.answer(record)

    async def unprepare(self, ref: ClaimRef) -> None:
        """Undo `prepare`; a claim that nobody knows is undone already.

        Raises:
            HostError: The disk refused; devices come home all the same, and kubelet asks again.
        """
        record = self._records.get(ref.uid)
        for uid in (ref.uid, *(c.uid for c in (record.consumers if record is not None else ()))):
            self._troubles.forget(uid)
        if not await self._ending.end(ref.uid):
            _log.warning("claim undone, its devices follow", claim=ref)

    async def renew(self) -> None:
        """Write anew what prepared claims hand out of devices that have other nodes than before.

        Done once at a start: meanwhile a driver may have been loaded anew. What fails is told and
        left to the next prepare.
        """
        for record in self._records.all():
            async with self._records.lock(record.claim.uid):
                current = self._records.get(record.claim.uid)
                if current is None or not current.has_peripherals or not self._stands(current):
                    continue
                try:
                    if await self._renew(current) != current:
                        await self._papers.write(self._records.get(record.claim.uid) or current)
                except BerthError as error:
                    _log.warning("claim not renewed", claim=record.claim, reason=error)

    def of_pod(self, pod_uid: str) -> tuple[ClaimRecord, ...]:
        """The prepared claims that the pod uses."""
        return self._records.of_pod(pod_uid)

    def by_marker(self, uids: Iterable[str]) -> tuple[ClaimRecord | None, ...]:
        """Records by claim UIDs without hyphens, as a container's environment names them."""
        known = {record.claim.uid.replace("-", ""): record for record in self._records.all()}
        return tuple(known.get(uid) for uid in uids)

    async def reread(self, uid: str) -> ClaimRecord | None:
        """Learn from the API server who uses a prepared claim now.

        Kubelet prepares a claim once for all pods that use it one after the other, so that after
        a pod was deleted by force its successor may come with the same claim and no word of it.

        Raises:
            ClaimError: The claim is another one now, or was allocated anew.
            KubeError: The server did not answer.
        """
        async with self._records.lock(uid):
            record = self._records.get(uid)
            current = None if record is None else await self._reread(record)
        if record is not None and current is None:
            raise ClaimError(
                f"claim {record.claim}",
                "has other devices now than those that it was prepared with",
                mend="delete the pod; its successor gets what is allocated now",
            )
        return current

    async def _make_prepared(self, ref: ClaimRef, beside: Sequence[ClaimRef]) -> ClaimRecord:
        while True:
            async with self._records.lock(ref.uid):
                record = self._records.get(ref.uid)
                if record is not None and self._stands(record):
                    again = await self._repeat(record)
                    if again is not None:
                        return again
                elif record is None or record.is_home:
                    if record is not None and record.revoked:
                        # `Ending.run` cannot close it while we hold the lock, and a NIC of an
                        # ended claim is offered to nobody: we would wait for ourselves.
                        await self._ending.finish(ref.uid)
                    self._ledger.release(ref.uid)
                    return await self._prepare(ref, beside)
                # What is left of an earlier life goes home; not under the lock, which that needs.
                await self._records.put_or_note(attrs.evolve(record, revoked=True))
            await self._wait_home(ref)

    def _stands(self, record: ClaimRecord) -> bool:
        """Whether what was prepared then is still worth anything: same boot, nothing undone."""
        lost = any(d.nic is not None and d.nic.stage is Stage.LOST for d in record.devices)
        usable = record.prepared and not record.revoked and not lost
        return usable and record.boot_id == self._settings.boot_id

    async def _repeat(self, record: ClaimRecord) -> ClaimRecord | None:
        """Hand out once more what stands; ``None`` if the claim was allocated anew."""
        current = await self._reread(record)
        if current is None:
            _log.warning("claim was allocated anew, preparing it anew", claim=record.claim)
            return None
        if current.has_nics:
            await self._reservation.wait_open(current.claim)
        if current.has_peripherals:
            current = await self._renew(current)
        bound = await self._bind(current)
        if bound != current:
            await self._records.put(bound)
        await self._papers.write(bound)
        return bound

    async def _renew(self, record: ClaimRecord) -> ClaimRecord:
        """The record with the nodes that its devices have now."""
        glimpse = await self._reservation.glimpse()
        renewed = record.with_peripherals(glimpse.snapshot.inventory.peripheral_by_name)
        if renewed != record:
            await self._records.put(renewed)
        return renewed

    async def _reread(self, record: ClaimRecord) -> ClaimRecord | None:
        """The record with those who use the claim now; ``None`` if it has other devices now."""
        claim = await self._api.get_claim(record.claim, driver=self._settings.driver)
        if [_place(result) for result in claim.results] != [
            _place(device.result) for device in record.devices
        ]:
            return None
        consumers = await self._users_now(record, claim.consumers)
        if consumers != record.consumers:
            record = attrs.evolve(record, consumers=consumers)
            await self._records.put(record)
        return record

    async def _users_now(
        self, record: ClaimRecord, reserved: tuple[Consumer, ...]
    ) -> tuple[Consumer, ...]:
        """Whoever may have the claim's devices of those that it is reserved for.

        A pod that comes beside those that a claim with NICs was prepared for is not among them: it
        is refused by their names. They are until their reservation has ended and the NICs have left
        their sandboxes; once none is left, it is for all that are reserved, and the first that
        starts has the NICs.
        """
        if len(reserved) == 1 or not record.has_nics:
            return reserved
        inside = await self._living_pods(record)
        stay = tuple(one for one in record.consumers if one in reserved or one.uid in inside)
        return stay or reserved or record.consumers

    async def _living_pods(self, record: ClaimRecord) -> frozenset[str]:
        """UIDs of the pods in whose living sandboxes its NICs are, or may be."""
        away = (nic.sandbox for nic in record.nics if nic is not None and nic.is_away)
        return frozenset(
            [
                sandbox.pod_uid
                for sandbox in away
                if sandbox is not None and await run_in_thread("nics", sandbox_alive, sandbox)
            ]
        )

    async def _wait_home(self, ref: ClaimRef) -> None:
        """Wait until an earlier life of the claim has let go of its devices."""
        self._ending.look_again()
        with trio.move_on_after(waiting_time_s()):
            while True:
                version = self._records.changes.version
                record = self._records.get(ref.uid)
                if record is None or record.is_home:
                    return
                await self._records.changes.wait_changed(version)
        raise ClaimError(f"claim {ref}", "is still being undone: its devices are not home yet")

    async def _prepare(self, ref: ClaimRef, beside: Sequence[ClaimRef]) -> ClaimRecord:
        claim, glimpse = await together(
            lambda: self._api.get_claim(ref, driver=self._settings.driver),
            self._reservation.glimpse,
        )
        self._troubles.belongs(claim)
        siblings = await self._read_siblings(claim, beside)
        snapshot, admitted = await self._reservation.reserve(claim, glimpse)
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
            with trio.move_on_after(TAKE_BACK_S, shield=True):
                await self._ending.take_back(record)
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

    async def _bind(self, record: ClaimRecord) -> ClaimRecord:
        return record if self._bindings is None else await self._bindings.bind(record)

    def _with_drafts(self) -> tuple[ClaimRecord, ...]:
        known = {record.claim.uid: record for record in self._records.all()}
        return tuple({**known, **self._drafts}.values())

    async def _carry_out(self, record: ClaimRecord, snapshot: Snapshot) -> ClaimRecord:
        if self._occupancy is not None:
            stays = (device.peripheral for device in record.devices if device.keys)
            await self._occupancy.require_free(filter(None, stays), holder_uid=record.claim.uid)
        homes = [
            home.index if (home := snapshot.homes.get(device.result.device)) is not None else 0
            for device in record.devices
        ]
        staged = await self._bind(await self._nics.stage(record, homes))
        prepared = attrs.evolve(staged, generation=1, prepared=True)
        # Whatever comes first: a record without files has them written at the next start.
        await together(lambda: self._papers.write(prepared), lambda: self._records.put(prepared))
        return prepared


def _place(result: DeviceResult) -> tuple[str, str, str, str | None]:
    """What of a result kubelet and containers were told."""
    return result.request, result.pool, result.device, result.share_id
