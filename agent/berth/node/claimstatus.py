"""Tells the API server how a claim's devices are: newest state wins, in the background.

What cannot be told for want of rights is told once, in the journal, and then left alone: with
kubelet's own credentials no claim status can be written. What the server does not take of one
claim concerns that claim alone, since its author may be the reason.

Source: network.md §5; KC §7 for the entry and for how a refusal reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

import attrs
import trio

from berth.errors import ClaimError, KubeError
from berth.kube.api import KubeApi
from berth.kube.status import Condition, ConditionStatus, DeviceStatus
from berth.model.claim import ClaimRef
from berth.nic.record import NicRecord, Stage
from berth.node.record import ClaimRecord, HeldDevice
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log

_DEVICES: Final = ("status.devices",)
# The path that is refused as a whole when the right to write into it is missing.

_USABLE: Final = "Usable"

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


def device_status(device: HeldDevice, *, at: str) -> DeviceStatus:
    """What is told of one device.

    Args:
        at: The time of its last change.
    """
    nic = device.nic
    return DeviceStatus(
        pool=device.result.pool,
        device=device.result.device,
        share_id=device.result.share_id,
        conditions=_conditions(nic, at) if nic is not None else (),
        network=nic.network if nic is not None else None,
        data=_data(nic) if nic is not None else None,
    )


def _conditions(nic: NicRecord, at: str) -> tuple[Condition, ...]:
    attached = nic.stage is Stage.ATTACHED
    if attached:
        ready = ("Attached", f"in the pod as {nic.config.interface.name}")
    elif nic.fault:
        ready = ("AttachFailed", nic.fault)
    else:
        ready = ("AwaitingSandbox", "prepared; it goes into the pod's sandbox when that is made")
    network = _network_word(nic) if attached else (ready[0], "")
    return (
        _condition("Ready", attached, *ready, at=at),
        _condition("NetworkReady", network[0] == _USABLE, *network, at=at),
    )


def _network_word(nic: NicRecord) -> tuple[str, str]:
    """Reason and message of ``NetworkReady`` for a NIC that is in its pod."""
    if nic.duplicates:
        return "DuplicateAddress", f"another station holds {', '.join(nic.duplicates)}"
    return (_USABLE, "") if nic.carrier else ("NoCarrier", "")


def _condition(kind: str, holds: bool, reason: str, message: str, *, at: str) -> Condition:
    return Condition(
        type=kind,
        status=ConditionStatus.TRUE if holds else ConditionStatus.FALSE,
        reason=reason,
        message=message[:1000],
        changed_at=at,
    )


def _data(nic: NicRecord) -> dict[str, object]:
    """What would help to bring the NIC home if the disk were lost."""
    data: dict[str, object] = {"identity": nic.identity}
    if nic.originals is not None:
        originals = nic.originals
        data["home"] = {"name": originals.name, "mac": originals.mac, "mtu": originals.mtu}
    if nic.sandbox is not None:
        data["sandbox"] = nic.sandbox.id
    return data


@attrs.frozen(kw_only=True)
class _Due:
    ref: ClaimRef
    devices: tuple[DeviceStatus, ...]


class ClaimStatus:
    """Writes claim statuses, one claim at a time.

    Args:
        manager: Field manager of the apply.
    """

    def __init__(self, api: KubeApi, *, driver: str, manager: str) -> None:
        self._api = api
        self._driver = driver
        self._manager = manager
        self._due: dict[str, _Due] = {}
        self._told: dict[str, _Due] = {}
        self._refused: set[str] = set()
        self._wake = trio.Event()
        self._off = False

    def tell(self, record: ClaimRecord) -> None:
        """The claim is like this now; never blocks, and nothing is written if nothing changed.

        Of devices that are not moved there is nothing to tell that the allocation does not say.
        """
        uid = record.claim.uid
        if self._off or uid in self._refused or not record.has_nics:
            return
        at = now_text()
        devices = tuple(device_status(device, at=at) for device in record.devices)
        self._due[uid] = _Due(ref=record.claim, devices=devices)
        self._wake.set()

    def forget(self, uid: str) -> None:
        """The claim is undone; what was not told yet is dropped."""
        self._due.pop(uid, None)
        self._told.pop(uid, None)
        self._refused.discard(uid)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write what is due, until cancelled."""
        task_status.started()
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
        due = _keep_times(self._due[uid], self._told.get(uid))
        if due == self._told.get(uid):
            del self._due[uid]
            return True
        try:
            await self._api.apply_claim_status(
                due.ref, due.devices, driver=self._driver, manager=self._manager
            )
        except KubeError as error:
            return await self._failed(uid, due.ref, error)
        # It may have been forgotten meanwhile, and then its next life is told from the beginning.
        newest = self._due.get(uid)
        if newest is not None:
            self._told[uid] = due
            if _keep_times(newest, due) == due:
                del self._due[uid]
        return True

    async def _failed(self, uid: str, ref: ClaimRef, error: KubeError) -> bool:
        if uid not in self._due:
            return True
        if error.status == 404 or (error.status == 409 and await self._is_replaced(ref)):
            self.forget(uid)
            return True
        if error.status == 403 or (error.status == 422 and error.fields == _DEVICES):
            self._off = True
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


def _keep_times(due: _Due, told: _Due | None) -> _Due:
    """A condition whose status did not change keeps the time at which it did."""
    if told is None or len(told.devices) != len(due.devices):
        return due
    devices = []
    for new, old in zip(due.devices, told.devices, strict=True):
        times = {c.type: (c.status, c.changed_at) for c in old.conditions}
        conditions = tuple(
            attrs.evolve(c, changed_at=times[c.type][1])
            if c.type in times and times[c.type][0] is c.status
            else c
            for c in new.conditions
        )
        devices.append(attrs.evolve(new, conditions=conditions))
    return attrs.evolve(due, devices=tuple(devices))
