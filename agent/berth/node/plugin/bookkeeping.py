"""Compares what the device plugin gave with kubelet's lists, and frees what nobody has any more.

It asks when an answer may have found its container or may have lost it: a second after each
allocation, when the runtime tells of an end, every 10 s while anything is given. While nothing is,
it asks at the start and when a device has come, since a record may have been lost, and then not at
all.

Source: gpu-and-health.md L6, L7, L10 to L12; KC §10 (kubelet answers few lists at once).
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs
import trio

from berth.errors import BerthError
from berth.model.claim import ClaimRef
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.model.resource import PodUsages, Usage
from berth.node.claims.status import now_text
from berth.node.ledger import Ledger, PluginHolder
from berth.node.plugin.allotments import Allotments
from berth.node.plugin.evidence import Absence, Finding, Judgement, Look, judge, unknown
from berth.node.records.given import Given, GivenDevice
from berth.node.records.shelf import Shelf
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.sockets import SocketId

AFTER_S: Final = 1.0
"""From an allocation, or an end, to the list that may show it."""

EVERY_S: Final = 10.0
"""Between two lists while something is given."""

_log = get_log(__name__)


class Lister(Protocol):
    """Kubelet's PodResources."""

    async def list_pods(self) -> PodUsages:
        """What the containers of all active pods have."""
        ...

    def socket(self) -> SocketId | None:
        """Which socket kubelet answers at; ``None`` while there is none."""
        ...


class Bookkeeping:
    """Keeps holds of the device plugin's door true.

    Args:
        lister: Who is asked.
        is_live: Whether a container with ids of a resource still runs, or nobody can say.
        new_uid: Names for what is rebuilt.
        clock: The clock of file times, in seconds.
    """

    def __init__(
        self,
        allotments: Allotments,
        *,
        given: Shelf[Given],
        ledger: Ledger,
        inventory: Latest[Inventory],
        lister: Lister,
        is_live: Callable[[Given], bool],
        boot_id: str,
        new_uid: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._allotments = allotments
        self._given = given
        self._ledger = ledger
        self._inventory = inventory
        self._lister = lister
        self._is_live = is_live
        self._boot_id = boot_id
        self._new_uid = new_uid
        self._clock = clock
        self._absences: dict[str, Absence] = {}
        self._known_since: dict[str, float] = {}
        self._covered: frozenset[str] = frozenset()
        self._answered = allotments.requests.version
        self._stirred = trio.Event()
        self._failed = ""

    def look_again(self) -> None:
        """Something ended; kubelet is asked soon. Never blocks."""
        self._stirred.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask and settle until cancelled."""
        task_status.started()
        await self._allotments.resources.wait_value(bool)
        backoff, delay_s = BackOff(first_s=1.0, most_s=EVERY_S), 0.0
        while True:
            await self._wait_due(delay_s)
            if await self._settle():
                backoff = BackOff(first_s=1.0, most_s=EVERY_S)
                delay_s = EVERY_S if self._given.all() else math.inf
            else:
                backoff, delay_s = backoff.next_delay()

    async def _wait_due(self, delay_s: float) -> None:
        """Wait for the time, an allocation, an end or a device, whichever comes first."""
        version = self._answered
        with trio.move_on_after(delay_s):
            async with trio.open_nursery() as nursery:

                async def wait_request() -> None:
                    await self._allotments.requests.wait_changed(version)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(wait_request)
                nursery.start_soon(self._wait_device)
                await self._stirred.wait()
                nursery.cancel_scope.cancel()
        if self._stirred.is_set() or self._allotments.requests.version != version:
            await trio.sleep(AFTER_S)
        self._stirred = trio.Event()

    async def _wait_device(self) -> None:
        """Wait for a device that no list was compared with: its holder's record may be lost."""
        await self._inventory.wait_value(lambda now: not _identities(now) <= self._covered)
        self._stirred.set()

    async def _settle(self) -> bool:
        """Ask once and act on the answer; whether it was answered and all of it was done."""
        now_s = trio.current_time()
        # What is given while kubelet answers is younger than the answer, and asked about anew.
        self._answered = self._allotments.requests.version
        await self._allotments.renew()
        asked = self._given.all()
        self._know(asked, now_s)
        try:
            usages = (await self._lister.list_pods()).usages
            look = Look(at_s=now_s, usages=usages, kubelet_age_s=self._kubelet_age_s())
        except BerthError as error:
            self._say("kubelet's lists are not read, nothing is freed", str(error))
            return False
        faults = [await _attempt(self._act(self._judge(one, look))) for one in asked]
        inventory = self._inventory.get()
        units = _units(inventory)
        faults += [
            await _attempt(self._rebuild(usage, units))
            for usage in unknown(usages, self._given.all())
        ]
        self._covered = _identities(inventory)
        self._say("what kubelet's lists show is not written down", next(filter(None, faults), ""))
        return not any(faults)

    def _know(self, asked: Sequence[Given], now_s: float) -> None:
        """Note since when each is known, and forget those that are no more."""
        self._known_since = {
            one.holder.uid: self._known_since.get(one.holder.uid, now_s) for one in asked
        }
        self._absences = {
            uid: absence for uid, absence in self._absences.items() if uid in self._known_since
        }

    def _kubelet_age_s(self) -> float:
        """How long kubelet has been there; a kubelet that starts makes its socket anew."""
        socket = self._lister.socket()
        return self._clock() - socket.made_ns / 1e9 if socket is not None else 0.0

    def _judge(self, one: Given, look: Look) -> Judgement:
        uid = one.holder.uid
        if one.revoked:
            # It has ended; what is left is a NIC that was not home.
            return Judgement(finding=Finding.FREE, given=one)
        return judge(
            one,
            look,
            absence=self._absences.get(uid),
            known_since_s=self._known_since[uid],
            is_live=self._is_live(one),
        )

    async def _act(self, judgement: Judgement) -> None:
        uid = judgement.given.holder.uid
        if judgement.absence is None:
            self._absences.pop(uid, None)
        else:
            self._absences[uid] = judgement.absence
        if judgement.finding is Finding.RENEW:
            await self._allotments.bind(judgement.given)
        elif judgement.finding is Finding.FREE:
            await self._allotments.free(judgement.given)

    async def _rebuild(self, usage: Usage, units: Mapping[tuple[str, str], Peripheral]) -> None:
        """Hold what kubelet shows and no record tells of; told as disputed if a claim has it."""
        devices = tuple(
            GivenDevice(id=id_, peripheral=attrs.evolve(one, held_by=()))
            for id_ in usage.ids
            if (one := units.get((usage.resource, id_))) is not None
        )
        if not devices:
            return
        given = Given(
            holder=PluginHolder(
                uid=self._new_uid(),
                resource=usage.resource,
                ids=tuple(device.id for device in devices),
                since=now_text(),
                container=usage.container,
            ),
            devices=devices,
            boot_id=self._boot_id,
            bound=True,
        )
        disputes = self._disputes(given)
        for device, claim in disputes.items():
            _log.error(
                "device is disputed: two have it, and neither door gives it to others",
                device=device,
                claim=claim,
                other=usage.container,
                resource=usage.resource,
            )
        if not disputes:
            _log.warning("record lost, what kubelet shows counts as held", holder=given.holder)
        await self._allotments.rebuild(given)

    def _disputes(self, given: Given) -> Mapping[str, ClaimRef]:
        return {
            hold.device: other.holder
            for hold in given.holds
            for other in self._ledger.holders(hold.key)
            if isinstance(other.holder, ClaimRef) and (hold.share is None or other.share is None)
        }

    def _say(self, what: str, fault: str) -> None:
        if fault and fault != self._failed:
            _log.warning(what, reason=fault)
        self._failed = fault


async def _attempt(step: Awaitable[None]) -> str:
    """Do one step of many; gives why it failed, so that it keeps no other from being done."""
    try:
        await step
    except BerthError as error:
        return str(error)
    return ""


def _units(inventory: Inventory) -> Mapping[tuple[str, str], Peripheral]:
    return {(one.resource, id_): one for one in inventory.pluggable for id_ in one.ids}


def _identities(inventory: Inventory) -> frozenset[str]:
    return frozenset(one.identity for one in inventory.pluggable if one.ids)
