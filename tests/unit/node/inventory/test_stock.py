"""Device nodes that come and go, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.config.generic import GenericGroup
from berth.errors import HostError
from berth.host.nodefacts import DevNode, NodeScan, Wanted
from berth.model.pathglob import PathGlob
from berth.model.peripheral import Door, Peripheral
from berth.node.inventory.stock import FILE, RESCAN_S, Stock
from tests.unit.generic.nodes import group, kvm, tty

P = ParamSpec("P")
T = TypeVar("T")

MODEM = group("modem", 'match = { path = "/dev/ttyUSB*" }')
KVM = group("kvm", 'match = { path = "/dev/kvm" }')


class Machine:
    """Has the nodes that the test says, and tells of events when told to.

    Attributes:
        reads: How often it was looked at.
        opened: How often somebody began to listen.
    """

    def __init__(self) -> None:
        self.nodes: tuple[DevNode, ...] = ()
        self.reads = 0
        self.opened = 0
        self.fault: HostError | None = None
        self._send, self._receive = trio.open_memory_channel[HostError | None](100)

    def read(self, _wanted: Wanted) -> NodeScan:
        """Give the nodes."""
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return NodeScan(nodes=self.nodes)

    def listen(self) -> Machine:
        """Hear of events."""
        self.opened += 1
        return self

    async def receive(self) -> object:
        """Wait for one."""
        event = await self._receive.receive()
        if event is not None:
            raise event
        return event

    def tell(self, event: HostError | None = None) -> None:
        """Let one happen."""
        self._send.send_nowait(event)


async def at_once(_kind: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what would block: virtual time must not run while a thread does."""
    await trio.lowlevel.checkpoint()
    return function(*args, **kwargs)


class Folders:
    """Sees names come and go when the test says so.

    Attributes:
        aims: What it was to watch, each time.
        fault: Why it cannot.
    """

    def __init__(self) -> None:
        self.aims: list[tuple[set[str], set[str]]] = []
        self.fault: HostError | None = None
        self._send, self._receive = trio.open_memory_channel[HostError | None](100)

    @contextmanager
    def watch(self) -> Iterator[Folders]:
        """Watch."""
        yield self

    def aim(self, paths: Iterable[str], globs: Iterable[PathGlob]) -> None:
        """Watch these."""
        if self.fault is not None:
            raise self.fault
        self.aims.append((set(paths), {glob.text for glob in globs}))

    async def wait_next(self) -> None:
        """Wait for a name."""
        if (fault := await self._receive.receive()) is not None:
            raise fault

    def tell(self, fault: HostError | None = None) -> None:
        """Let a name come or go, or the watch be refused."""
        self._send.send_nowait(fault)


def stock_of(
    machine: Machine, groups: Sequence[GenericGroup], folders: Folders | None = None
) -> Stock:
    """What keeps it."""
    return Stock(
        groups,
        driver="berth.dev",
        reader=machine,
        listen=machine.listen,
        watch=(folders or Folders()).watch,
        aside=at_once,
    )


@pytest.fixture
def machine() -> Machine:
    """One with a serial adapter."""
    made = Machine()
    made.nodes = (tty(0),)
    return made


async def names_until(stock: Stock, count: int) -> list[str]:
    """Names of the devices, once there are so many."""
    found = await stock.peripherals.wait_value(lambda now: len(now) == count)
    return [one.name for one in found]


async def test_first_look_is_done_when_it_starts(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The first list that anybody sees lacks nothing."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)

    assert len(stock.peripherals.get()) == 1


async def test_commands_are_told_with_the_devices_that_they_are_about(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Filled in for each; a group without a command has none."""
    asked = group(
        "modem",
        'match = { path = "/dev/ttyUSB*" }\n'
        'health = { command = ["/opt/ok", "-v", "-v", "{node}", "{1}", "{name}"] }',
    )
    machine.nodes = (tty(0), kvm())
    stock = stock_of(machine, [asked, KVM])
    await nursery.start(stock.run)

    (modem,) = [one for one in stock.peripherals.get() if one.group == "modem"]
    assert stock.commands.get() == {
        modem.identity: ("/opt/ok", "-v", "-v", "/dev/ttyUSB0", "0", modem.name)
    }
    machine.nodes = ()
    machine.tell()
    await names_until(stock, 0)
    assert stock.commands.get() == {}


async def test_plugged_and_pulled_devices_come_and_go(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """By event; the order in which the kernel tells them is no matter."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)
    (first,) = await names_until(stock, 1)
    machine.nodes = (tty(0), tty(1, serial="B7", port="3"))
    machine.tell()
    assert first in await names_until(stock, 2)

    machine.nodes = (tty(1, serial="B7", port="3"),)
    machine.tell()
    assert first not in await names_until(stock, 1)


async def test_burst_of_events_is_one_look(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A hub with twenty devices is not looked at forty times."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)
    await trio.sleep(0.5)
    before = machine.reads
    for _ in range(40):
        machine.tell()
    machine.nodes = ()
    await names_until(stock, 0)

    assert machine.reads - before <= 2


async def test_wildcards_are_looked_at_now_and_then(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Events can be lost; a path without wildcards is left alone."""

    wild, plain = stock_of(machine, [MODEM]), stock_of(other := Machine(), [KVM])
    other.nodes = (kvm(),)
    await nursery.start(wild.run)
    await nursery.start(plain.run)
    await trio.sleep(1)
    before = machine.reads, other.reads
    await trio.sleep(RESCAN_S * 3)

    assert (machine.reads - before[0], other.reads - before[1]) == (3, 0)


async def test_node_without_an_event_comes_and_goes_by_its_name(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A program made it, or removed it: no wildcard and no event would ever have it looked for."""

    folders = Folders()
    machine.nodes = ()
    stock = stock_of(machine, [KVM], folders)
    await nursery.start(stock.run)
    await trio.sleep(RESCAN_S * 3)
    for nodes in ((kvm(),), ()):
        machine.nodes = nodes
        began_s = trio.current_time()
        folders.tell()
        await names_until(stock, len(nodes))
        assert trio.current_time() - began_s < 1


async def test_nodes_are_watched_where_they_lie_and_where_they_should(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What leads out of /dev is not: a file system that hangs would hold everybody up."""

    folders = Folders()
    outside = 'match = { path = ["/dev/ttyUSB*", "/mnt/ttyUSB*"] }\nallow_outside_dev = true'
    both = group("both", outside)
    stock = stock_of(machine, [both], folders)
    await nursery.start(stock.run)
    await wait_all_tasks_blocked()
    machine.nodes = ()
    folders.tell()
    await names_until(stock, 0)

    assert folders.aims[-2:] == [({"/dev/ttyUSB0"}, {"/dev/ttyUSB*"}), (set(), {"/dev/ttyUSB*"})]


async def test_nodes_are_looked_for_now_and_then_where_nobody_can_watch(
    machine: Machine,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Which is told once; whoever looks tries to watch again."""

    folders = Folders()
    folders.fault = HostError("inotify", "has no watch left")
    machine.nodes = ()
    await nursery.start(stock_of(machine, [KVM], folders).run)
    await trio.sleep(1)
    before = machine.reads
    await trio.sleep(RESCAN_S * 3)
    assert machine.reads - before == 3
    assert caplog.text.count("folders of nodes not watched") == 1

    folders.fault = None
    await trio.sleep(RESCAN_S)
    assert folders.aims[-1] == (set(), {"/dev/kvm"})
    before = machine.reads
    await trio.sleep(RESCAN_S * 3)
    assert machine.reads - before == 0


async def test_watch_that_is_lost_later_is_aimed_again(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A folder was made anew when the kernel had no watch left; what came in it is seen."""

    folders = Folders()
    machine.nodes = ()
    stock = stock_of(machine, [KVM], folders)
    await nursery.start(stock.run)
    await trio.sleep(1)
    aims = len(folders.aims)
    folders.tell(HostError("inotify", "has no watch left"))
    await trio.sleep(1)
    assert len(folders.aims) == aims + 1
    before = machine.reads
    await trio.sleep(RESCAN_S * 3)
    assert machine.reads - before == 0


async def test_nothing_is_read_or_heard_without_groups(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A node without such devices pays nothing; a reload begins it all."""

    stock = stock_of(machine, [])
    await nursery.start(stock.run)
    await trio.sleep(3600)
    assert (machine.reads, machine.opened) == (0, 0)

    stock.reload([MODEM])
    await names_until(stock, 1)
    await wait_all_tasks_blocked()
    assert machine.opened == 1

    stock.reload([])
    await names_until(stock, 0)


async def test_broken_monitor_is_opened_anew(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What happened meanwhile is seen, since a look follows."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)
    await trio.sleep(0.5)
    machine.nodes = ()
    machine.tell(HostError("uevents", "are lost"))

    await names_until(stock, 0)
    assert machine.opened == 2


async def test_failed_look_keeps_what_was_seen(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """An unreadable folder does not mean that a device is gone."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)
    await trio.sleep(0.5)
    machine.fault = HostError("/dev", "cannot be read")
    reads = machine.reads
    machine.tell()
    await trio.sleep(1)
    assert machine.reads == reads + 1
    assert len(stock.peripherals.get()) == 1

    machine.fault, machine.nodes = None, ()
    machine.tell()
    await names_until(stock, 0)


async def test_equal_looks_are_told_once(
    machine: Machine, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody is woken for nothing."""

    stock = stock_of(machine, [MODEM])
    await nursery.start(stock.run)
    version = stock.peripherals.version
    await stock.look()
    await stock.look()

    assert stock.peripherals.version == version


async def test_numbers_outlive_the_process(machine: Machine, tmp_path: Path) -> None:
    """Devices keep their numbers in their group over a restart, though others have left."""

    numbered = group("modem", 'match = { path = "/dev/ttyUSB*" }\nrename = "/dev/m{index}"')
    machine.nodes = (tty(0), tty(1, serial="B7", port="3"))
    await _lived(machine, numbered, tmp_path)
    machine.nodes = (tty(1, serial="B7", port="3"),)

    (second,) = await _lived(machine, numbered, tmp_path)

    assert second.edits.nodes[0].path == "/dev/m1"


async def test_unreadable_numbers_are_counted_anew(machine: Machine, tmp_path: Path) -> None:
    """A damaged file keeps nobody from his device."""

    await trio.Path(tmp_path / FILE).write_bytes(b"{")

    assert len(await _lived(machine, MODEM, tmp_path)) == 1


async def _lived(machine: Machine, groups: GenericGroup, folder: Path) -> tuple[Peripheral, ...]:
    """What one life of the daemon sees."""
    stock = Stock(
        [groups],
        driver="berth.dev",
        watch=Folders().watch,
        folder=folder,
        reader=machine,
        listen=machine.listen,
        aside=at_once,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(stock.run)
        nursery.cancel_scope.cancel()
    return stock.peripherals.get()


async def test_auto_door_is_settled_later(machine: Machine, nursery: trio.Nursery) -> None:
    """Until kubelet has had its time it means claims."""

    either = group("modem", 'match = { path = "/dev/ttyUSB*" }\ndoor = "auto"')
    stock = stock_of(machine, [either])
    await nursery.start(stock.run)
    (one,) = stock.peripherals.get()
    assert (one.door, one.resource) == (Door.DRA, "")

    stock.decide(Door.PLUGIN)
    await stock.peripherals.wait_value(lambda now: now[0].door is Door.PLUGIN)

    assert stock.peripherals.get()[0].resource == "berth.dev/modem"
