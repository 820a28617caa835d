"""GPUs by both witnesses: who is told when, and what NVML's silence keeps from nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.config.gpu import GpuTable, Occupancy
from berth.errors import HostError
from berth.host.hardware import PciFunction
from berth.host.nvidiactk import LIMIT_S
from berth.host.nvidiafiles import HostNode, NodeFacts
from berth.host.nvml.session import Session, SessionState
from berth.host.nvml.silence import Silence
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal, Walk
from berth.model.edits import DeviceNode, NodeType
from berth.model.gpu import Driver, Engines, Gpu, MigDevice, Placement
from berth.model.peripheral import Door
from berth.node.gpus.gpus import EARLY_S, FILE, RESCAN_S, Gpus

P = ParamSpec("P")
T = TypeVar("T")

DRIVER = Driver(version="580.65.06", cuda=13000)
ADDRESSES = ("0000:1b:00.0", "0000:1c:00.0")
NAMES = ("gpu-0000-1b-00-0", "gpu-0000-1c-00-0")


def gpu(number: int) -> Gpu:
    """One that NVML lists."""
    return Gpu(
        address=ADDRESSES[number],
        uuid=f"GPU-{number}",
        minor=number,
        device_id="2330",
        name="NVIDIA H100",
        memory_bytes=80 << 30,
    )


class Driven:
    """NVML and the machine, as the test says.

    Attributes:
        slow_s: How long GPUs take to answer, by number.
        remotes: Where the links of GPUs lead.
        mute: Addresses of those that never say so.
        walks: How often they were asked.
        told: What the session was told of the bus.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.version = 0
        self.gpus: dict[int, Gpu] = {0: gpu(0), 1: gpu(1)}
        self.functions = tuple(
            PciFunction(
                address=address, class_code=0x030200, vendor="10de", device="2330", driver="nvidia"
            )
            for address in ADDRESSES
        )
        self.slow_s: dict[int, float] = {}
        self.remotes: dict[str, tuple[str, ...]] = {}
        self.mute: set[str] = set()
        self.walks = 0
        self.told: list[tuple[int, bool]] = []
        self.released: list[float] = []
        self.events = trio.open_memory_channel[NvmlEvent](10)
        self.uevents = trio.open_memory_channel[HostError | None](10)
        self.linked: tuple[str, ...] = ()
        self.link_faults: tuple[HostError, ...] = ()
        self.running: tuple[int, ...] | Refusal | NoAnswer = ()
        self._lot = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there."""
        task_status.started()
        await trio.sleep_forever()

    def be(self, session: Session) -> None:
        """Be in another state."""
        self.session = session
        self.version += 1
        self._lot.unpark_all()

    def notice(self, *, functions: int, bind: bool = False) -> None:
        """Remember it."""
        self.told.append((functions, bind))

    async def wait_session_changed(self, since: int) -> int:
        """Wait."""
        await trio.lowlevel.checkpoint()
        while self.version == since:
            await self._lot.park()
        return self.version

    async def walk(self, *, told: Callable[[Gpu], None]) -> Walk:
        """Answer, each in its time."""
        self.walks += 1
        gpus = dict(self.gpus)
        for number in sorted(gpus, key=lambda number: self.slow_s.get(number, 0)):
            await trio.sleep(self.slow_s.get(number, 0))
            told(gpus[number])
        return Walk(driver=self.session.driver, gpus=tuple(gpus.values()))

    async def processes(self, address: str) -> tuple[int, ...] | Refusal | NoAnswer:
        """Say who computes."""
        await trio.lowlevel.checkpoint()
        assert address in ADDRESSES
        return self.running

    async def links(self, address: str) -> tuple[str, ...] | Refusal:
        """Say where they lead, or for ever nothing."""
        await trio.lowlevel.checkpoint()
        if address in self.mute:
            await trio.sleep_forever()
        return self.remotes.get(address, ())

    async def probe(
        self, address: str, *, deadline_s: float, **_: bool
    ) -> Probe | Refusal | NoAnswer:
        """All is well."""
        await trio.lowlevel.checkpoint()
        assert address in ADDRESSES
        assert deadline_s > 0
        return Probe(fields={230: 0})

    async def classify(self, address: str) -> Probe | Refusal | NoAnswer:
        """The same."""
        return await self.probe(address, deadline_s=0.5)

    async def silences(self) -> Mapping[str, Silence]:
        """Nobody is silent."""
        await trio.lowlevel.checkpoint()
        return {}

    async def receive_event(self) -> NvmlEvent:
        """Wait for one."""
        return await self.events[1].receive()

    async def successor(self) -> str:
        """No other library is there."""
        await trio.lowlevel.checkpoint()
        return ""

    async def release(self, for_s: float) -> None:
        """Let go."""
        await trio.lowlevel.checkpoint()
        self.released.append(for_s)

    def resume(self) -> None:
        """Take up again."""
        self.released.clear()

    def chosen(self, choose: Callable[[PciFunction], bool]) -> tuple[PciFunction, ...]:
        """The bus."""
        return tuple(function for function in self.functions if choose(function))

    def read(self, *, version: str, addresses: Collection[str] = ()) -> NodeFacts:
        """The files."""
        assert version in {"", DRIVER.version}
        assert set(addresses) <= set(ADDRESSES)
        paths = ["nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(2))]
        minors = {"nvidiactl": 255, "nvidia-uvm": 0, "nvidia0": 0, "nvidia1": 1}
        nodes = {
            f"/dev/{name}": HostNode(
                path=f"/dev/{name}",
                type=NodeType.CHAR,
                major=511 if "uvm" in name else 195,
                minor=minors[name],
                mode=0o666,
                uid=0,
                gid=0,
            )
            for name in paths
        }
        majors = {"nvidia-frontend": 195, "nvidia-uvm": 511}
        return NodeFacts(boot_id="boot-1", majors=majors, nodes=nodes)

    def make(self, nodes: Iterable[DeviceNode]) -> tuple[HostError, ...]:
        """Links to nodes."""
        self.linked = tuple(node.host_path for node in nodes)
        return self.link_faults

    def existing(self, paths: Collection[str]) -> frozenset[str]:
        """Nothing of another tool's."""
        assert paths is not None
        return frozenset()

    def listen(self) -> Driven:
        """Hear of the bus."""
        return self

    async def receive(self) -> object:
        """Wait for an event of the bus."""
        event = await self.uevents[1].receive()
        if event is not None:
            raise event
        return event


async def at_once(_kind: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what would block."""
    await trio.lowlevel.checkpoint()
    return function(*args, **kwargs)


UP = Session(state=SessionState.UP, driver=DRIVER, functions=2)
BUILTIN = attrs.evolve(GpuTable(), door=GpuTable().door)


def gpus_of(
    driven: Driven, folder: Path | None = None, table: GpuTable = BUILTIN, **more: Any
) -> Gpus:
    """Who keeps them."""
    return Gpus(
        table,
        open_nvml=lambda: driven,
        folder=folder,
        sysfs=driven,  # type: ignore[arg-type]
        files=driven,  # type: ignore[arg-type]
        links=driven,  # type: ignore[arg-type]
        listen=driven.listen,
        aside=at_once,
        **more,
    )


@pytest.fixture
async def driven() -> Driven:
    """A machine with two GPUs and a session that is up."""
    return Driven(UP)


def offered(gpus: Gpus) -> list[str]:
    """Names of those that a door shows."""
    return [one.name for one in gpus.peripherals.get() if one.exclusion is None]


def reasons(gpus: Gpus) -> dict[str, str]:
    """Why the others are not."""
    return {one.name: one.exclusion.reason for one in gpus.peripherals.get() if one.exclusion}


def divided(whole: Gpu) -> Gpu:
    """A GPU with two parts."""
    engines = Engines(
        multiprocessors=14,
        copy_engines=1,
        decoders=0,
        encoders=0,
        jpeg_engines=0,
        ofa_engines=0,
        memory_mib=4864,
    )
    parts = tuple(
        MigDevice(
            uuid=f"MIG-{number}",
            name="NVIDIA H100 MIG 1g.10gb",
            gi_id=number + 7,
            ci_id=0,
            engines=engines,
            gi_placement=Placement(start=number, size=1),
            ci_placement=Placement(start=0, size=1),
        )
        for number in range(2)
    )
    return attrs.evolve(whole, mig_current=True, mig_pending=True, mig_devices=parts)


def groups_of(gpus: Gpus) -> list[tuple[str, ...]]:
    """Compatibility groups of all that draws on counters."""
    return [drawn.groups for one in gpus.peripherals.get() for drawn in one.consumes]


async def test_first_look_offers_what_answers(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Both witnesses agree, and the session knows how many there are."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)

    assert offered(gpus) == list(NAMES)
    assert driven.told[0] == (2, False)


async def test_slow_gpu_keeps_nobody_else_waiting(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The other is offered before the walk is over; then all is told."""

    driven.slow_s = {1: 9.0}
    gpus = gpus_of(driven)
    seen: list[tuple[float, list[str], dict[str, str]]] = []

    async def watch() -> None:
        async for _ in gpus.peripherals.changes():
            at_s = round(trio.current_time() - began, 1)
            seen.append((at_s, offered(gpus), reasons(gpus)))

    began = trio.current_time()
    nursery.start_soon(watch)
    await nursery.start(gpus.run)
    await trio.sleep(0.1)

    assert seen[-2] == (EARLY_S, [NAMES[0]], {NAMES[1]: "probing"})
    assert seen[-1] == (9.0, list(NAMES), {})


async def test_links_are_known_soon_and_keep_nobody_waiting(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """GPUs are offered before; one that does not tell has the links that the other tells of."""

    driven.remotes = {ADDRESSES[0]: (ADDRESSES[1],) * 4}
    driven.mute = {ADDRESSES[1]}
    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    assert offered(gpus) == list(NAMES)
    assert [dict(one.links) for one in gpus.peripherals.get()] == [{}, {}]

    await trio.sleep(1)

    assert [dict(one.links) for one in gpus.peripherals.get()] == [{NAMES[1]: 4}, {NAMES[0]: 4}]
    assert driven.walks == 2


async def test_session_that_is_down_is_told_as_the_reason(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """GPUs of the bus are listed with it, and offered when the driver is there."""

    driven.session = Session(state=SessionState.DRIVER_ABSENT, functions=2)
    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    assert reasons(gpus) == dict.fromkeys(NAMES, "driver-absent")

    driven.be(UP)
    await trio.sleep(1)

    assert offered(gpus) == list(NAMES)


async def test_session_that_ends_leaves_what_was_known(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Names and ids stay, with the reason; running pods are not concerned."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    driven.be(Session(state=SessionState.RELEASED, functions=2))
    await trio.sleep(1)
    assert offered(gpus) == list(NAMES)
    assert {one.unhealthy for one in gpus.peripherals.get()} == {""}

    driven.be(Session(state=SessionState.MISMATCH, functions=2))
    await trio.sleep(1)

    assert {one.unhealthy for one in gpus.peripherals.get()} == {"driver-mismatch"}


async def test_lost_gpu_is_known_after_a_restart(
    driven: Driven, tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """It is listed under its ids, unhealthy; a damaged file costs nothing but that."""

    async with trio.open_nursery() as first:
        gpus = gpus_of(driven, tmp_path)
        await first.start(gpus.run)
        first.cancel_scope.cancel()
    del driven.gpus[1]
    gpus = gpus_of(driven, tmp_path)
    await nursery.start(gpus.run)
    found = {one.name: one for one in gpus.peripherals.get()}
    assert found[NAMES[1]].unhealthy == "lost"
    assert found[NAMES[1]].attributes["uuid"] == "GPU-1"

    await trio.Path(tmp_path / FILE).write_bytes(b"{")
    other = gpus_of(driven, tmp_path)
    await nursery.start(other.run)
    assert offered(other) == [NAMES[0]]


@pytest.mark.parametrize("kind", [EventKind.MIG_CHANGED, EventKind.LOST, EventKind.OVERFLOW])
async def test_event_of_the_driver_is_followed_by_a_look(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock, kind: EventKind
) -> None:
    """Soon, and not at the next turn."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    await trio.sleep(1)
    before = driven.walks
    driven.events[0].send_nowait(NvmlEvent(kind=kind, address=ADDRESSES[0]))
    await trio.sleep(1)

    assert driven.walks == before + 1


async def test_event_that_changes_no_layout_is_left_to_others(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """An XID is the health monitor's; in between there is a slow look."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    await trio.sleep(1)
    before = driven.walks
    heard: list[NvmlEvent] = []
    gpus.tell_events(heard.append)
    xid = NvmlEvent(kind=EventKind.XID, address=ADDRESSES[0], data=79)
    driven.events[0].send_nowait(xid)
    await trio.sleep(1)
    assert (driven.walks, heard) == (before, [xid])

    await trio.sleep(RESCAN_S)
    assert driven.walks == before + 1


async def test_bus_is_heard_and_heard_again(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A bind ends a release early; a monitor that breaks is opened anew."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    await trio.sleep(1)
    driven.uevents[0].send_nowait(HostError("uevents", "are lost"))
    await trio.sleep(5)
    driven.functions = driven.functions[:1]
    driven.uevents[0].send_nowait(None)
    await trio.sleep(1)

    assert (2, True) in driven.told
    assert driven.told[-1] == (1, False)


async def test_machine_without_gpus_costs_nothing(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """No timer, and no question to a driver that is not there."""

    driven.functions, driven.session = (), Session()
    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    await trio.sleep(3600)

    assert (driven.walks, driven.told) == (0, [])
    assert gpus.peripherals.get() == ()


async def test_door_and_groups_may_change(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """By a reload, or when it is known what auto means."""

    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    written = type(BUILTIN.door)
    gpus.reload(attrs.evolve(BUILTIN, door=written.AUTO))
    await trio.sleep(1)
    assert {one.door for one in gpus.peripherals.get()} == {Door.DRA}

    gpus.decide(Door.PLUGIN)
    await trio.sleep(1)

    assert {(one.door, one.resource) for one in gpus.peripherals.get()} == {
        (Door.PLUGIN, "nvidia.com/gpu")
    }


async def test_parts_are_in_groups_where_that_is_wanted(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """By a reload too, for all of them at once."""

    driven.gpus = {1: divided(gpu(1))}
    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    assert groups_of(gpus) == [(), ()]

    gpus.reload(attrs.evolve(BUILTIN, compatibility_groups=True))
    await trio.sleep(1)

    assert groups_of(gpus) == [("mig",), ("mig",)]


async def test_links_are_there_before_gpus_are_offered(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Each node that is handed out once; what fails is told as long as it does."""

    driven.link_faults = (HostError("/dev/char/195:0", "no link can be made"),)
    gpus = gpus_of(driven)
    await nursery.start(gpus.run)
    assert sorted(driven.linked) == [
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert "/dev/char/195:0: no link can be made" in gpus.warnings.get()

    driven.link_faults = ()
    gpus.look_again()
    await trio.sleep(1)

    assert gpus.warnings.get() == ()


async def test_links_may_be_left_to_others(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nothing is done then."""

    gpus = gpus_of(driven, table=attrs.evolve(BUILTIN, dev_char_links=False))
    await nursery.start(gpus.run)
    await trio.sleep(1)

    assert (bool(driven.walks), driven.linked) == (True, ())


async def test_tool_that_hangs_keeps_nobody_waiting(
    driven: Driven, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Each look goes by berth's own list while nvidia-ctk is asked."""

    tool, begun = trio.Path(tmp_path / "nvidia-ctk"), trio.Path(tmp_path / "begun")
    await tool.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 600\n")
    await tool.chmod(0o755)
    gpus = gpus_of(driven)
    gpus._tool._find = lambda: str(tool)
    with trio.fail_after(LIMIT_S - 2):
        await nursery.start(gpus.run)
        while not await begun.exists():  # noqa: ASYNC110 - another process makes it
            await trio.sleep(0.01)
        before = driven.walks
        gpus.look_again()
        while driven.walks == before:  # noqa: ASYNC110 - what the look itself waits for
            await trio.sleep(0.01)

    assert offered(gpus) == list(NAMES)
    assert gpus._tool.answer is None


async def test_driver_is_asked_who_computes_where_that_is_wanted(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A refusal, or no session yet, names nobody."""

    driven.running = (7, 9)
    quiet, asking = gpus_of(driven), attrs.evolve(BUILTIN, occupancy=Occupancy.CHECK)
    await nursery.start(quiet.run)
    assert await quiet.processes(ADDRESSES[0]) == ()
    curious = gpus_of(driven, table=asking)
    assert await curious.processes(ADDRESSES[0]) == ()
    await nursery.start(curious.run)
    assert await curious.processes(ADDRESSES[0]) == (7, 9)

    driven.running = Refusal.of(3)

    assert await curious.processes(ADDRESSES[0]) == ()


async def test_driver_is_let_go_of_and_taken_up_again(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """As the operator asks; before there was a GPU there is nothing to let go of."""

    gpus = gpus_of(driven)
    await gpus.grip.release(600.0)
    gpus.grip.resume()
    assert (driven.released, gpus.grip.session) == ([], Session())
    await nursery.start(gpus.run)
    await gpus.grip.release(600.0)
    assert driven.released == [600.0]
    gpus.grip.resume()
    assert driven.released == []
    assert gpus.grip.session.state is SessionState.UP


async def test_lent_gpu_stays_in_the_lists(
    driven: Driven, nursery: trio.Nursery, autojump_clock: MockClock, tmp_path: Path
) -> None:
    """A claim has it bound to vfio-pci: NVML lists it no more, and it comes back."""

    lent: dict[str, str] = {}
    gpus = gpus_of(driven, tmp_path, lent=lambda: lent)
    await nursery.start(gpus.run)
    lent[ADDRESSES[1]] = ""
    del driven.gpus[1]
    driven.functions = (
        driven.functions[0],
        attrs.evolve(driven.functions[1], driver="vfio-pci", iommu_group=7),
    )
    gpus.look_again()
    await trio.sleep(1)

    assert offered(gpus) == [*NAMES, "vfio-0000-1c-00-0"]
    assert not gpus.is_lost(ADDRESSES[1])
