"""Keeps the node's GPUs: looks when the driver's session, the PCI bus or a MIG layout changes.

Two witnesses are asked, the PCI bus and NVML, and neither may hold up the other: what NVML does not
answer in a moment is told as it was last, and again when it has answered. A session that is down
changes nothing for pods that run, and is no reason to ask for a restart.

Source: gpu-and-health.md §1, §2; §3.2 for nvidia-ctk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.config.gpu import GpuTable, Occupancy
from berth.errors import BerthError
from berth.gpu.compatibility import grouped
from berth.gpu.layout import Layout
from berth.gpu.nvlinks import linked
from berth.gpu.survey import GpuSurvey, survey
from berth.gpu.witness import Remembered
from berth.host.charlinks import CharLinks
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import NodeFacts, NvidiaFiles
from berth.host.nvml.session import SessionState
from berth.host.nvml.silence import nameless
from berth.host.nvml.values import EventKind, NvmlEvent, Walk
from berth.host.sysfs import Sysfs
from berth.host.uevents import UeventMonitor
from berth.model.device import CounterSet
from berth.model.gpu import Driver, Gpu
from berth.model.meter import Tally
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Door, Peripheral
from berth.node.gpus.gpulinks import GpuLinks
from berth.node.gpus.grip import Grip
from berth.node.gpus.nvidiatool import NvidiaTool
from berth.node.gpus.nvml import Nvml
from berth.node.gpus.renewal import Renewal
from berth.node.inventory.stock import Aside, Events, Monitors
from berth.node.records.document import KnownGpus, gpus_from_bytes, to_bytes
from berth.node.records.kept import Kept
from berth.runtime.backoff import BackOff
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.statefile import StateFile
from berth.runtime.threads import run_in_thread

EARLY_S: Final = 0.5
"""How long a look waits for all GPUs before it tells of those that have answered."""

RESCAN_S: Final = 60.0
"""Between two looks that nobody asked for, while there are GPUs."""

SETTLE_S: Final = 0.2
"""From an event to the look."""

FILE: Final = "gpus.json"
"""What NVML said last, in the state folder."""

_PROBING: Final = "probing"
# The word of `berth.gpu.witness` for GPUs that were not asked yet: it says nothing against them.

_log = get_log(__name__)


def _listen() -> Events:
    return UeventMonitor(("pci", "module"))


@attrs.frozen(kw_only=True)
class _Bus:
    """What the machine shows beside NVML.

    Attributes:
        functions: GPUs, and whatever shares an IOMMU group with one.
    """

    functions: tuple[PciFunction, ...]

    @property
    def gpus(self) -> tuple[PciFunction, ...]:
        """The GPUs among them."""
        return tuple(one for one in self.functions if one.is_nvidia_gpu)


class Gpus:
    """The node's GPUs.

    Args:
        table: The ``[gpu]`` table in force.
        open_nvml: Makes the session with the driver's library, once a GPU was seen: a machine
            without one does not pay for the bindings.
        auto: What ``door = "auto"`` comes to.
        folder: Where what NVML said last is kept.
        sysfs: Where the PCI bus is read.
        files: What the machine has of the driver beside NVML.
        links: Makes links to device nodes.
        listen: Makes a monitor of device events.
        aside: Runs what blocks.
        lent: Functions that claims have bound to vfio-pci, each with why it is unhealthy.

    Attributes:
        grip: The session with the driver.
        peripherals: What was seen last, offered or not.
        counters: Counter sets of GPUs that are divided.
        costs: By identity: what it costs the node of its own resources.
        warnings: What an operator should know.
        layouts: The driver's GPUs and their parts, in sickness and in health.
        renewal: Tells when only a new process can speak with the driver.
        rescans: Counts looks, by why: ``changed`` or ``timer``.
    """

    def __init__(
        self,
        table: GpuTable,
        *,
        open_nvml: Callable[[], Nvml],
        auto: Door = Door.DRA,
        folder: Path | None = None,
        sysfs: Sysfs | None = None,
        files: NvidiaFiles | None = None,
        links: CharLinks | None = None,
        listen: Monitors = _listen,
        aside: Aside = run_in_thread,
        lent: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.peripherals: Latest[tuple[Peripheral, ...]] = Latest(())
        self.counters: Latest[tuple[CounterSet, ...]] = Latest(())
        self.costs: Latest[Mapping[str, NodeCosts]] = Latest({})
        self.warnings: Latest[tuple[str, ...]] = Latest(())
        self.layouts: Latest[tuple[Layout, ...]] = Latest(())
        self.rescans = Tally("cause")
        self._table = table
        self.grip = Grip(open_nvml)
        self._lent = lent
        self._nursery: trio.Nursery | None = None
        self._auto = auto
        self._sysfs = sysfs or Sysfs()
        self._files = files or NvidiaFiles()
        self._links = links or CharLinks()
        self._listen = listen
        self._aside = aside
        self._memory: Kept[tuple[Remembered, ...]] = Kept(
            (),
            StateFile(
                Folder(folder) if folder is not None else None,
                FILE,
                to_bytes=lambda known: to_bytes(KnownGpus(gpus=known)),
                from_bytes=gpus_from_bytes,
                lost="what NVML said last of each GPU is lost",
                unwritten="what NVML said last of each GPU is not noted down",
            ),
        )
        self._lost: tuple[str, ...] = ()
        self._swapped: set[str] = set()
        self._tool = NvidiaTool(self._files, aside=aside, changed=self.look_again)
        self._nvlinks = GpuLinks(changed=self.look_again)
        self._gpus: tuple[Gpu, ...] = ()
        self._driver: Driver | None = None
        self._mute = False
        self._asked = trio.Event()
        self._hearers: list[Callable[[NvmlEvent], None]] = [self._heed]
        self.renewal = Renewal(folder)

    @property
    def cdi_source(self) -> str:
        """Who says what a container gets of a GPU: ``nvidia-ctk`` or ``builtin``."""
        return "builtin" if self._tool.answer is None else "nvidia-ctk"

    def look_again(self) -> None:
        """Something changed; a look follows soon. Never blocks."""
        self._asked.set()

    def tell_events(self, hear: Callable[[NvmlEvent], None]) -> None:
        """Let somebody hear every event of the driver, too, in their order; it must not block."""
        self._hearers.append(hear)

    def is_lost(self, address: str) -> bool:
        """Whether a GPU is listed for what was known of it alone."""
        return address in self._lost

    async def processes(self, address: str) -> tuple[int, ...]:
        """Which processes compute on a GPU; none where nobody asks or the driver does not say."""
        if self._table.occupancy is Occupancy.OFF:
            return ()
        return await self.grip.processes(address)

    async def forget(self, address: str) -> None:
        """Drop what is remembered of a GPU; it leaves the lists soon, unless it is seen.

        Raises:
            HostError: The disk refused; it is still remembered.
        """
        await self._memory.change(
            lambda known: tuple(one for one in known if one.gpu.address != address)
        )
        self.look_again()

    def decide(self, auto: Door) -> None:
        """Settle what ``door = "auto"`` comes to, for GPUs that are free."""
        if auto is not self._auto:
            self._auto = auto
            self.look_again()

    def reload(self, table: GpuTable) -> None:
        """Take other groups; what is held keeps what it was given as until it is free.

        The library and the way of the session are those of the start.
        """
        self._table = table
        self.look_again()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the GPUs until cancelled; started when the bus was looked at, asks NVML later."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.grip.forget()
            await self._memory.recall()
            await self._try_look()
            task_status.started()
            nursery.start_soon(self._follow_bus)
            nursery.start_soon(self._tool.run)
            nursery.start_soon(self._nvlinks.run)
            while True:
                rescan_s = RESCAN_S if self.peripherals.get() else float("inf")
                with trio.move_on_after(rescan_s) as waited:
                    await self._asked.wait()
                    await trio.sleep(SETTLE_S)
                self._asked = trio.Event()
                self.rescans.add("timer" if waited.cancelled_caught else "changed")
                await self._try_look()

    async def _try_look(self) -> None:
        try:
            await self._look()
        except BerthError as error:
            _log.warning("GPUs not looked at, trying again", reason=error, in_s=RESCAN_S)

    async def _look(self) -> None:
        """Ask both witnesses; NVML's silence about one GPU keeps nobody else waiting."""
        bus = _Bus(
            functions=await self._aside(
                "gpus", self._sysfs.chosen, lambda function: function.is_nvidia_gpu
            )
        )
        nvml = await self._session_with(bus)
        if nvml is None:
            await self._tell(bus, SessionState.NO_GPU.value)
            return
        nvml.notice(functions=len(bus.gpus))
        state = nvml.session.state
        if state is not SessionState.UP:
            self._gpus, self._driver = (), None
            # Before the first try nothing was said, neither for nor against a GPU.
            await self._tell(
                bus, _PROBING if state is SessionState.NO_GPU and bus.gpus else state.value
            )
            return
        early: list[Gpu] = []
        walks: list[Walk] = []
        async with trio.open_nursery() as nursery:
            done = trio.Event()

            async def walk() -> None:
                walks.append(await nvml.walk(told=early.append))
                done.set()

            nursery.start_soon(walk)
            with trio.move_on_after(EARLY_S):
                await done.wait()
            if not done.is_set():
                self._driver = nvml.session.driver
                self._gpus = tuple(early)
                await self._tell(bus, _PROBING)
        (found,) = walks
        silences = await nvml.silences()
        self._gpus, self._driver = found.gpus, found.driver
        self._mute = nameless(silences) is not None
        await self._tell(bus, state.value if found.driver is not None else _PROBING)
        self._nvlinks.see(nvml, found.gpus, found.driver)
        self._tool.see(found.gpus, found.driver, self._table.cdi.source)

    async def _session_with(self, bus: _Bus) -> Nvml | None:
        """NVML's owner, made when the first GPU is seen; ``None`` before."""
        if self.grip.nvml is None and bus.gpus and self._nursery is not None:
            nvml = self.grip.take()
            await self._nursery.start(nvml.run)
            self._nursery.start_soon(self._follow_session, nvml)
            self._nursery.start_soon(self._hand_out_events, nvml)
            self._nursery.start_soon(self.renewal.follow, nvml)
        return self.grip.nvml

    async def _tell(self, bus: _Bus, state: str) -> None:
        facts = await self._facts(bus)
        found = survey(
            self._gpus,
            bus.functions,
            driver=self._driver,
            state=state,
            table=self._table,
            memory=self._memory.value,
            nodes=facts,
            auto=self._auto,
            toolkit=self._tool.answer,
            lent=self._lent(),
            mute=self._mute,
        )
        await self._memory.keep(found.memory)
        # Before anybody can have it, so that no container starts without.
        faults = await self._link(found)
        self._publish(attrs.evolve(found, warnings=(*found.warnings, *faults)))

    async def _link(self, found: GpuSurvey) -> tuple[str, ...]:
        """Give the nodes that may be handed out their links; what fails is told."""
        nodes = found.nodes if self._table.dev_char_links else ()
        if not nodes:
            return ()
        return tuple(map(str, await self._aside("gpus", self._links.make, nodes)))

    def _publish(self, found: GpuSurvey) -> None:
        self._lost = found.lost
        # A survey tells it once, and whoever follows the layouts may miss that one.
        self._swapped.update(found.swapped)
        self.layouts.set(
            tuple(attrs.evolve(one, swapped=one.address in self._swapped) for one in found.layouts)
        )
        self.counters.set(found.counter_sets)
        self.costs.set(found.costs)
        self.warnings.set(found.warnings)
        peripherals = linked(found.peripherals, self._nvlinks.remotes)
        self.peripherals.set(
            grouped(peripherals) if self._table.compatibility_groups else peripherals
        )

    async def _facts(self, bus: _Bus) -> NodeFacts:
        version = self._driver.version if self._driver is not None else ""
        addresses = tuple(one.address for one in bus.gpus)
        return await self._aside("gpus", self._files.read, version=version, addresses=addresses)

    async def _follow_session(self, nvml: Nvml) -> None:
        """Look when the session comes or goes."""
        version, said = -1, ""
        while True:
            version = await nvml.wait_session_changed(version)
            session = nvml.session
            told = f"{session.state.value} {session.detail}".strip()
            if told != said:
                _log.info("NVML session", state=session.state.value, detail=session.detail or "-")
            said = told
            self.look_again()

    async def _hand_out_events(self, nvml: Nvml) -> None:
        """NVML's owner has one reader, and this is it."""
        while True:
            event = await nvml.receive_event()
            for hear in self._hearers:
                hear(event)

    def _heed(self, event: NvmlEvent) -> None:
        """Look when a GPU was divided anew; what other events mean is for others to know."""
        if event.kind in {EventKind.MIG_CHANGED, EventKind.OVERFLOW, EventKind.LOST}:
            self.look_again()

    async def _follow_bus(self) -> None:
        """Hear of functions and of the driver's module; what breaks is opened anew."""
        backoff = BackOff(first_s=1.0, most_s=RESCAN_S)
        while True:
            try:
                monitor = await self._aside("gpus", self._listen)
                while True:
                    await monitor.receive()
                    self.grip.heard_bus()
                    self.look_again()
            except BerthError as error:
                backoff, delay_s = backoff.next_delay()
                _log.warning("device events lost, listening anew", reason=error, in_s=delay_s)
                await trio.sleep(delay_s)
