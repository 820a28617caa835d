"""Keeps the API server at the slices that the inventory asks for.

One loop: something changed (the inventory, or a slice on the server), gather for `COALESCE_S`, plan
from the newest state, write what differs. Nothing is queued: a round that failed is not repeated
but planned anew. What others do to our slices comes by a watch and is undone within that time;
while nothing changes nothing is sent.

A pool that has used up its allowance (`berth.dra.pacing`) waits without holding up the other one.
Failures of the server are waited out with growing, spread pauses, and told once.

Source: gpu-and-health.md §6.6; KC §1.5, §4.4, §4.5; cases.md 8, 9, 10.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from berth.dra.capabilities import Capabilities
from berth.dra.costs import refuses_costs
from berth.dra.former import remove_former
from berth.dra.history import NodeHistory
from berth.dra.lingering import Lingering
from berth.dra.nodename import NodeChoice
from berth.dra.origin import Origin
from berth.dra.pacing import COALESCE_S, Pace
from berth.dra.publication import PublisherStatistics, pool_states, taint_counts
from berth.dra.quarantine import Refusal
from berth.dra.skipping import UNWATCHED
from berth.dra.slices import PoolPlan, Verb
from berth.dra.tainting import NOTES_SINCE, ruled
from berth.dra.writer import Ending, SliceWriter
from berth.errors import KubeError
from berth.kube.api import (
    KubeApi,
    SliceEvent,
    WatchInterrupted,
)
from berth.kube.slices import Owner
from berth.kube.taintrules import TaintRule
from berth.model.device import RETURNING, CounterSet, Device
from berth.model.inventory import Inventory
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

_SERVER: Final = ""
"""Stands for the server as a whole where else the name of a pool stands."""

_log = get_log(__name__)
_chance: Final = random.SystemRandom().random


class Publisher:
    """Publishes one node's devices.

    Args:
        api: The API server.
        driver: Name of the driver.
        inventory: What is to be published; ``None`` until it is known.
        choice: Which node this is.
        history: Names under which was published before.
        kind: Attribute by which the server is told what part of its whole a device is; empty: it
            is not told which.
        near: The nodes that are as good as a NUMA node, by its number; ``None``: standard
            attributes are no lists.
        unseen: Why claims that kubelet does not ask for are not seen; its value is ``None`` while
            they are.
        chance: Gives random numbers from 0 up to 1, which spread the pauses.
        told: Told the devices whose taints were written otherwise than before.
    """

    def __init__(
        self,
        *,
        api: KubeApi,
        driver: str,
        inventory: Latest[Inventory | None] | Latest[Inventory],
        choice: NodeChoice,
        history: NodeHistory,
        kind: str = "",
        near: Mapping[int, tuple[int, ...]] | None = None,
        unseen: Latest[str | None] | None = None,
        chance: Callable[[], float] = _chance,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self._api = api
        self._inventory = inventory
        self._choice = choice
        self._history = history
        self._unseen = unseen or Latest(UNWATCHED)
        self._chance = chance
        # Nothing is written before the Node object gave its UID (`_find_node`).
        origin = Origin(driver=driver, owner=Owner(name=choice.name, uid=""), kind=kind)
        self.capabilities = Capabilities(api, driver=driver, node_name=choice.name)
        """What the cluster can do for devices."""
        self._writer = SliceWriter(api, origin, self.capabilities, near=near, told=told)
        self._paces: dict[str, Pace] = {}
        self._problems = {_SERVER: "waiting for the Node object"}
        self._changed = trio.Event()
        self._look_at = math.inf
        self._list_first = False
        self._lingering = Lingering()
        self._watch_broke = False
        self._read_node = False
        self._rounds = 0

    @property
    def choice(self) -> NodeChoice:
        """Which node this is."""
        return self._choice

    @property
    def refusals(self) -> Latest[Mapping[str, Refusal]]:
        """Devices that the server does not take, by name, for the inventory to leave out."""
        return self._writer.refusals

    @property
    def not_in_force(self) -> tuple[str, ...]:
        """Settings that the slices cannot say, and why; one sentence each."""
        return self._writer.not_in_force

    def look_at_node(self) -> None:
        """Kubelet came, or came again, and may declare other features."""
        self._read_node = True
        self._changed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Publish until cancelled; ``started()`` at once, since the server may come later.

        A cancel leaves the slices as they are: kubelet removes them when the driver stays away.
        """
        task_status.started()
        if self._choice.conflict:
            self._problems[_SERVER] = self._choice.conflict
            _log.error("nothing is published", reason=self._choice.conflict)
            await trio.sleep_forever()
        await self._wait_node()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_slices)
            nursery.start_soon(self._follow, self._inventory)
            nursery.start_soon(self._follow, self._unseen)
            nursery.start_soon(self._remove_former)
            while True:
                await self._wait_due()
                await self._publish()

    def statistics(self) -> PublisherStatistics:
        """Give the state of now."""
        slices = self._writer.observed.slices()
        return PublisherStatistics(
            state="; ".join(self._problems.values()) or "published",
            node=self._choice.name if self._writer.origin.owner.uid else "",
            pools=pool_states(slices),
            refused=tuple(sorted(self.refusals.get())),
            rounds=self._rounds,
            writes=self._writer.writes,
            failures=max((pace.retry.failures for pace in self._paces.values()), default=0),
            remarks=self._writer.remarks(),
            restored=self._writer.restored.series(),
            dropped=self._writer.dropped(),
            taints=taint_counts(slices),
            features=self.capabilities.states.get(),
        )

    def ruled(self, rules: Iterable[TaintRule]) -> tuple[str, ...]:
        """Which published devices rules of the cluster taint, one sentence for each rule."""
        return ruled(rules, self._writer.observed.slices())

    async def _wait_node(self) -> None:
        owned = await self._owns_node()
        while not owned:
            await trio.sleep_until(self._pace(_SERVER).not_before_s)
            owned = await self._owns_node()

    async def _owns_node(self) -> bool:
        """Read the Node object, without which a slice would belong to nobody.

        Slices of a Node that was deleted and made anew would be collected at once.
        """
        try:
            node = await self._api.get_node(self._choice.name)
        except KubeError as error:
            self._fail(_SERVER, self._choice.missing(error))
            return False
        owner = Owner(name=node.name, uid=node.uid)
        self._writer.origin = attrs.evolve(self._writer.origin, owner=owner)
        self.capabilities.saw_node(node)
        self._read_node = False
        self._succeed(_SERVER)
        return True

    async def _follow_slices(self) -> None:
        await self._api.watch_slices(self._writer.query, self._report)

    def _report(self, event: SliceEvent) -> None:
        if isinstance(event, WatchInterrupted):
            if event.attempts == 1:
                _log.warning("slices are not watched", reason=event.error, retry_s=event.retry_s)
            self._watch_broke = True
            return
        changed = self._writer.observed.apply(event)
        if changed or self._watch_broke:
            self._changed.set()
        if self._watch_broke:
            self.capabilities.look_again()
        self._watch_broke = False

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._changed.set()

    async def _remove_former(self) -> None:
        await remove_former(
            self._api,
            driver=self._writer.origin.driver,
            node=self._choice.name,
            history=self._history,
        )

    async def _wait_due(self) -> None:
        """Wait until a round may be due: something changed, or a pause is over."""
        with trio.move_on_at(self._look_at):
            await self._changed.wait()
        await trio.sleep(COALESCE_S)
        self._changed = trio.Event()
        self._look_at = math.inf

    async def _publish(self) -> None:
        """Make a round for each pool that is due and may be written now."""
        inventory = self._inventory.get()
        if inventory is None or not self._writer.observed.listed:
            missing = "the first scan" if inventory is None else "the list of slices"
            self._problems[_SERVER] = f"waiting for {missing}"
            return
        if not self._is_ready(_SERVER) or not await self._catch_up():
            return
        devices = self._devices(inventory)
        counts = self.capabilities.states.get().of("partitionable-devices").is_on
        counter_sets = inventory.counter_sets if counts else ()
        plans = self._plan(devices, counter_sets)
        if any(write.verb is Verb.CREATE for due in plans for write in due.writes):
            if not await self._owns_node():
                return
            plans = self._plan(devices, counter_sets)
        for due in plans:
            if not due.writes:
                self._succeed(due.pool)
            elif self._is_ready(due.pool):
                await self._write(due)

    def _plan(
        self, devices: Sequence[Device], counter_sets: Sequence[CounterSet]
    ) -> tuple[PoolPlan, ...]:
        return self._writer.plan(
            devices,
            counter_sets,
            notes=self.capabilities.is_since(NOTES_SINCE),
            unseen=self._unseen.get(),
        )

    def _devices(self, inventory: Inventory) -> tuple[Device, ...]:
        """What is offered, and what was and is on its way home."""
        returning = {
            nic.name
            for nic in inventory.nics
            if nic.exclusion is not None and nic.exclusion.reason == RETURNING
        }
        now = trio.current_time()
        self._lingering = self._lingering.after(inventory.devices, returning, now)
        self._look_at = min(self._look_at, self._lingering.due_s())
        return self._lingering.devices

    async def _catch_up(self) -> bool:
        """Learn what must be known before a plan.

        After a failure, that is our slices: whether a request was carried out is not known.
        """
        if self._list_first:
            try:
                await self._writer.relist()
            except KubeError as error:
                self._fail(_SERVER, f"cannot list slices: {error}")
                return False
            self._list_first = False
        if self._read_node and not await self._owns_node():
            return False
        if self.capabilities.is_due and not await self._look():
            return False
        self.capabilities.settle()
        self._look_at = min(self._look_at, self.capabilities.changes_at_s(trio.current_time()))
        self._succeed(_SERVER)
        return True

    async def _look(self) -> bool:
        """Learn what the server knows, on which fields depend; a new one is tried with all."""
        ready_at = self.capabilities.ready_at_s(trio.current_time())
        if ready_at > trio.current_time():
            self._look_at = min(self._look_at, ready_at)
            return True
        try:
            if await self.capabilities.look():
                self._writer.try_again()
        except KubeError as error:
            self._fail(_SERVER, f"cannot ask for the server's version: {error}")
            return False
        return True

    async def _write(self, due: PoolPlan) -> None:
        pace = self._pace(due.pool)
        self._paces[due.pool] = pace.spent(trio.current_time())
        self._rounds += 1
        try:
            ending = await self._writer.write(due)
        except KubeError as error:
            self._list_first = True
            # Kubelet is another one than the Node told of when it was read.
            self._read_node |= refuses_costs(error)
            self._fail(due.pool, f"cannot write pool {due.pool}: {error}")
            return
        self._succeed(due.pool)
        if ending is not Ending.DONE:
            self._list_first |= ending is Ending.STALE
            self._changed.set()

    def _pace(self, what: str) -> Pace:
        return self._paces.get(what, Pace())

    def _is_ready(self, what: str) -> bool:
        """Whether the pace of a pool, or of the server as a whole, lets a round be made now.

        If not, it will be looked at when it does.
        """
        now = trio.current_time()
        ready_at = self._pace(what).ready_at_s(now)
        if ready_at <= now:
            return True
        self._look_at = min(self._look_at, ready_at)
        if what not in self._problems:
            self._problems[what] = f"pool {what} waits: it was written too often"
        return False

    def _fail(self, what: str, reason: str) -> None:
        """Count a failure, and tell it unless it is the same as before."""
        now = trio.current_time()
        pace = self._paces[what] = self._pace(what).failed(now, chance=self._chance())
        self._look_at = min(self._look_at, pace.not_before_s)
        if self._problems.get(what) != reason:
            _log.warning("slices are behind", reason=reason, retry_s=pace.not_before_s - now)
        self._problems[what] = reason

    def _succeed(self, what: str) -> None:
        self._problems.pop(what, None)
        failures = self._pace(what).retry.failures
        if failures:
            self._paces[what] = self._pace(what).succeeded()
            _log.info("API server answers again", pool=what or "any", failures=failures)
