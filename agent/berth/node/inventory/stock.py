"""Keeps what the machine has beside NICs: looks when a device comes or goes, and tells.

Device events come in bursts, and the kernel's before udev has made links and set properties; so a
look follows a short time after the last one. Nodes that a program makes or removes have no such
events, so the folders are watched in which they lie or should lie. Events can be lost, and some
file systems tell none: while a group names paths with wildcards, a slow look goes on beside.

Source: gpu-and-health.md §4 (hotplug).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar

import trio

from berth.config.generic import GenericGroup
from berth.errors import BerthError, HostError
from berth.generic.identity import Memory, forgotten, owner
from berth.generic.matching import wanted
from berth.generic.survey import survey
from berth.host.devnodes import NodeReader
from berth.host.nodefacts import DEV, NodeScan, Wanted
from berth.host.uevents import UeventMonitor, every_subsystem
from berth.model.meter import Tally
from berth.model.nodecost import NodeCosts
from berth.model.pathglob import PathGlob
from berth.model.peripheral import Door, Peripheral
from berth.node.records.document import memory_from_bytes, to_bytes
from berth.node.records.kept import Kept
from berth.runtime.backoff import BackOff
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.statefile import StateFile
from berth.runtime.threads import run_in_thread

P = ParamSpec("P")
T = TypeVar("T")

SETTLE_S: Final = 0.2
"""From the last event to the look."""

BURST_S: Final = 1.0
"""Longest that a burst of events puts a look off."""

RESCAN_S: Final = 60.0
"""Between two looks that nobody asked for, while paths have wildcards."""

_Aim: TypeAlias = tuple[frozenset[str], frozenset[PathGlob]]

_NOWHERE: Final[_Aim] = (frozenset(), frozenset())

FILE: Final = "stock.json"
"""What one life leaves to the next, in the state folder."""

_log = get_log(__name__)


class Reads(Protocol):
    """Whoever reads device nodes; it blocks."""

    def read(self, wanted: Wanted) -> NodeScan:
        """All nodes that are wanted."""
        ...


class Events(Protocol):
    """Whoever hears of devices."""

    async def receive(self) -> object:
        """Wait for events."""
        ...


class Monitors(Protocol):
    """Makes whoever hears of devices; it blocks."""

    def __call__(self) -> Events:
        """Listen from now on."""
        ...


class Aside(Protocol):
    """Runs a blocking function, as `berth.runtime.threads.run_in_thread` does."""

    async def __call__(
        self, kind: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run it, and give what it gives."""
        ...


class Changes(Protocol):
    """Whoever sees names come and go."""

    def aim(self, paths: Iterable[str], globs: Iterable[PathGlob]) -> None:
        """Watch these from now on."""
        ...

    async def wait_next(self) -> None:
        """Wait until one did."""
        ...


class Watchers(Protocol):
    """Makes whoever sees names come and go, for a block."""

    def __call__(self) -> AbstractContextManager[Changes]:
        """As `berth.runtime.pathwatch.watch_paths` does."""
        ...


def _listen() -> Events:
    return UeventMonitor(every_subsystem())


class Stock:
    """The node's peripherals.

    Args:
        groups: The ``[[generic]]`` groups in force.
        driver: Our driver's name, for names of resources.
        watch: Sees names come and go in folders.
        auto: What ``door = "auto"`` comes to.
        folder: Where is kept what one life leaves to the next: numbers of devices in their groups,
            and which serial numbers are no identity; ``None`` to keep nothing.
        reader: Reads the machine's device nodes.
        listen: Makes a monitor of device events.
        aside: Runs what blocks; tests with a clock of their own run it at once.

    Attributes:
        peripherals: What was seen last, offered or not.
        commands: By identity: the command that is asked how a device is, and its arguments.
        costs: By identity: what it costs the node of its own resources.
        binders: By identity: the one that is asked whether it is ready.
        warnings: What an operator should know of the settings.
        rescans: Counts looks, by why: ``changed`` or ``timer``.
    """

    def __init__(
        self,
        groups: Sequence[GenericGroup],
        *,
        driver: str,
        watch: Watchers,
        auto: Door = Door.DRA,
        folder: Path | None = None,
        reader: Reads | None = None,
        listen: Monitors = _listen,
        aside: Aside = run_in_thread,
    ) -> None:
        self.peripherals: Latest[tuple[Peripheral, ...]] = Latest(())
        self.commands: Latest[Mapping[str, tuple[str, ...]]] = Latest({})
        self.costs: Latest[Mapping[str, NodeCosts]] = Latest({})
        self.binders: Latest[Mapping[str, tuple[str, ...]]] = Latest({})
        self.warnings: Latest[tuple[str, ...]] = Latest(())
        self.rescans = Tally("cause")
        self._groups = tuple(groups)
        self._driver = driver
        self._auto = auto
        self._reader = reader or NodeReader()
        self._listen = listen
        self._watch = watch
        self._changes: Changes | None = None
        self._aimed: _Aim | None = None  # Nobody watches.
        self._aside = aside
        self._memory = Kept(
            Memory(),
            StateFile(
                Folder(folder) if folder is not None else None,
                FILE,
                to_bytes=to_bytes,
                from_bytes=memory_from_bytes,
                lost="numbers of devices in their groups are lost",
                unwritten="numbers of devices in their groups are not noted down",
            ),
        )
        self._asked = trio.Event()

    async def look(self) -> None:
        """Look at the machine, and tell what is there.

        Raises:
            HostError: It cannot be read; what was seen last stays.
        """
        groups = self._groups
        scan = NodeScan()
        if groups:
            scan = await self._aside("stock", self._reader.read, wanted(groups))
        found = survey(
            scan, groups, driver=self._driver, auto=self._auto, memory=self._memory.value
        )
        await self._memory.keep(found.memory)
        self.commands.set(found.commands)
        self.costs.set(found.costs)
        self.binders.set(found.binders)
        self.peripherals.set(found.peripherals)
        self.warnings.set(found.warnings)
        self._aim()

    def look_again(self) -> None:
        """Something changed; a look follows soon. Never blocks."""
        self._asked.set()

    async def forget(self, name: str) -> frozenset[str]:
        """Drop what is remembered of a device that is not there.

        Returns:
            The identities of what was so called; empty if nothing was.

        Raises:
            HostError: The disk refused; it is still remembered.
        """
        before = self._memory.value
        after = forgotten(before, name)
        if after != before:
            await self._memory.change(lambda memory: forgotten(memory, name))
        return frozenset(owner(key) for key in before.indexes.keys() - after.indexes.keys())

    def decide(self, auto: Door) -> None:
        """Settle what ``door = "auto"`` comes to, for devices that are free."""
        if auto is not self._auto:
            self._auto = auto
            self.look_again()

    def reload(self, groups: Sequence[GenericGroup]) -> None:
        """Take other groups; what is held keeps what it was given as until it is free."""
        self._groups = tuple(groups)
        self.look_again()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the machine until cancelled; started when the first look is done or has failed."""
        async with trio.open_nursery() as nursery:
            await self._memory.recall()
            nursery.start_soon(self._follow_events)
            nursery.start_soon(self._follow_names)
            await self._try_look()
            task_status.started()
            while True:
                with trio.move_on_after(self._rescan_s()) as waited:
                    await self._asked.wait()
                    await self._wait_quiet()
                self._asked = trio.Event()
                self.rescans.add("timer" if waited.cancelled_caught else "changed")
                await self._try_look()

    async def _try_look(self) -> None:
        try:
            await self.look()
        except BerthError as error:
            _log.warning("device nodes not read, looking again", reason=error, in_s=RESCAN_S)

    async def _wait_quiet(self) -> None:
        """Wait until events have ceased for a moment, though not for long."""
        with trio.move_on_after(BURST_S):
            while True:
                self._asked = trio.Event()
                with trio.move_on_after(SETTLE_S) as quiet:
                    await self._asked.wait()
                if quiet.cancelled_caught:
                    return

    def _rescan_s(self) -> float:
        """Until the next look that nobody asked for."""
        globs = [glob for group in self._groups for glob in group.match.path]
        seen = self._aimed is not None and not any(glob.wildcards for glob in globs)
        return math.inf if seen or not globs else RESCAN_S

    async def _follow_events(self) -> None:
        """Hear of devices while there are groups; what breaks is opened anew."""
        backoff = BackOff(first_s=1.0, most_s=RESCAN_S)
        while True:
            while not self._groups:
                await self._asked.wait()
                await trio.sleep(SETTLE_S)
            try:
                monitor = await self._aside("stock", self._listen)
                # What came before it listened was told to nobody.
                self.look_again()
                while self._groups:
                    await monitor.receive()
                    self.look_again()
            except BerthError as error:
                backoff, delay_s = backoff.next_delay()
                _log.warning("device events lost, listening anew", reason=error, in_s=delay_s)
                await trio.sleep(delay_s)

    async def _follow_names(self) -> None:
        """Look when a name comes or goes where nodes lie or should lie."""
        try:
            with self._watch() as changes:
                self._changes, self._aimed = changes, _NOWHERE
                self._aim()
                while True:
                    await self._wait_name(changes)
                    self.look_again()
        finally:
            self._changes = self._aimed = None

    async def _wait_name(self, changes: Changes) -> None:
        try:
            await changes.wait_next()
        except HostError as error:
            self._tell_unwatched(error)

    def _aim(self) -> None:
        """Have the folders watched in which nodes lie or should lie, where none can hang."""
        nodes = (node for one in self.peripherals.get() for node in one.edits.nodes)
        globs = wanted(self._groups).globs
        aim = (
            frozenset(node.host_path for node in nodes if node.host_path.startswith(DEV)),
            frozenset(glob for glob in globs if glob.text.startswith(DEV)),
        )
        if self._changes is None or aim == self._aimed:
            return
        try:
            self._changes.aim(*aim)
        except HostError as error:
            self._tell_unwatched(error)
        else:
            self._aimed = aim

    def _tell_unwatched(self, error: HostError) -> None:
        """Look now and then instead, and try again to watch with each look."""
        if self._aimed is not None:
            _log.warning("folders of nodes not watched, looking", reason=error, every_s=RESCAN_S)
            self.look_again()
        self._aimed = None
