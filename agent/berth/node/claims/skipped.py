"""Claims for which kubelet does not call: who holds their devices, and when that is over.

Kubelet leaves a call out if every device of ours in the claim says so; what they say was copied
into the allocation, and outlasts every change of settings and slices. So the API server is the only
one who tells of such a claim, by `berth.node.claims.allocations`:

* One that is never prepared holds its devices from when it is seen until it is allocated no more.
* One that is prepared and never unprepared is ended then, as by kubelet's call.

Each has a record on disk, so that its devices are held from the start of the next life on, before
the API server has been asked, and so that an end in between is found.

Source: KC §8 (KEP-5945).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import trio

from berth.errors import BerthError
from berth.model.allocation import AllocatedClaim, AllocatedDevice
from berth.model.claim import DeviceResult
from berth.model.inventory import Inventory
from berth.node.claims.admission import slots_of
from berth.node.claims.allocations import AllocatedClaims
from berth.node.claims.recovery import holds_of, take_up
from berth.node.ledger import Ledger
from berth.node.records.record import ClaimRecord, HeldDevice
from berth.node.records.records import Records
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"
EVERYTHING: Final = "*"

_BACKOFF: Final = BackOff(first_s=1.0, most_s=30.0)
_log = get_log(__name__)


def skips(claim: AllocatedClaim, operation: str) -> bool:
    """Whether kubelet leaves an operation out for a claim."""
    return all({operation, EVERYTHING} & {*one.skips} for one in claim.devices)


class Skipped:
    """Keeps records and holds of such claims true.

    Args:
        records: Theirs, apart from those of claims that were prepared.
        prepared: Records of claims that kubelet called for.
        claims: What the API server has allocated here; ``None`` while that is not known.
        inventory: What the node has.
        end: Ends a claim by UID, as unprepare does.
        settled: Called when records may be others: with the last one goes the need to see claims.
    """

    def __init__(
        self,
        *,
        records: Records,
        prepared: Records,
        ledger: Ledger,
        claims: Latest[AllocatedClaims | None],
        inventory: Latest[Inventory],
        end: Callable[[str], Awaitable[bool]],
        settled: Callable[[], object],
        driver: str,
        boot_id: str,
    ) -> None:
        self._records = records
        self._prepared = prepared
        self._ledger = ledger
        self._claims = claims
        self._inventory = inventory
        self._end = end
        self._settled = settled
        self._driver = driver
        self._boot_id = boot_id

    async def load(self) -> None:
        """Read what the last life knew, and enter its holds; nothing may be offered before.

        Raises:
            StateError: A record is of a newer program, or of another driver name.
            HostError: The state folder cannot be used.
        """
        await take_up(self._records, self._ledger, driver=self._driver, boot_id=self._boot_id)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the claims, until cancelled."""
        task_status.started()
        backoff = _BACKOFF
        while True:
            seen = [(news, news.version) for news in (self._claims, self._inventory)]
            fault = await self._settle()
            self._settled()
            if not fault:
                backoff = _BACKOFF
                await _wait_any(seen)
                continue
            backoff, delay_s = backoff.next_delay()
            _log.warning("skipped claims not settled", reason=fault, in_s=delay_s)
            with trio.move_on_after(delay_s):
                await _wait_any(seen)

    async def _settle(self) -> str:
        """Make records and holds what the claims of now ask for; gives what went wrong."""
        claims = self._claims.get()
        if claims is None:
            return ""
        fault = ""
        for record in self._due(claims):
            if self._records.get(record.uid) is None:
                _log.info(
                    "claim that kubelet does not ask for",
                    claim=record.claim,
                    devices=",".join(device.result.device for device in record.devices) or "-",
                )
            self._hold(record)
            await self._records.put_or_note(record)
        for record in self._records.all():
            if record.uid not in claims:
                try:
                    await self._finish(record)
                except BerthError as error:
                    fault = str(error)
        return fault

    def _due(self, claims: AllocatedClaims) -> Iterator[ClaimRecord]:
        """Records that are new, or other than they were."""
        for claim in claims.values():
            if not skips(claim, UNPREPARE):
                continue
            known = self._records.get(claim.ref.uid)
            record = self._record(claim, known)
            if record != known:
                yield record

    def _record(self, claim: AllocatedClaim, known: ClaimRecord | None) -> ClaimRecord:
        """What is known of a claim; without devices where these stand in its own record."""
        devices: tuple[HeldDevice, ...] = ()
        if skips(claim, PREPARE) and self._prepared.get(claim.ref.uid) is None:
            devices = tuple(self._devices(claim, known))
        return ClaimRecord(
            claim=claim.ref,
            pod_claim_name=None,
            consumers=claim.consumers,
            driver=self._driver,
            boot_id=self._boot_id,
            devices=devices,
            prepared=True,
        )

    def _devices(self, claim: AllocatedClaim, known: ClaimRecord | None) -> Iterator[HeldDevice]:
        """The devices of a claim: as they were when it was seen first, in this boot."""
        stale = known is not None and known.boot_id != self._boot_id
        before: Mapping[object, HeldDevice] = {}
        if known is not None:
            devices = known.after_reboot().devices if stale else known.devices
            before = {_key(one.result): one for one in devices}
        for result in map(_result, claim.devices):
            then = before.get(_key(result))
            held = then if then is not None and not stale else self._held(result) or then
            if held is not None:
                yield held

    def _held(self, result: DeviceResult) -> HeldDevice | None:
        """The device, as the machine shows it; ``None`` for one that it does not."""
        one = self._inventory.get().peripheral_by_name.get(result.device)
        if one is None:
            return None
        return HeldDevice(
            result=result,
            identity=one.identity,
            type=one.type,
            attributes=one.attributes,
            slots=slots_of(result, limit=one.slots),
            slot_limit=one.slots,
            peripheral=attrs.evolve(one, held_by=(), exclusion=None),
        )

    def _hold(self, record: ClaimRecord) -> None:
        """Enter a claim's holds: the scheduler has decided, whoever else may have a device."""
        holds = holds_of(record)
        conflict = self._ledger.conflict(holds)
        if conflict is not None:
            _log.error(
                "device is disputed: two have it, and neither door gives it to others",
                device=conflict.wanted.device,
                claim=record.claim,
                other=", ".join(str(hold.holder) for hold in conflict.holders),
            )
        self._ledger.renew(holds)

    async def _finish(self, record: ClaimRecord) -> None:
        """End a claim that has its devices no more.

        Raises:
            HostError: The disk refused; it is tried again.
        """
        await self._end(record.uid)
        await self._records.delete(record.uid)
        _log.info("skipped claim has ended", claim=record.claim)


def _key(result: DeviceResult) -> tuple[str, str, str | None]:
    return result.request, result.device, result.share_id


def _result(one: AllocatedDevice) -> DeviceResult:
    return DeviceResult(
        request=one.request,
        pool=one.pool,
        device=one.device,
        share_id=one.share_id,
        consumed=one.consumed,
        admin_access=one.admin_access,
    )


async def _wait_any(seen: list[tuple[Latest[Any], int]]) -> None:
    """Wait until one of these has another value than then."""
    async with trio.open_nursery() as nursery:

        async def wait(news: Latest[Any], version: int) -> None:
            await news.wait_changed(version)
            nursery.cancel_scope.cancel()

        for news, version in seen:
            nursery.start_soon(wait, news, version)
