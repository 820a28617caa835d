"""When the machine is looked at, what is told, and what a failed look leaves in force."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_interface
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.config.nic import NicTable
from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink.address import Address
from berth.host.netlink.events import Changed, Event, Overflow, Removed
from berth.host.netlink.link import Link
from berth.host.netlink.nsid import Nsid
from berth.host.scan import HostScan
from berth.host.sysfs import Sysfs
from berth.host.uevents import Uevent
from berth.model.device import CounterSet, Exclusion
from berth.node.inventory import discovery as module
from berth.node.inventory.discovery import (
    PAUSE_LIMIT_S,
    SETTLE_S,
    SHARE,
    SPACING_S,
    Discovery,
    DiscoveryStatistics,
)
from berth.node.inventory.snapshot import Snapshot
from berth.node.records.record import ClaimRecord
from berth.node.records.records import Records
from berth.runtime.latest import Latest
from tests.unit.nic.machine import Machine, group
from tests.unit.node.holds import held, record

PF = "0000:41:00.0"
NAME = "nic-0000-41-00-0"
FAST = NicTable(groups=(group("fast", vendor=("15b3",)),))
NEWS = Changed(value=Address(index=3, ip=ip_interface("192.0.2.7/24")))
POD = Changed(value=Link(index=99, name="cali99", kind="veth"))


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with nothing but its loopback."""
    return Machine(tmp_path / "machine")


class Eyes:
    """Looks at a machine that a test makes, and takes the time that it is told to.

    Attributes:
        faults: Errors that the next looks end with.
        cost_s: How long each look takes.
        began: When each look began.
        shut: While this is an event, looks wait for it.
        toward: What was last asked about.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.faults: list[Exception] = []
        self.cost_s = 0.0
        self.began: list[float] = []
        self.shut: trio.Event | None = None
        self.toward: tuple[str, ...] = ()

    def scan(self, *, toward: Iterable[str] = ()) -> HostScan:
        """Look."""
        self.toward = tuple(toward)
        if self.faults:
            raise self.faults.pop(0)
        return self.machine.scan()

    async def run_in_thread(
        self, _kind: str, function: Callable[..., HostScan], /, *args: Any, **kwargs: Any
    ) -> HostScan:
        """Stand for the thread, in the clock of the test."""
        self.began.append(trio.current_time())
        await trio.sleep(self.cost_s)
        if self.shut is not None:
            await self.shut.wait()
        return function(*args, **kwargs)


class HeldBook:
    """Records in memory."""

    def __init__(self) -> None:
        self.records: list[ClaimRecord] = []
        self.changes: Latest[int] = Latest(0)

    def all(self) -> tuple[ClaimRecord, ...]:
        """Give them."""
        return tuple(self.records)

    def put(self, added: ClaimRecord) -> None:
        """Add one."""
        self.records.append(added)
        self.changes.set(self.changes.get() + 1)


@attrs.define
class Bed:
    """A discovery and all that it depends on, in the hands of a test."""

    discovery: Discovery
    eyes: Eyes
    book: HeldBook
    machine: Machine
    stirred: list[float] = attrs.field(factory=list)
    heard: Callable[[Sequence[Event]], None] = lambda _: None
    plugged: Callable[[Sequence[Uevent]], None] = lambda _: None
    own: list[str] = attrs.field(factory=list)
    counters: Latest[tuple[CounterSet, ...]] = attrs.field(factory=lambda: Latest(()))

    @property
    def looks(self) -> int:
        """Looks that were begun."""
        return len(self.eyes.began)

    @property
    def offered(self) -> list[str]:
        """Names of what is published."""
        return [device.name for device in self.discovery.inventory.get().devices]


@pytest.fixture(name="bed")
def _bed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Bed:
    machine.nic("ens1f0", PF)
    eyes, book = Eyes(machine), HeldBook()
    counters: Latest[tuple[CounterSet, ...]] = Latest(())
    monkeypatch.setattr(module, "run_in_thread", eyes.run_in_thread)

    async def watch(
        heard: Callable[[Sequence[Event]], None],
        plugged: Callable[[Sequence[Uevent]], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        bed.heard, bed.plugged = heard, plugged
        task_status.started()
        await trio.sleep_forever()

    bed = Bed(
        discovery=Discovery(
            cast("Records", book),
            table=FAST,
            sysfs=Sysfs(machine.tree.root),
            toward=lambda: ("203.0.113.9",),
            own_addresses=lambda: tuple(bed.own),
            stirred=lambda: bed.stirred.append(trio.current_time()),
            counters=counters,
            scanner=eyes,
            watch=watch,
        ),
        counters=counters,
        eyes=eyes,
        book=book,
        machine=machine,
    )
    return bed


@pytest.fixture(name="running")
async def _running(bed: Bed, nursery: trio.Nursery) -> Bed:
    """A bed whose discovery has looked once, a quiet while ago; for tests with a mock clock."""
    await nursery.start(bed.discovery.run)
    await trio.sleep(10)
    return bed


# The first look


async def test_it_is_started_when_the_first_look_is_told(
    autojump_clock: MockClock, running: Bed
) -> None:
    """Who waits for the start finds the inventory."""

    assert running.offered == [NAME]
    assert running.eyes.toward == ("203.0.113.9",)
    assert running.discovery.statistics() == DiscoveryStatistics(looks=1, shared=0, last_s=0.0)
    await running.discovery.look()
    assert running.discovery.rescans.series() == {("changed",): 1, ("asked",): 1}


async def test_first_look_is_tried_until_it_succeeds(
    bed: Bed, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A daemon that starts in a storm is late, not dead."""

    bed.eyes.faults = [HostError("host", "no", errno=5), RemoteProtocolError("netlink", "cut")]
    await nursery.start(bed.discovery.run)

    assert (bed.looks, bed.offered) == (3, [NAME])


# When it looks


async def test_idle_discovery_looks_at_nothing(autojump_clock: MockClock, running: Bed) -> None:
    """An hour without news is an hour without a look, and nobody is woken."""

    version = running.discovery.inventory.version
    await trio.sleep(3600)

    assert running.looks == 1
    assert running.discovery.inventory.version == version


async def test_other_counters_are_told_by_a_look(autojump_clock: MockClock, running: Bed) -> None:
    """A GPU whose parts are the same may still have more to draw on."""

    sets = (CounterSet(name="gpu-0-counters", counters={"memory": 1}),)
    running.counters.set(sets)
    await trio.sleep(10)

    assert running.looks == 2
    assert running.discovery.inventory.get().counter_sets == sets


async def test_first_event_after_a_quiet_time_is_answered_almost_at_once(
    autojump_clock: MockClock, running: Bed
) -> None:
    """What belongs together comes within a moment: one look for all of it."""

    began = trio.current_time()
    for _ in range(3):
        running.heard((NEWS, NEWS))
        await trio.sleep(SETTLE_S / 4)
    await trio.sleep(10)

    assert [at - began for at in running.eyes.began[1:]] == [pytest.approx(SETTLE_S)]


async def test_storm_of_events_costs_few_looks(autojump_clock: MockClock, running: Bed) -> None:
    """A thousand in two seconds."""

    for _ in range(1000):
        running.heard((NEWS,))
        await trio.sleep(0.002)
    await trio.sleep(10)

    assert running.looks - 1 <= 2 / SPACING_S + 2
    gaps = [b - a for a, b in pairwise(running.eyes.began[1:])]
    assert min(gaps) >= SPACING_S * 0.999


async def test_last_event_of_a_storm_is_answered(autojump_clock: MockClock, running: Bed) -> None:
    """What changes while a look is under way is not in it."""

    running.eyes.cost_s = 0.1
    running.heard((NEWS,))
    await trio.sleep(SETTLE_S + 0.05)
    running.heard((NEWS,))
    await trio.sleep(10)

    assert running.looks == 3


@pytest.mark.parametrize(
    ("cost_s", "pause_s"), [(0.001, SPACING_S), (0.05, 0.05 * SHARE), (1.0, PAUSE_LIMIT_S)]
)
async def test_costly_looks_follow_each_other_slowly(
    autojump_clock: MockClock, running: Bed, cost_s: float, pause_s: float
) -> None:
    """A node with thousands of links spends a tenth of a core at most, and answers all the same."""

    running.eyes.cost_s = cost_s
    for _ in range(1000):
        running.heard((NEWS,))
        await trio.sleep(0.01)
    gaps = [b - a for a, b in pairwise(running.eyes.began[2:])]

    assert gaps
    assert all(gap == pytest.approx(cost_s + pause_s, abs=0.001) for gap in gaps)


async def test_pods_that_come_and_go_are_worth_no_look(
    autojump_clock: MockClock, running: Bed
) -> None:
    """Their links are no NICs of ours."""

    for _ in range(100):
        running.heard((POD, Removed(value=POD.value)))
        await trio.sleep(0.05)

    assert running.looks == 1


async def test_hold_that_changes_is_looked_at(autojump_clock: MockClock, running: Bed) -> None:
    """What a claim takes is shown, by whoever reads the inventory."""

    running.book.put(record("a", held(f"pci:{PF}", NAME)))
    await trio.sleep(1)
    (nic,) = running.discovery.inventory.get().nics

    assert (running.looks, nic.held_by) == (2, ("team/a",))


async def test_device_event_is_looked_at(autojump_clock: MockClock, running: Bed) -> None:
    """A function was plugged in, or a driver bound."""

    running.machine.nic("ens2f0", "0000:42:00.0")
    running.plugged((Uevent(action="bind"),))
    await trio.sleep(1)

    assert running.offered == [NAME, "nic-0000-42-00-0"]
    assert len(running.stirred) == 1


async def test_late_default_route_takes_the_nic_out_soon(
    autojump_clock: MockClock, running: Bed
) -> None:
    """NW §1.3: a free device that becomes uplink leaves the slice at once."""

    version = running.discovery.inventory.version
    began = trio.current_time()
    running.machine.route("0.0.0.0/0", "ens1f0")
    running.heard((Changed(value=running.machine.routes[0]),))
    await running.discovery.inventory.wait_changed(version)

    assert running.offered == []
    assert trio.current_time() - began == pytest.approx(SETTLE_S)


async def test_own_addresses_are_asked_for_at_each_look(
    autojump_clock: MockClock, running: Bed
) -> None:
    """A connection to the API server may be another one by now."""

    running.machine.address("ens1f0", "fe80::1/64")
    running.own.append("fe80::1")
    running.discovery.look_again()
    await trio.sleep(1)

    assert running.offered == []


@pytest.mark.parametrize(
    ("event", "stirs"),
    [
        (Overflow(), True),
        (Removed(value=Nsid(number=4)), True),
        (Changed(value=Nsid(number=4)), False),
        (Changed(value=Link(index=3, name="ens1f0", parent_device=PF)), True),
        (Removed(value=Link(index=3, name="ens1f0", parent_device=PF)), False),
        (POD, False),
        (NEWS, False),
    ],
)
async def test_what_may_bring_a_nic_home_stirs(
    autojump_clock: MockClock, running: Bed, event: Event, stirs: bool
) -> None:
    """A namespace that ended, a device's link that is seen, or events that were lost."""

    running.heard((event,))

    assert bool(running.stirred) == stirs


# What it is told from outside


async def test_closed_door_takes_free_nics_out_and_back(
    autojump_clock: MockClock, running: Bed
) -> None:
    """Case 16, without a restart; the same reason twice is no news."""

    reason = Exclusion(reason="not-connected", detail="no NRI")
    running.discovery.close(reason)
    await trio.sleep(1)
    closed = running.offered
    running.discovery.close(reason)
    await trio.sleep(1)
    looks = running.looks
    running.discovery.close(None)
    await trio.sleep(1)

    assert (closed, looks) == ([], 2)
    assert running.offered == [NAME]


async def test_refused_device_leaves_and_comes_back(
    autojump_clock: MockClock, running: Bed
) -> None:
    """When the server takes it again."""

    running.discovery.refuse({NAME: "too long"})
    await trio.sleep(1)
    refused = running.offered
    running.discovery.refuse({NAME: "too long"})
    await trio.sleep(1)
    looks = running.looks
    running.discovery.refuse({})
    await trio.sleep(1)

    assert (refused, looks) == ([], 2)
    assert running.offered == [NAME]


async def test_other_table_is_taken_and_pins_are_dropped(
    autojump_clock: MockClock, running: Bed
) -> None:
    """What was resolved under the old one does not hold under the new one."""

    running.discovery.reload(NicTable(groups=(group("slow", name=("ens1f0",)),)))
    await trio.sleep(1)
    slow = [device.group for device in running.discovery.inventory.get().devices]
    running.machine.change("ens1f0", name="eth9")
    running.discovery.look_again()
    await trio.sleep(1)
    pinned = running.offered
    running.discovery.reload(NicTable(groups=(group("slow", name=("ens1f0",)),)))
    await trio.sleep(1)

    assert (slow, pinned) == (["slow"], [NAME])
    assert running.offered == []


async def test_events_are_judged_by_the_table_in_force(
    autojump_clock: MockClock, running: Bed
) -> None:
    """A veth end that a reload names is a bystander no more."""

    running.machine.link("cali99", kind="veth", index=99)
    running.discovery.reload(NicTable(groups=(group("lab", name=("cali99",)),)))
    await trio.sleep(1)
    looks = running.looks
    running.heard((POD,))
    await trio.sleep(1)

    assert running.offered == ["nic-lab-cali99"]
    assert running.looks == looks + 1


# Failed looks


async def test_failed_look_leaves_the_last_inventory_in_force(
    autojump_clock: MockClock, running: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """And is tried again, more slowly each time, until it succeeds."""

    before = running.discovery.inventory.get()
    running.machine.nic("ens2f0", "0000:42:00.0")
    running.eyes.faults = [HostError("host: RTM_GETLINK", "Invalid argument", errno=22)] * 4
    running.discovery.look_again()
    await trio.sleep(1)
    meanwhile = running.discovery.inventory.get()
    await trio.sleep(60)
    tries = running.eyes.began[1:]
    gaps = [b - a for a, b in pairwise(tries)]

    assert meanwhile is before
    assert gaps == [pytest.approx(x) for x in (0.2, 0.4, 0.8, 1.6)]
    assert running.offered == [NAME, "nic-0000-42-00-0"]
    assert [r.getMessage() for r in caplog.records if "trying again" in r.getMessage()] == [
        "machine not read, trying again"
    ] * 4


async def test_interrupted_dumps_are_taken_again_by_the_look_itself(
    autojump_clock: MockClock, running: Bed
) -> None:
    """NW §6.1: with back-off; a Prepare that looks does not fail for it."""

    interrupted = HostError("host: RTM_GETROUTE", "interrupted", errno=errno.EINTR)
    running.eyes.faults = [interrupted] * 5
    before = running.discovery.inventory.get()
    snapshot = await running.discovery.look()

    assert running.looks == 7
    assert snapshot.inventory == before


async def test_look_that_never_steadies_ends_with_its_callers_time(
    autojump_clock: MockClock, running: Bed
) -> None:
    """The caller's deadline ends it, and the next look is none the worse."""

    running.eyes.faults = [HostError("host", "interrupted", errno=errno.EINTR)] * 1000
    with trio.move_on_after(40) as scope:
        await running.discovery.look()
    running.eyes.faults = []
    snapshot = await running.discovery.look()

    assert scope.cancelled_caught
    assert len(snapshot.inventory.devices) == 1


async def test_fault_of_a_look_is_told_to_whoever_asked(
    autojump_clock: MockClock, running: Bed
) -> None:
    """Prepare fails with the kernel's words, and the inventory stays."""

    before = running.discovery.inventory.get()
    running.eyes.faults = [HostError("host: RTM_GETLINK", "Permission denied", errno=13)]
    with pytest.raises(HostError, match="Permission denied"):
        await running.discovery.look()

    assert running.discovery.inventory.get() is before


# Looks that somebody waits for


async def _look_into(bed: Bed, snapshots: list[Snapshot]) -> None:
    snapshots.append(await bed.discovery.look())


async def test_look_is_of_now_and_answers_what_was_due(
    autojump_clock: MockClock, running: Bed
) -> None:
    """What an event asked for is seen by a Prepare that comes before it: no second look."""

    running.heard((NEWS,))
    await running.discovery.look()
    await trio.sleep(10)

    assert running.looks == 2


async def test_those_who_ask_while_somebody_looks_share_the_next_look(
    autojump_clock: MockClock, running: Bed, nursery: trio.Nursery
) -> None:
    """Twenty pods at once: theirs must begin after they asked, and one serves them all."""

    running.eyes.shut = trio.Event()
    snapshots: list[Snapshot] = []
    nursery.start_soon(_look_into, running, snapshots)
    await wait_all_tasks_blocked()
    for _ in range(20):
        nursery.start_soon(_look_into, running, snapshots)
    await wait_all_tasks_blocked()
    running.machine.nic("ens2f0", "0000:42:00.0")
    running.eyes.shut.set()
    await wait_all_tasks_blocked()

    assert len(snapshots) == 21
    assert running.looks == 3
    assert running.discovery.statistics().shared == 19
    assert all(s is snapshots[1] for s in snapshots[1:])


async def test_one_who_gives_up_does_not_take_the_look_from_others(
    autojump_clock: MockClock, running: Bed, nursery: trio.Nursery
) -> None:
    """The one who would look is cancelled; the next looks instead."""

    running.eyes.shut = trio.Event()
    snapshots: list[Snapshot] = []
    nursery.start_soon(_look_into, running, snapshots)
    await wait_all_tasks_blocked()
    with trio.CancelScope() as giving_up:
        async with trio.open_nursery() as inner:
            inner.start_soon(_look_into, running, [])
            await wait_all_tasks_blocked()
            nursery.start_soon(_look_into, running, snapshots)
            await wait_all_tasks_blocked()
            giving_up.cancel()
    running.eyes.shut.set()
    await wait_all_tasks_blocked()

    assert len(snapshots) == 2


async def test_records_of_a_look_are_those_of_its_end(
    autojump_clock: MockClock, running: Bed, nursery: trio.Nursery
) -> None:
    """A claim that was prepared while the machine was read holds its device in that look."""

    running.eyes.shut = trio.Event()
    snapshots: list[Snapshot] = []
    nursery.start_soon(_look_into, running, snapshots)
    await wait_all_tasks_blocked()
    running.book.records.append(record("a", held(f"pci:{PF}", NAME)))
    running.eyes.shut.set()
    await wait_all_tasks_blocked()

    assert snapshots[0].inventory.nics[0].held_by == ("team/a",)


async def test_look_that_finds_nothing_new_wakes_nobody(
    autojump_clock: MockClock, running: Bed
) -> None:
    """The inventory keeps its version."""

    version = running.discovery.inventory.version
    await running.discovery.look()

    assert running.discovery.inventory.version == version
