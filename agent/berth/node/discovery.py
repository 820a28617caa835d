"""Keeps the inventory: looks at the machine when something changed, and tells what there is.

One task listens to netlink and uevents and to whatever else changes the answer (holds, settings,
the runtime's connection); changes within 200 ms are one look. A failed look leaves the last good
inventory in force: an interrupted dump never means that a NIC is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from berth.config.nic import NicTable
from berth.errors import BerthError, HostError
from berth.host import scan as host_scan
from berth.host.netlink.events import (
    GROUP_IPV4_ADDRESS,
    GROUP_IPV4_ROUTE,
    GROUP_IPV6_ADDRESS,
    GROUP_IPV6_ROUTE,
    GROUP_LINK,
    GROUP_NEXTHOP,
    GROUP_NSID,
    Event,
    EventSocket,
    Overflow,
    Removed,
)
from berth.host.netlink.link import Link
from berth.host.netlink.nsid import Nsid
from berth.host.sysfs import Sysfs
from berth.host.uevents import uevents
from berth.model.device import Exclusion
from berth.model.inventory import Inventory
from berth.node.records import Records
from berth.node.snapshot import Memory, Outlook, Snapshot, judge
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

COALESCE_S: Final = 0.2
"""Changes within this time are one look."""

_GROUPS: Final = (
    GROUP_LINK,
    GROUP_IPV4_ADDRESS,
    GROUP_IPV6_ADDRESS,
    GROUP_IPV4_ROUTE,
    GROUP_IPV6_ROUTE,
    GROUP_NEXTHOP,
    GROUP_NSID,
)
_log = get_log(__name__)


class Discovery:
    """The node's inventory.

    Args:
        records: What claims hold.
        table: The ``[nic]`` table in force.
        sysfs: Where the machine is read.
        toward: Addresses whose way out must stay: the API server's.
        own_addresses: Addresses by which the node is reached now.
        stirred: Called when something changed that may bring a NIC home.
    """

    def __init__(
        self,
        records: Records,
        *,
        table: NicTable,
        sysfs: Sysfs,
        toward: Callable[[], Iterable[str]],
        own_addresses: Callable[[], Iterable[str]],
        stirred: Callable[[], None],
    ) -> None:
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self._records = records
        self._table = table
        self._sysfs = sysfs
        self._toward = toward
        self._own_addresses = own_addresses
        self._stirred = stirred
        self._closed: Exclusion | None = None
        self._refused: dict[str, str] = {}
        self._memory = Memory()
        self._due = trio.Event()
        self._looking = trio.Lock()

    async def look(self) -> Snapshot:
        """Look at the machine now, and tell the inventory.

        Raises:
            HostError: The machine could not be read; the last inventory stays.
            RemoteProtocolError: The kernel's answer was malformed; the same.
        """
        async with self._looking:
            scan = await run_in_thread(
                "discovery", host_scan.scan, self._sysfs, toward=tuple(self._toward())
            )
            # From here on nothing waits: the records of now belong to the look of now.
            outlook = Outlook(
                table=self._table,
                records=self._records.all(),
                closed=self._closed,
                refused=dict(self._refused),
                own_addresses=tuple(self._own_addresses()),
            )
            snapshot = judge(scan, outlook, self._memory)
            self._memory = snapshot.memory
        self._tell(snapshot.inventory)
        return snapshot

    def look_again(self) -> None:
        """Something changed; a look follows soon. Never blocks."""
        self._due.set()

    def reload(self, table: NicTable) -> None:
        """Take another ``[nic]`` table; held devices keep their group until they are free."""
        self._table = table
        self._memory = attrs.evolve(self._memory, groups={})
        self.look_again()

    def close(self, reason: Exclusion | None) -> None:
        """Offer no free NIC for ``reason``, or offer them again with ``None``."""
        if reason != self._closed:
            self._closed = reason
            self.look_again()

    def refuse(self, refused: dict[str, str]) -> None:
        """Take devices out that the API server does not take, by name, with its words."""
        if refused != self._refused:
            self._refused = dict(refused)
            self.look_again()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the machine until cancelled; started when the first look is done.

        Raises:
            HostError: The machine cannot be listened to.
        """
        async with trio.open_nursery() as nursery:
            with EventSocket(_GROUPS) as events:
                nursery.start_soon(self._follow_netlink, events)
                nursery.start_soon(self._follow_uevents)
                nursery.start_soon(self._follow_records)
                await self._look_or_wait()
                task_status.started()
                await self._look_when_due()

    async def _look_when_due(self) -> None:
        while True:
            await self._due.wait()
            await trio.sleep(COALESCE_S)
            self._due = trio.Event()
            await self._look_or_wait()

    async def _look_or_wait(self) -> None:
        backoff = BackOff(first_s=0.2, most_s=30.0)
        while True:
            try:
                await self.look()
            except BerthError as error:
                backoff, delay_s = backoff.next_delay()
                _log.warning("machine not read, trying again", reason=error, in_s=delay_s)
                await trio.sleep(delay_s)
            else:
                return

    async def _follow_netlink(self, events: EventSocket) -> None:
        while True:
            received = await events.receive()
            if any(_may_bring_home(event) for event in received):
                self._stirred()
            self._due.set()

    async def _follow_uevents(self) -> None:
        try:
            async for _ in uevents():
                self._stirred()
                self._due.set()
        except HostError as error:
            _log.warning("no uevents here, links alone are followed", reason=error)
            await trio.sleep_forever()

    async def _follow_records(self) -> None:
        async for _ in self._records.changes.changes():
            self._due.set()

    def _tell(self, inventory: Inventory) -> None:
        before = self.inventory.get()
        if not self.inventory.set(inventory):
            return
        for warning in inventory.warnings:
            if warning not in before.warnings:
                _log.warning("inventory", finding=warning)
        offered = {nic.name for nic in inventory.nics if nic.exclusion is None}
        was = {nic.name for nic in before.nics if nic.exclusion is None}
        if offered != was:
            _log.info(
                "inventory changed",
                devices=len(inventory.devices),
                come=",".join(sorted(offered - was)) or "-",
                gone=",".join(sorted(was - offered)) or "-",
            )


def _may_bring_home(event: Event) -> bool:
    """Whether a NIC may have come home: a namespace ended, or a device's link is seen."""
    if isinstance(event, Overflow):
        return True
    if isinstance(event, Removed):
        return isinstance(event.value, Nsid)
    return isinstance(event.value, Link) and bool(event.value.parent_device)
