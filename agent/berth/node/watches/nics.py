"""Watches the NICs: looks at each one's link and function, at once when the kernel tells of it.

An event is only a reason to look: what is told comes from looks alone, so that a lost event costs
no more than the time to the next round. Links in pods are heard from the host's namespace, by the
numbers that the pods' namespaces have there; nothing keeps a pod's namespace alive.

Each look is a thread's work, one at a time of each sort, less those that do not come back in time.

Source: network.md §6.1, §7.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import trio

from berth.config.nic import NicTable
from berth.health.finding import Finding
from berth.health.reports import Reports
from berth.health.terms import Terms
from berth.host.netlink.address import Address
from berth.host.netlink.events import Event, Overflow
from berth.host.netlink.link import Link
from berth.host.pcihealth import FunctionSight, PciHealth
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.nic.health import function, link
from berth.nic.health.post import Post
from berth.nic.health.sight import LinkSight
from berth.nic.record import SandboxRef
from berth.nic.visit import visit
from berth.node.health.rounds import Rounds, Unanswerable, Watched
from berth.node.records.given import Given
from berth.node.records.records import Records
from berth.node.records.shelf import Shelf
from berth.node.watches.calls import Aside, Calls, ask_kernel, in_thread
from berth.node.watches.ears import hear_links
from berth.node.watches.posts import physical_links, posts
from berth.runtime.latest import Latest

LINK: Final = "link"
"""Source of what links say."""

PCI: Final = "pci"
"""Source of what PCI functions say."""

SETTLE_S: Final = 0.02
"""From an event to the look: what belongs together comes within it."""

GATHER_S: Final = 0.05
"""From a change of records or inventory to what follows of it."""

SPACING_S: Final = 0.5
"""Least time between two looks at one NIC that events ask for."""

MOVE_S: Final = 40.0
"""How long berth may be at work on a NIC before nothing is known of it: as long as a prepare."""

PATIENCE: Final = 0.75
"""Part of a look's deadline in which the kernel must have answered what no NIC has a part in."""

_MEND: Final = "the kernel's log may say what hangs: a driver, or whoever holds its lock"
_TRIES: Final = 5
# Looks at a NIC that goes elsewhere each time.

_ON_ITS_WAY: Final = Unanswerable(why="it is on its way, in or out of a pod")

T = TypeVar("T")


Look: TypeAlias = Callable[[str, float], Awaitable[Sequence[Finding] | Unanswerable]]


class Visits(Protocol):
    """Looks at a NIC's link, as `berth.nic.visit.visit` does."""

    def __call__(
        self,
        post: Post,
        *,
        former: SandboxRef | None,
        physfn: Callable[[str], str],
        pfs: Mapping[str, int],
    ) -> LinkSight:
        """Look."""
        ...


class Hears(Protocol):
    """Hears of links, as `berth.node.watches.ears.hear_links` does."""

    async def __call__(
        self, wanted: trio.Event, heard: Callable[[Iterable[Event]], None], /
    ) -> None:
        """Call back with what happens, until cancelled."""
        ...


class NicWatch:
    """The evidence of all NICs that a group takes, and of those that somebody has.

    Args:
        reports: Who is told.
        inventory: What the machine has.
        records: What claims hold.
        given: What the device plugin gave; ``None`` where there is no such door.
        table: The ``[nic]`` table in force.
        terms: Gives the times of a NIC by the settings of now.
        busy: Gives the addresses of functions whose drivers do not let go of them.
        functions: Where PCI functions are read.
        look: Looks at a NIC's link; it blocks, as the next does.
        ask: Asks the kernel for what no NIC has a part in.
        aside: Runs what blocks.
        hear: Tells what happens to links.
    """

    def __init__(
        self,
        reports: Reports,
        *,
        inventory: Latest[Inventory],
        records: Records,
        given: Shelf[Given] | None = None,
        table: NicTable,
        terms: Callable[[Nic], Terms],
        busy: Callable[[], Iterable[str]] = tuple,
        functions: PciHealth | None = None,
        look: Visits = visit,
        aside: Aside = in_thread,
        ask: Callable[[], None] = ask_kernel,
        hear: Hears = hear_links,
    ) -> None:
        self._reports = reports
        self._inventory = inventory
        self._records = records
        self._given = given
        self._table = table
        self._terms = terms
        self._busy = busy
        self._pci = functions or PciHealth()
        self._visit = look
        self._hear = hear
        self._links = Rounds(reports, source=LINK, limit=1)
        self._functions = Rounds(reports, source=PCI, limit=1)
        self._link_calls, self._function_calls = Calls(aside, first=ask), Calls(aside)
        self._posts: Mapping[str, Post] = {}
        self._pfs: Mapping[str, int] = {}
        self._watched: Mapping[str, Terms] = {}
        self._there: frozenset[str] = frozenset()
        self._settled: object = None
        self._link_memory: dict[str, link.LinkMemory] = {}
        self._function_memory: dict[str, function.FunctionMemory] = {}
        self._heard_by: dict[str, frozenset[tuple[int | None, int]]] = {}
        self._last: dict[str, tuple[Finding, ...]] = {}
        self._looked_s: dict[str, float] = {}
        self._moving_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}
        self._pause = trio.CancelScope()
        self._any = trio.Event()

    @property
    def rounds(self) -> tuple[Rounds, Rounds]:
        """Both rounds of probes, for their figures."""
        return self._links, self._functions

    async def probe_now(self, subject: str) -> None:
        """Ask one NIC, and return when it was told; at once where it is not watched."""
        self._settle()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._links.probe_now, subject)
            nursery.start_soon(self._functions.probe_now, subject)

    def reload(self, table: NicTable) -> None:
        """Take another ``[nic]`` table, and the times of now."""
        self._table, self._settled = table, None
        self._settle()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._links.run)
            await nursery.start(self._functions.run)
            self._settle()
            nursery.start_soon(self._follow, self._inventory)
            nursery.start_soon(self._follow, self._records.changes)
            if self._given is not None:
                nursery.start_soon(self._follow, self._given.changes)
            nursery.start_soon(self._hear, self._any, self._heard)
            nursery.start_soon(self._look_when_due)
            task_status.started()

    async def _follow(self, news: Latest[T]) -> None:
        version = news.version
        while True:
            version = await news.wait_changed(version)
            # A pod's start brings several changes; whoever looks meanwhile settles by itself.
            await trio.sleep(GATHER_S)
            self._settle()

    def _settle(self) -> None:
        """Learn where every NIC should be by now, and look at those whose post is another.

        Records are written before what they announce is done, so whoever looks settles first.
        """
        given = self._given
        versions = (
            self._inventory.version,
            self._records.changes.version,
            given.changes.version if given is not None else 0,
        )
        if versions == self._settled:
            return
        self._settled = versions
        inventory = self._inventory.get()
        before, self._posts = (
            self._posts,
            posts(
                inventory,
                self._table,
                records=self._records.all(),
                given=given.all() if given is not None else (),
                busy=self._busy(),
            ),
        )
        self._pfs = physical_links(inventory)
        self._watch(inventory)
        for identity in before.keys() - self._posts.keys():
            self._forget(identity)
        for identity in self._posts.keys() & before.keys():
            if self._posts[identity] != before[identity]:
                self._links.probe_soon(identity)
                self._functions.probe_soon(identity)
        if self._posts:
            self._any.set()

    def _watch(self, inventory: Inventory) -> None:
        nics = inventory.nic_by_identity
        terms = {identity: self._terms(nics[identity]) for identity in self._posts}
        there = frozenset(nics)
        if (terms, there) == (self._watched, self._there):
            return
        self._watched, self._there = terms, there
        self._links.watch(_rounds_of(self._look_at_link, terms), of=there)
        functions = {one: each for one, each in terms.items() if self._posts[one].address}
        self._functions.watch(_rounds_of(self._look_at_function, functions), of=there)

    def _forget(self, identity: str) -> None:
        self._link_memory.pop(identity, None)
        self._function_memory.pop(identity, None)
        self._heard_by.pop(identity, None)
        self._last.pop(identity, None)
        self._looked_s.pop(identity, None)
        self._moving_s.pop(identity, None)
        self._due_s.pop(identity, None)

    async def _look_at_link(
        self, identity: str, patience_s: float
    ) -> Sequence[Finding] | Unanswerable:
        for _ in range(_TRIES):
            post = self._post(identity)
            if post is None:
                break
            if post.is_moving:
                return self._of_moving(identity)
            self._moving_s.pop(identity, None)
            now_s = self._looked_s[identity] = trio.current_time()
            standing, known = (
                self._reports.standing(identity, LINK),
                self._link_memory.get(identity),
            )
            memory = (
                link.let_stand(known, standing) if known else link.resumed(standing, at_s=now_s)
            )
            look = partial(
                self._visit, post, former=memory.sandbox, physfn=self._pci.physfn, pfs=self._pfs
            )
            sight = await self._link_calls.make(look, patience_s=patience_s)
            if isinstance(sight, Unanswerable):
                return sight
            if self._post(identity) == post:
                verdict = link.judge_link(post, sight, memory, at_s=trio.current_time())
                self._link_memory[identity] = verdict.memory
                self._heard_by[identity] = sight.keys
                self._last[identity] = verdict.findings
                self._look_at(identity, verdict.due_s)
                return verdict.findings
            # It was looked for where it was, and went elsewhere meanwhile.
        return _ON_ITS_WAY

    async def _look_at_function(
        self, identity: str, patience_s: float
    ) -> Sequence[Finding] | Unanswerable:
        for _ in range(_TRIES):
            post = self._post(identity)
            if post is None:
                break
            standing, known = (
                self._reports.standing(identity, PCI),
                self._function_memory.get(identity),
            )
            memory = (
                function.let_stand(known, standing)
                if known
                else function.resumed(standing, post, at_s=trio.current_time())
            )
            look = partial(self._functions_of, post.address)
            sights = await self._function_calls.make(look, patience_s=patience_s)
            if isinstance(sights, Unanswerable):
                return sights
            if self._post(identity) == post:
                sight, pf = sights
                now_s = trio.current_time()
                verdict = function.judge_function(post, sight, memory, pf=pf, at_s=now_s)
                self._function_memory[identity] = verdict.memory
                return verdict.findings
        return _ON_ITS_WAY

    def _post(self, identity: str) -> Post | None:
        self._settle()
        return self._posts.get(identity)

    def _of_moving(self, identity: str) -> Sequence[Finding] | Unanswerable:
        """What holds of a NIC that berth is at work on: what was found last, for as long as that.

        Some drivers take seconds to set what a claim wants.
        """
        now_s = trio.current_time()
        since_s = self._moving_s.setdefault(identity, now_s)
        if now_s - since_s > MOVE_S:
            return _ON_ITS_WAY
        last = self._last.get(identity)
        if last is None:
            return _ON_ITS_WAY
        codes = {finding.code for finding in self._reports.standing(identity, LINK)}
        return [finding for finding in last if finding.code in codes]

    def _functions_of(self, address: str) -> tuple[FunctionSight, FunctionSight | None]:
        """How a function is, and its PF; blocks."""
        sight = self._pci.look(address)
        return sight, self._pci.look(sight.physfn) if sight.physfn else None

    def _look_at(self, identity: str, at_s: float) -> None:
        """Look at a link at that moment, or before."""
        if at_s < self._due_s.get(identity, math.inf):
            self._due_s[identity] = at_s
            self._pause.cancel()

    async def _look_when_due(self) -> None:
        while True:
            next_s = min(self._due_s.values(), default=math.inf)
            with trio.CancelScope(deadline=next_s) as self._pause:
                await trio.sleep_forever()
            now_s = trio.current_time()
            for identity in [one for one, at_s in self._due_s.items() if at_s <= now_s]:
                del self._due_s[identity]
                self._links.probe_soon(identity)

    def _heard(self, events: Iterable[Event]) -> None:
        now_s = trio.current_time()
        for identity in self._concerned(events):
            again_s = self._looked_s.get(identity, -math.inf) + SPACING_S
            self._look_at(identity, max(now_s + SETTLE_S, again_s))

    def _concerned(self, events: Iterable[Event]) -> frozenset[str]:
        """Whose links events tell of."""
        keys = set()
        for event in events:
            if isinstance(event, Overflow):
                return frozenset(self._posts)
            if isinstance(event.value, Link | Address):
                keys.add((event.nsid, event.value.index))
        if not keys:
            return frozenset()
        return frozenset(one for one, seen in self._heard_by.items() if not keys.isdisjoint(seen))


def _rounds_of(look: Look, terms: Mapping[str, Terms]) -> Mapping[str, Watched]:
    """What is looked at in rounds, each by its own times."""
    return {
        identity: Watched(
            terms=each, probe=partial(look, identity, each.deadline_s * PATIENCE), mend=_MEND
        )
        for identity, each in terms.items()
    }
