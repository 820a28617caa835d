"""Plans and makes the writes of one node's slices, and learns from what the server answers.

The decisions lie in `berth.dra.slices` and `berth.dra.quarantine`; here they meet the requests.
When the process ends between two requests, or a request fails, nothing has to be undone: the next
plan starts from what is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

import attrs
import trio

from berth.dra.capabilities import Capabilities
from berth.dra.costs import KEY as COSTING
from berth.dra.costs import costless, unaccounted
from berth.dra.counters import ungrouped
from berth.dra.edition import Edition
from berth.dra.lists import FIELDS as LISTS
from berth.dra.lists import listed, refuses_lists
from berth.dra.observed import ObservedSlices
from berth.dra.origin import Origin
from berth.dra.quarantine import Quarantine, Refusal, dropped_in, refusals_of, unguarded
from berth.dra.skipping import UNWATCHED, hindrance, unskipped
from berth.dra.slices import Accepted, PoolPlan, Verb, Write, plan
from berth.dra.tainting import FIELD as TAINTS
from berth.dra.tainting import foreign_taints, untainted, without_notes
from berth.errors import KubeError
from berth.features.registry import PROOFS
from berth.kube.api import KubeApi, SliceQuery
from berth.kube.compare import differences
from berth.kube.slices import COSTS, GROUPS, SKIPS, Slice
from berth.model.device import CounterSet, Device
from berth.model.meter import Tally
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

INVALID: Final = 422
_INDEX: Final = re.compile(r"\[\d+\]")
_STALE: Final = frozenset({404, 409})
_SHOWN: Final = 5
_NO_TAINTS: Final = "the API server drops taints: its feature gate DRADeviceTaints is off"
_NO_LISTS: Final = "standard attributes are single values in spite of [dra] lists"
_NO_SKIPS: Final = "skip_node_operations is not in force"
_log = get_log(__name__)


class Ending(Enum):
    """How a round of writes ended, where it did not fail."""

    DONE = "done"
    STALE = "somebody else wrote in between"
    REFUSED = "the server does not take a device"
    LESS = "the server does not take a field of slices"


class SliceWriter:
    """The slices of one node: as they are, as they are to be, and the way between.

    Args:
        api: The API server.
        origin: Who publishes.
        capabilities: What the server keeps; it is told what it drops.
        near: The nodes that are as good as a NUMA node, by its number; ``None``: standard
            attributes are no lists.
        told: Told the devices whose taints were written otherwise than before.
    """

    def __init__(
        self,
        api: KubeApi,
        origin: Origin,
        capabilities: Capabilities,
        *,
        near: Mapping[int, tuple[int, ...]] | None = None,
        told: Callable[[Iterable[str]], object] = tuple,
    ) -> None:
        self.refusals: Latest[Mapping[str, Refusal]] = Latest({})
        """Devices that the server does not take, by name."""
        self.query = SliceQuery(driver=origin.driver, node_name=origin.node_name)
        self.observed = ObservedSlices(self.query)
        self.origin = origin
        self.writes = 0
        """Requests so far that changed something."""
        self.restored = Tally("pool")
        """Slices that were put back as they had been, since others had changed or deleted them."""
        self._api = api
        self._capabilities = capabilities
        self._told = told
        self._taints: Mapping[str, list[tuple[Any, Any, Any]]] = {}
        self._quarantine = Quarantine()
        self._devices: Mapping[str, Device] = {}
        self._editions: dict[str, Edition] = {}
        self._settled: dict[str, Edition] = {}
        self._accepted: dict[tuple[str, int], Accepted] = {}
        self._untold = False
        self._unaccounted = ""
        self._near = near
        self._unlisted = ""
        self.not_in_force: tuple[str, ...] = ()
        """Settings that the slices cannot say, and why; one sentence each."""

    def plan(
        self,
        devices: Iterable[Device],
        counter_sets: Iterable[CounterSet] = (),
        *,
        notes: bool = False,
        unseen: str | None = UNWATCHED,
    ) -> tuple[PoolPlan, ...]:
        """What is due now for these devices, by pool; a name that comes twice counts once.

        Args:
            notes: The server knows taints that keep nobody away.
            unseen: Why claims that kubelet does not ask for are not seen; ``None`` when they are.
        """
        tries = self._capabilities.tries
        grouped = tries("compatibility-groups")
        wanted = tuple(devices)
        self._set_untold(wanted)
        self._set_unaccounted(wanted)
        self._set_unlisted()
        hindered = hindrance(self._capabilities, unseen)
        skipping = any(device.skips for device in wanted)
        self.not_in_force = (f"{_NO_SKIPS}: {hindered}",) if skipping and hindered else ()
        by_name: dict[str, Device] = {}
        for device in wanted:
            told = costless(device) if self._unaccounted else device
            told = unskipped(told) if hindered else told
            known = self._as_taken(told if grouped else ungrouped(told), notes=notes)
            if known is not None:
                by_name.setdefault(device.name, known)
        self._devices = by_name
        self._withhold(by_name.values())
        plans = plan(
            self.origin if tries("partition-type") else attrs.evolve(self.origin, kind=""),
            filter(self._quarantine.admits, by_name.values()),
            self.observed.slices(),
            editions=self._editions,
            accepted=self._accepted,
            counter_sets=counter_sets,
        )
        for item in plans:
            if not item.writes and item.edition is not None:
                self._editions[item.pool] = self._settled[item.pool] = item.edition
        return plans

    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of the slices as they stand, one sentence each."""
        ours = (
            _NO_TAINTS if self._untold else "",
            self._unaccounted,
            self._unlisted,
            *self.not_in_force,
        )
        return (*filter(None, ours), *foreign_taints(self.observed.slices()))

    def dropped(self) -> Mapping[str, int]:
        """At how many places the server did not keep what was written, by field."""
        return Counter(
            _INDEX.sub("[]", difference.path)
            for item in self._accepted.values()
            for difference in differences(item.sent, item.got)
        )

    def try_again(self) -> None:
        """Forget what the server dropped: it is another one now, or has another version."""
        self._accepted.clear()

    async def relist(self) -> None:
        """Read all of our slices anew.

        Raises:
            KubeError: The server does not give them.
        """
        self.observed.list(await self._api.list_slices(self.query))

    async def write(self, due: PoolPlan) -> Ending:
        """Make the writes of one pool, up to the first that does not succeed.

        Raises:
            KubeError: The server failed, or refused for another reason than a device.
        """
        began = trio.current_time()
        if due.edition is not None:
            self._editions[due.pool] = due.edition
            if self._settled.pop(due.pool, None) == due.edition:
                # It was written whole, and is to be nothing else.
                self.restored.add(due.pool, by=len(due.writes))
        for item in due.writes:
            ending = await self._write_one(due.pool, item)
            if ending is not Ending.DONE:
                return ending
        if due.edition is not None:
            self._settled[due.pool] = due.edition
        _tell(due, took_s=trio.current_time() - began)
        return Ending.DONE

    async def _write_one(self, pool: str, item: Write) -> Ending:
        try:
            if item.verb is Verb.DELETE:
                await self._api.delete_slice(item.slice)
                self.observed.removed(item.slice)
                self.writes += 1
                return Ending.DONE
            store = self._api.create_slice if item.verb is Verb.CREATE else self._api.update_slice
            got = await store(item.slice)
        except KubeError as error:
            return self._judge(error, item)
        self.writes += 1
        self.observed.wrote(got)
        self._tell_taints(item.slice)
        return self._learn(pool, item, got)

    def _tell_taints(self, written: Slice) -> None:
        """Tell which devices have other taints than were written before."""
        taints = {
            str(device["name"]): [
                (taint.get("key"), taint.get("value"), taint.get("effect"))
                for taint in device.get("taints") or ()
            ]
            for device in written.devices
        }
        self._told([name for name in taints if taints[name] != self._taints.get(name, [])])
        self._taints = {
            name: taints.get(name, self._taints.get(name, [])) for name in self._devices
        }

    def _judge(self, error: KubeError, item: Write) -> Ending:
        """Tell a refusal that has a remedy here from a failure, which is raised again."""
        if error.status in _STALE and item.verb is not Verb.CREATE:
            return Ending.STALE
        if error.status == INVALID and refuses_lists(error, item.slice):
            self._capabilities.saw_refused(LISTS)
            return Ending.LESS
        refused = refusals_of(error, item.slice, self._devices) if error.status == INVALID else ()
        if not refused:
            raise error
        self._refuse(refused)
        return Ending.REFUSED

    def _learn(self, pool: str, item: Write, got: Slice) -> Ending:
        """Take what the server made of a write for that write."""
        self._accepted.pop((pool, item.index), None)
        differing = differences(item.slice, got)
        if not differing:
            return Ending.DONE
        lost = {field for field in PROOFS if any(each.drops(field) for each in differing)}
        self._capabilities.saw_dropped(lost)
        if lost & {GROUPS, TAINTS, COSTS, SKIPS}:
            # Of groups all devices are told, or none: those with and those without go apart.
            # What kubelet is to skip decides who lies with whom.
            return Ending.LESS
        self._accepted[pool, item.index] = Accepted(sent=item.slice, got=got)
        dropped = dropped_in(item.slice, got, self._devices)
        if dropped:
            self._refuse(dropped)
            return Ending.REFUSED
        _log.warning(
            "API server stored a slice otherwise than it was sent, which is accepted",
            slice=got.name,
            fields=",".join(difference.path for difference in differing[:_SHOWN]),
            count=len(differing),
        )
        return Ending.DONE

    def _as_taken(self, device: Device, *, notes: bool) -> Device | None:
        """A device with what the server takes of its attributes and taints, if that may be."""
        if self._near is not None and not self._unlisted:
            device = listed(device, self._near)
        if not self._capabilities.tries("device-taints"):
            return untainted(device)
        return device if notes else without_notes(device)

    def _set_untold(self, devices: Iterable[Device]) -> None:
        """Whether there are taints that the server does not take; told when it becomes so."""
        before, tries = self._untold, self._capabilities.tries("device-taints")
        self._untold = not tries and any(device.taints for device in devices)
        if self._untold and not before:
            _log.warning(
                "taints are not published: a device that no pod should get leaves the slices",
                reason=_NO_TAINTS,
            )

    def _set_unaccounted(self, devices: Iterable[Device]) -> None:
        """Whether there are costs that the cluster does not count; told when it becomes so."""
        before, state = self._unaccounted, self._capabilities.states.get().of(COSTING)
        tries = self._capabilities.tries(COSTING)
        self._unaccounted = "" if tries else unaccounted(devices, state)
        if self._unaccounted and not before:
            _log.warning("what devices cost the node is not published", reason=state)

    def _set_unlisted(self) -> None:
        """Why the lists that are wanted are none; told when it becomes so."""
        before, self._unlisted = self._unlisted, ""
        if self._near is not None and not self._capabilities.tries("list-attributes"):
            state = self._capabilities.states.get().of("list-attributes")
            self._unlisted = f"{_NO_LISTS}: list-attributes is {state}"
        if self._unlisted and self._unlisted != before:
            _log.warning("lists are not published", reason=self._unlisted)

    def _withhold(self, devices: Iterable[Device]) -> None:
        """Leave out what would be given wrongly for lack of a feature, and nothing else of old."""
        states, offered = self._capabilities.states.get(), tuple(devices)
        quarantine = self._quarantine.revised(offered).without_dropped(states)
        self._set_quarantine(quarantine)
        new = [one for one in unguarded(offered, states) if quarantine.admits(one.device)]
        if new:
            self._refuse(new)

    def _refuse(self, refused: Iterable[Refusal]) -> None:
        for refusal in refused:
            _log.warning(
                "device is left out of the slices",
                device=refusal.device.name,
                reason=refusal.exclusion.detail,
                next="when its facts change",
            )
        self._set_quarantine(self._quarantine.with_refusals(refused))

    def _set_quarantine(self, quarantine: Quarantine) -> None:
        self._quarantine = quarantine
        self.refusals.set(quarantine.refusals)


def _tell(due: PoolPlan, *, took_s: float) -> None:
    counts = {verb.value: 0 for verb in Verb}
    for item in due.writes:
        counts[item.verb.value] += 1
    edition = due.edition
    _log.info(
        "slices written",
        pool=due.pool,
        generation=0 if edition is None else edition.generation,
        slices=0 if edition is None else edition.slice_count,
        devices=0 if edition is None else edition.device_count,
        **counts,
        took_s=took_s,
    )
