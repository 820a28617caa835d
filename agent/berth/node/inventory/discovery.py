"""Keeps the inventory: looks at the machine when something changed, and tells what there is.

One task listens to the machine and to whatever else changes the answer (holds, settings, the
runtime's connection). After a quiet time it looks almost at once; in a storm it looks no more often
than `SPACING_S` and its own cost allow. A failed look leaves the last good inventory in force: an
interrupted dump never means that a NIC is gone.

Prepare looks for itself. Those who ask while somebody looks share the next look.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import trio

from berth.config.nic import NicTable
from berth.errors import BerthError, HostError
from berth.host.netlink.events import Event, Overflow, Removed
from berth.host.netlink.link import Link
from berth.host.netlink.nsid import Nsid
from berth.host.scan import HostScan, Scanner
from berth.host.sysfs import Sysfs
from berth.host.uevents import ProductNames, Uevent
from berth.model.device import CounterSet, Exclusion
from berth.model.inventory import Inventory
from berth.model.meter import Tally
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Door, Peripheral
from berth.node.inventory.events import Watch, watch_machine
from berth.node.inventory.journal import InventoryJournal
from berth.node.inventory.relevance import Relevance
from berth.node.inventory.sighting import Memory, Outlook
from berth.node.inventory.snapshot import Snapshot, judge
from berth.node.records.given import Given
from berth.node.records.records import Records
from berth.node.records.shelf import Shelf
from berth.runtime.backoff import BackOff
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

SETTLE_S: Final = 0.02
"""From the first change after a quiet time to the look: what belongs together comes within it."""

SPACING_S: Final = 0.2
"""Least time between two looks that nobody waits for."""

SHARE: Final = 10
"""A look that took long is followed by a pause of so many times its length."""

PAUSE_LIMIT_S: Final = 2.0
"""No pause is longer: a NIC that became the uplink must leave the slices soon."""

_log = get_log(__name__)


class Looks(Protocol):
    """Whatever gives a look at the machine; it blocks."""

    def scan(self, *, toward: Iterable[str] = ()) -> HostScan:
        """Look, as `berth.host.scan.Scanner` does."""


class Stocked(Protocol):
    """Who keeps what the machine has beside NICs."""

    @property
    def peripherals(self) -> Latest[tuple[Peripheral, ...]]:
        """What was seen last."""

    @property
    def costs(self) -> Latest[Mapping[str, NodeCosts]]:
        """What a device costs the node of its own resources, by identity."""

    @property
    def warnings(self) -> Latest[tuple[str, ...]]:
        """What an operator should know of the settings."""


@attrs.frozen(kw_only=True)
class DiscoveryStatistics:
    """Figures for the operator and for tests.

    Attributes:
        looks: Looks at the machine so far.
        shared: How often somebody who asked was served by another's look.
        last_s: How long the last one took.
    """

    looks: int
    shared: int
    last_s: float


class Discovery:
    """The node's inventory.

    Args:
        records: What claims hold.
        table: The ``[nic]`` table in force.
        sysfs: Where the machine is read.
        toward: Addresses whose way out must stay: the API server's.
        own_addresses: Addresses by which the node is reached now.
        stirred: Called when something changed that may bring a NIC home.
        driver: Our driver's name.
        stocks: Who keeps the other devices, each sort.
        counters: What parts of divided devices draw on.
        given: What the device plugin gave.
        skipped: What claims hold that kubelet does not ask for.
        scanner: Looks at the machine; ``None`` for one over ``sysfs``.
        watch: Listens to the machine.

    Attributes:
        rescans: Counts looks at the machine, by why: ``changed`` or ``asked``.
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
        driver: str = "",
        stocks: Sequence[Stocked] = (),
        counters: Latest[tuple[CounterSet, ...]] | None = None,
        given: Shelf[Given] | None = None,
        skipped: Records | None = None,
        scanner: Looks | None = None,
        watch: Watch = watch_machine,
    ) -> None:
        self.inventory: Latest[Inventory] = Latest(Inventory())
        self.rescans = Tally("cause")
        self._records = records
        self._driver = driver
        self._stocks = tuple(stocks)
        self._counters = counters or Latest(())
        self._given = given
        self._skipped = skipped
        self._skips: Mapping[str, tuple[str, ...]] = {}
        self._table = table
        self._scanner = scanner or Scanner(sysfs, product=ProductNames().of_function)
        self._watch = watch
        self._toward = toward
        self._own_addresses = own_addresses
        self._stirred = stirred
        self._auto = Door.DRA
        self._closed: Exclusion | None = None
        self._refused: dict[str, str] = {}
        self._memory = Memory()
        self._relevance = Relevance()
        self._journal = InventoryJournal()
        self._looking = trio.Lock()
        self._begun = 0
        self._done = 0
        self._shared = 0
        self._last: Snapshot | None = None
        self._last_s = 0.0
        self._ended_at = -PAUSE_LIMIT_S
        self._wake = trio.Event()
        self._asked = 0
        self._answered = 0

    async def look(self, *, cause: str = "asked") -> Snapshot:
        """Look at the machine, and tell the inventory; the look begins after the call.

        Waits while the kernel's tables change faster than they can be read.

        Args:
            cause: Why, for the figures.

        Raises:
            HostError: The machine could not be read; the last inventory stays.
            RemoteProtocolError: The kernel's answer was malformed; the same.
        """
        begun_before = self._begun
        async with self._looking:
            if self._last is not None and self._done > begun_before:
                self._shared += 1
                return self._last
            self._begun += 1
            self.rescans.add(cause)
            number, asked, began = self._begun, self._asked, trio.current_time()
            snapshot = self._judge(await self._scan())
            self._done, self._answered = number, asked
            self._ended_at = trio.current_time()
            self._last, self._last_s = snapshot, self._ended_at - began
        return snapshot

    def look_again(self) -> None:
        """Something changed; a look follows soon. Never blocks."""
        self._asked += 1
        self._wake.set()

    def reload(self, table: NicTable) -> None:
        """Take another ``[nic]`` table; held devices keep their group until they are free."""
        self._table = table
        self._memory = attrs.evolve(self._memory, pins={})
        self._journal = InventoryJournal()
        self.look_again()

    def decide(self, auto: Door) -> None:
        """Settle what ``door = "auto"`` comes to, for NICs that are free."""
        if auto is not self._auto:
            self._auto = auto
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

    def skip(self, skips: Mapping[str, tuple[str, ...]]) -> None:
        """Tell of the devices of these generic groups what kubelet need not ask for."""
        if skips != self._skips:
            self._skips = skips
            self.look_again()

    def statistics(self) -> DiscoveryStatistics:
        """Give figures of now."""
        return DiscoveryStatistics(looks=self._done, shared=self._shared, last_s=self._last_s)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the machine until cancelled; started when the first look is done.

        Raises:
            HostError: The machine cannot be listened to.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch, self._heard, self._plugged)
            nursery.start_soon(self._follow, self._records.changes)
            for stock in self._stocks:
                nursery.start_soon(self._follow, stock.peripherals)
                nursery.start_soon(self._follow, stock.costs)
                nursery.start_soon(self._follow, stock.warnings)
            nursery.start_soon(self._follow, self._counters)
            for shelf in (self._given, self._skipped):
                if shelf is not None:
                    nursery.start_soon(self._follow, shelf.changes)
            await self._look_or_wait()
            task_status.started()
            await self._look_when_due()

    async def _look_when_due(self) -> None:
        while True:
            if self._asked == self._answered:
                self._wake = trio.Event()
                await self._wake.wait()
            await trio.sleep(max(SETTLE_S, self._ended_at + self._pause_s() - trio.current_time()))
            if self._asked != self._answered:
                await self._look_or_wait()

    def _pause_s(self) -> float:
        return min(max(SPACING_S, SHARE * self._last_s), PAUSE_LIMIT_S)

    async def _look_or_wait(self) -> None:
        backoff = BackOff(first_s=0.2, most_s=30.0)
        while True:
            try:
                await self.look(cause="changed")
            except BerthError as error:
                backoff, delay_s = backoff.next_delay()
                _log.warning("machine not read, trying again", reason=error, in_s=delay_s)
                await trio.sleep(delay_s)
            else:
                return

    async def _scan(self) -> HostScan:
        """Look with the eyes of a thread, again and again while the tables are not steady."""
        backoff = BackOff(first_s=0.02, most_s=1.0)
        while True:
            try:
                return await run_in_thread(
                    "discovery", self._scanner.scan, toward=tuple(self._toward())
                )
            except HostError as error:
                if error.errno != errno.EINTR:
                    raise
                backoff, delay_s = backoff.next_delay()
                if delay_s > SPACING_S:
                    _log.warning("machine changes while it is read", reason=error, in_s=delay_s)
                await trio.sleep(delay_s)

    def _judge(self, scan: HostScan) -> Snapshot:
        """Judge a look by the records of now: nothing waits from here to its telling."""
        outlook = Outlook(
            table=self._table,
            records=self._records.all(),
            closed=self._closed,
            refused=dict(self._refused),
            own_addresses=tuple(self._own_addresses()),
            driver=self._driver,
            auto=self._auto,
            peripherals=tuple(one for stock in self._stocks for one in stock.peripherals.get()),
            counter_sets=self._counters.get(),
            costs={i: cost for stock in self._stocks for i, cost in stock.costs.get().items()},
            remarks=tuple(text for stock in self._stocks for text in stock.warnings.get()),
            given=self._given.all() if self._given is not None else (),
            skipped=self._skipped.all() if self._skipped is not None else (),
            skips=self._skips,
        )
        snapshot = judge(scan, outlook, self._memory)
        self._memory = snapshot.memory
        nics = (nic.ifindex for nic in snapshot.inventory.nics)
        self._relevance.settle(scan.links, nics, self._table)
        self._journal.tell(snapshot.inventory, expected=self._closed)
        self.inventory.set(snapshot.inventory)
        return snapshot

    def _heard(self, events: Sequence[Event]) -> None:
        if any(_may_bring_home(event) for event in events):
            self._stirred()
        # Each event is told to it: what one says of a link holds for those that follow.
        concerning = [event for event in events if self._relevance.concerns(event)]
        if concerning:
            self.look_again()

    def _plugged(self, _: Sequence[Uevent]) -> None:
        self._stirred()
        self.look_again()

    async def _follow(self, news: Latest[Any]) -> None:
        version = news.version
        while True:
            version = await news.wait_changed(version)
            self.look_again()


def _may_bring_home(event: Event) -> bool:
    """Whether a NIC may have come home: a namespace ended, or a device's link is seen."""
    if isinstance(event, Overflow):
        return True
    if isinstance(event, Removed):
        return isinstance(event.value, Nsid)
    return isinstance(event.value, Link) and bool(event.value.parent_device)
