"""Tells the API server how a claim's devices are: newest state wins, in the background.

There are two who have something to say of a device: its record, once it is prepared, and who waits
for it to be ready before its pod is bound. The server takes all of a driver's entries at once, so
both are written here, and what one of them does not speak of stays as it was told.

What cannot be told for want of rights is told once, in the journal, and then left alone: with
kubelet's own credentials no claim status can be written. What the server does not take of one
claim concerns that claim alone, since its author may be the reason.

Source: network.md §5; KC §7 for the entry and for how a refusal reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

import attrs
import trio

from berth.errors import ClaimError, KubeError
from berth.health.verdict import Verdict
from berth.kube.api import KubeApi
from berth.kube.status import Condition, ConditionStatus, DeviceStatus
from berth.model.claim import ClaimRef
from berth.node.claims.conditions import device_status
from berth.node.health.inquiry import Inquiry
from berth.node.records.record import ClaimRecord
from berth.node.records.shelf import Shelf
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_DEVICES: Final = ("status.devices",)
# The path that is refused as a whole when the right to write into it is missing.

Key: TypeAlias = "tuple[str, str, str | None]"
"""Pool, device and share of one entry."""

_log = get_log(__name__)


class StatusSink(Protocol):
    """Who is told how claims are."""

    def tell(self, record: ClaimRecord) -> None:
        """The claim is like this now; never blocks."""

    def forget(self, uid: str) -> None:
        """The claim is undone; what was not told yet is dropped."""


def now_text(clock: Callable[[], float] = time.time) -> str:
    """The time as a condition carries it: RFC 3339 in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock()))


@attrs.frozen(kw_only=True)
class _Due:
    ref: ClaimRef
    devices: tuple[DeviceStatus, ...]


@attrs.frozen(kw_only=True)
class _Awaited:
    """What is said of devices that are waited for.

    Attributes:
        allocation: Which allocation of the claim it is of.
    """

    allocation: str
    conditions: Mapping[Key, tuple[Condition, ...]]


class ClaimStatus:
    """Writes claim statuses, one claim at a time.

    What an earlier life has told is read once, when there is something to tell of that claim: so a
    restart writes nothing by itself, and conditions keep the times of their changes.

    Args:
        manager: Field manager of the apply.
        records: The claims whose devices are judged.
        inquiry: Tells how devices are; ``None`` where nobody judges them.
        told: Told the devices of whose health a status said something else than the one before.
        waits: Whether devices may be waited for: then an earlier life may have told of any claim.

    Attributes:
        able: Whether claim statuses can be written, as far as is known.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        driver: str,
        manager: str,
        records: Shelf[ClaimRecord] | None = None,
        inquiry: Inquiry | None = None,
        told: Callable[[Iterable[str]], object] = tuple,
        waits: Callable[[], bool] = bool,
    ) -> None:
        self._api = api
        self._driver = driver
        self._manager = manager
        self._records = records
        self._inquiry = inquiry
        self._tell_changed = told
        self._waits = waits
        self.able: Latest[bool] = Latest(True)
        self._of_records: dict[str, tuple[DeviceStatus, ...]] = {}
        self._awaited: dict[str, _Awaited] = {}
        self._due: dict[str, _Due] = {}
        self._told: dict[str, _Due] = {}
        self._judged: dict[str, Mapping[str, Verdict]] = {}
        self._unread: set[str] = set()
        self._refused: set[str] = set()
        self._wake = trio.Event()
        self._settled = False

    def tell(self, record: ClaimRecord) -> None:
        """The claim is like this now; never blocks, and nothing is written if nothing changed.

        Where nobody judges devices, there is nothing to tell of those that are not moved that the
        allocation does not say.
        """
        uid = record.claim.uid
        judged = self._inquiry is not None and bool(record.devices)
        if not self.able.get() or uid in self._refused or not (record.has_nics or judged):
            return
        if uid in self._unread and uid not in self._due and not self._settled:
            # What is known of its devices a moment after a start is less than what was told.
            return
        if self._waits() and uid not in self._told and uid not in self._awaited:
            self._unread.add(uid)
        at = now_text()
        verdicts = self._verdicts(record)
        devices = tuple(
            device_status(device, at=at, verdict=verdicts.get(device.result.device))
            for device in record.devices
        )
        self._of_records[uid] = devices
        self._put(record.claim)

    def tell_awaited(
        self, ref: ClaimRef, conditions: Mapping[Key, tuple[Condition, ...]], *, allocation: str
    ) -> None:
        """The claim's devices are waited for and like this now; never blocks.

        Args:
            conditions: By pool, device and share.
            allocation: Tells this allocation of the claim from others.
        """
        uid = ref.uid
        if not self.able.get() or uid in self._refused:
            return
        known = self._awaited.get(uid)
        if known is None or known.allocation != allocation:
            # The server has dropped what was told of an allocation before.
            self._told.pop(uid, None)
            self._unread.add(uid)
        self._awaited[uid] = _Awaited(allocation=allocation, conditions=conditions)
        self._put(ref)

    def forget_awaited(self, uid: str) -> None:
        """The claim is gone, or was given nothing that is waited for."""
        if self._awaited.pop(uid, None) is not None and uid not in self._of_records:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """The claim is undone; what was not told yet is dropped."""
        self._of_records.pop(uid, None)
        self._awaited.pop(uid, None)
        self._due.pop(uid, None)
        self._told.pop(uid, None)
        self._judged.pop(uid, None)
        self._unread.discard(uid)
        self._refused.discard(uid)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write what is due, and tell what verdicts change, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._inquiry is not None and self._records is not None:
                known = {record.uid for record in self._records.all() if record.prepared}
                self._unread |= known - self._told.keys()
                nursery.start_soon(self._follow_verdicts, self._inquiry, self._records)
            task_status.started()
            await self._write_when_due()

    def _put(self, ref: ClaimRef) -> None:
        """Have written what is known of a claim, unless it was told."""
        uid = ref.uid
        devices = _joined(self._of_records.get(uid, ()), self._awaited.get(uid))
        due = _Due(ref=ref, devices=devices)
        if uid not in self._due and self._is_told(due):
            return
        self._due[uid] = due
        self._wake.set()

    def _is_told(self, due: _Due) -> bool:
        """Whether there is nothing new in it."""
        told = self._told.get(due.ref.uid)
        return told is not None and _by_key(_kept(due, told, self._driver)) == _by_key(told)

    def _verdicts(self, record: ClaimRecord) -> Mapping[str, Verdict]:
        """How the claim's devices are, by name; that only the words are others is no news."""
        if self._inquiry is None:
            return {}
        state, known = self._inquiry.state.get(), self._judged.get(record.uid, {})
        names = {device.result.device for device in record.devices}
        verdicts = {name: _steady(state.of(name), known.get(name)) for name in names}
        self._judged[record.uid] = verdicts
        return verdicts

    async def _follow_verdicts(self, inquiry: Inquiry, records: Shelf[ClaimRecord]) -> None:
        await inquiry.wait_asked(
            lambda: (device.result.device for one in records.all() for device in one.devices)
        )
        self._settled = True
        async for _ in inquiry.state.changes():
            for record in records.all():
                if record.prepared and not record.revoked:
                    self.tell(record)

    async def _write_when_due(self) -> None:
        backoff = BackOff(first_s=1.0, most_s=30.0)
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._due:
                if await self._write(next(iter(self._due))):
                    backoff = backoff.forgiven()
                    continue
                backoff, delay_s = backoff.next_delay()
                await trio.sleep(delay_s)

    async def _write(self, uid: str) -> bool:
        """Write one; gives whether there is nothing of it left to try again."""
        ref = self._due[uid].ref
        try:
            if uid in self._unread:
                await self._read(uid, ref)
            return await self._apply(uid)
        except KubeError as error:
            return await self._failed(uid, ref, error)

    async def _read(self, uid: str, ref: ClaimRef) -> None:
        """Learn what an earlier life has told."""
        devices = await self._api.read_claim_status(ref, driver=self._driver)
        if uid in self._unread:
            self._unread.discard(uid)
            self._told[uid] = _Due(ref=ref, devices=devices)

    async def _apply(self, uid: str) -> bool:
        newest = self._due.get(uid)
        if newest is None:
            return True
        due = _kept(newest, self._told.get(uid), self._driver)
        if self._is_told(due):
            del self._due[uid]
            return True
        await self._api.apply_claim_status(
            due.ref, due.devices, driver=self._driver, manager=self._manager
        )
        self._tell_changed(_changed(self._told.get(uid), due))
        # It may have been forgotten meanwhile, and then its next life is told from the beginning.
        newest = self._due.get(uid)
        if newest is not None:
            self._told[uid] = due
            if self._is_told(newest):
                del self._due[uid]
        return True

    async def _failed(self, uid: str, ref: ClaimRef, error: KubeError) -> bool:
        if uid not in self._due:
            return True
        if error.status == 404 or (error.status == 409 and await self._is_replaced(ref)):
            # Until it is undone here, verdicts on its devices go on to change.
            self.forget(uid)
            self._refused.add(uid)
            return True
        if error.status == 403 or (error.status == 422 and error.fields == _DEVICES):
            self.able.set(False)
            self._due.clear()
            _log.warning(
                "claim status is not written: the credentials do not suffice",
                reason=error,
                mend="use a service account with configs/kubernetes/rbac.yaml",
            )
            return True
        if error.status == 422:
            self.forget(uid)
            self._refused.add(uid)
            _log.warning("claim status is not taken, it is left alone", claim=ref, reason=error)
            return True
        # One that the server fails over must not hold up the others.
        if uid in self._due:
            self._due[uid] = self._due.pop(uid)
        _log.warning("claim status not written, trying again", claim=ref, reason=error)
        return False

    async def _is_replaced(self, ref: ClaimRef) -> bool:
        """Whether a conflict was about the claim itself, and not about a change of it."""
        try:
            await self._api.get_claim(ref, driver=self._driver)
        except ClaimError:
            return True
        except KubeError as error:
            return error.status == 404
        return False


def _steady(now: Verdict, before: Verdict | None) -> Verdict:
    """The verdict as it was told, if it means the same: words may count the seconds."""
    if before is None or (now.status, now.severity, now.reason) != (
        before.status,
        before.severity,
        before.reason,
    ):
        return now
    return before


def _joined(devices: Iterable[DeviceStatus], awaited: _Awaited | None) -> tuple[DeviceStatus, ...]:
    """What the record and who waits say, by device."""
    entries = {_key(one): one for one in devices}
    for key, conditions in (awaited.conditions if awaited is not None else {}).items():
        pool, device, share = key
        known = entries.get(key, DeviceStatus(pool=pool, device=device, share_id=share))
        entries[key] = attrs.evolve(known, conditions=(*known.conditions, *conditions))
    return tuple(entries.values())


def _changed(told: _Due | None, due: _Due) -> Iterable[str]:
    """Devices of whose health there is something else in it."""
    before = _healths(told) if told is not None else {}
    return [name for name, health in _healths(due).items() if before.get(name) != health]


def _healths(due: _Due) -> Mapping[str, tuple[ConditionStatus, str]]:
    return {
        one.device: (condition.status, condition.reason)
        for one in due.devices
        for condition in one.conditions
        if condition.type == "Healthy"
    }


def _key(one: DeviceStatus) -> Key:
    return one.pool, one.device, one.share_id


def _by_key(due: _Due) -> Mapping[Key, DeviceStatus]:
    return {_key(one): one for one in due.devices}


def _kept(due: _Due, told: _Due | None, driver: str) -> _Due:
    """A condition whose status did not change keeps the time at which it did.

    What binds a pod, and nothing is said of now, stays: who waits comes later than the record after
    a start, and may not hear of claims for a while.
    """
    known = _by_key(told) if told is not None else {}
    devices = []
    for key, new in _by_key(due).items():
        old = known[key].conditions if key in known else ()
        times = {c.type: (c.status, c.changed_at) for c in old}
        conditions = tuple(
            attrs.evolve(c, changed_at=times[c.type][1])
            if c.type in times and times[c.type][0] is c.status
            else c
            for c in new.conditions
        )
        types = {condition.type for condition in conditions}
        stays = (c for c in old if c.type.startswith(f"{driver}/") and c.type not in types)
        devices.append(attrs.evolve(new, conditions=(*conditions, *stays)))
    return attrs.evolve(due, devices=tuple(devices))
