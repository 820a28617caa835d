"""Watches device nodes: looks now and then whether each lies where it should, and is the same.

Events of hot-plug come by way of the inventory: a device that changed in it is looked at at once.

Source: gpu-and-health.md §4 (hotplug), §6.1, §6.2.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import trio

from berth.errors import HostError
from berth.generic.health import is_watched, node_findings
from berth.health.finding import Finding
from berth.health.reports import Reports
from berth.host.nodefacts import AtPath
from berth.host.nodestat import look_at_paths
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.health.judge import Watching
from berth.node.health.rounds import Rounds, Watched
from berth.runtime.latest import Latest
from berth.runtime.threads import thread_limiter

SOURCE: Final = "nodes"
"""Who tells it."""

THREADS: Final = 16
"""Most looks at once: one on a file system that hangs keeps its thread."""

SHARED_S: Final = 0.1
"""Longest that a look which shares a thread with others waits for its answer."""


class Look(Protocol):
    """Looks at paths; a cancel does not wait for a file system."""

    async def __call__(self, paths: Sequence[str]) -> Mapping[str, AtPath]:
        """What lies at each.

        Raises:
            HostError: The file system refuses to say.
        """
        ...


async def look_aside(paths: Sequence[str]) -> Mapping[str, AtPath]:
    """Look at paths of this machine, in a thread; see `Look`."""
    return await trio.to_thread.run_sync(
        look_at_paths,
        paths,
        limiter=thread_limiter(SOURCE, total=THREADS),
        abandon_on_cancel=True,
    )


@attrs.define(eq=False)
class _Glance:
    """One look for all who want one at a moment.

    Attributes:
        seen: What lies at each path; ``None`` before, and where it was not found out in time.
    """

    paths: list[str] = attrs.field(factory=list)
    seen: Mapping[str, AtPath] | None = None
    over: trio.Event = attrs.field(factory=trio.Event)


class SharedLook:
    """Looks of one moment share a thread. It is a `Look`.

    Hundreds of nodes are due together, and each in a thread of its own would wake this process
    some five times. A file system that hangs holds up all who share its thread: whoever has no
    answer within `SHARED_S`, or a refusal, looks alone.

    Args:
        alone: Looks at paths.
    """

    def __init__(self, alone: Look) -> None:
        self._alone = alone
        self._next: _Glance | None = None

    async def __call__(self, paths: Sequence[str]) -> Mapping[str, AtPath]:
        """See `Look`."""
        glance, is_first = self._next, self._next is None
        if glance is None:
            glance = self._next = _Glance()
        glance.paths += paths
        if is_first:
            await self._look(glance)
        else:
            with trio.move_on_after(SHARED_S):
                await glance.over.wait()
        if glance.seen is None:
            return await self._alone(paths)
        return {path: glance.seen[path] for path in paths}

    async def _look(self, glance: _Glance) -> None:
        try:
            try:
                # Whoever is due at this moment has come when this returns.
                await trio.lowlevel.checkpoint()
            finally:
                self._next = None
            with trio.move_on_after(SHARED_S), contextlib.suppress(HostError):
                glance.seen = await self._alone(glance.paths)
        finally:
            glance.over.set()


class GenericWatch:
    """The watch over the nodes of generic devices.

    Args:
        inventory: Which devices there are.
        terms: How they are watched.
        look: Looks at paths; tests with a clock of their own give another.

    Attributes:
        rounds: Its probes, for whoever wants one at once (`health.reports.Prober`).
    """

    def __init__(
        self,
        reports: Reports,
        *,
        inventory: Latest[Inventory],
        terms: Latest[Watching],
        look: Look = look_aside,
    ) -> None:
        self.rounds = Rounds(reports, source=SOURCE)
        self._inventory = inventory
        self._terms = terms
        self._look = SharedLook(look)
        self._known: Mapping[str, Peripheral] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            for news in (self._inventory, self._terms):
                nursery.start_soon(self._follow, news)
            await nursery.start(self.rounds.run)
            task_status.started()

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._settle()

    def _settle(self) -> None:
        """Watch what there is now, and look at once at what is another than before."""
        terms, before, inventory = self._terms.get(), self._known, self._inventory.get()
        self._known = {one.identity: one for one in inventory.peripherals if is_watched(one)}
        self.rounds.watch(
            {
                identity: Watched(
                    terms=terms.of_peripheral(one), probe=functools.partial(self._probe, identity)
                )
                for identity, one in self._known.items()
            },
            of=(one.identity for one in inventory.peripherals),
        )
        for identity, one in self._known.items():
            if identity in before and _shown(one) != _shown(before[identity]):
                self.rounds.probe_soon(identity)

    async def _probe(self, identity: str) -> Sequence[Finding]:
        one = self._known.get(identity)
        if one is None:
            # It went while its turn came; nobody hears the answer.
            return ()
        seen = await self._look([node.host_path for node in one.edits.nodes])
        return node_findings(one, seen)


def _shown(one: Peripheral) -> tuple[object, ...]:
    """What a finding depends on."""
    return one.edits.nodes, one.unhealthy, one.exclusion
