"""An API server in memory behind `KubeApi`, with faults to order."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, NoReturn

import attrs
import trio

from berth.errors import KubeError
from berth.features.feature import Stage
from berth.features.registry import FEATURES
from berth.kube.api import (
    ClaimEvent,
    ClaimQuery,
    ClaimsListed,
    Identity,
    Node,
    ServerVersion,
    SliceEvent,
    SliceGone,
    SliceQuery,
    SliceSeen,
    SlicesListed,
    WatchInterrupted,
)
from berth.kube.slices import Slice, slice_from_json, slice_json
from berth.kube.status import DeviceStatus
from berth.kube.taintrules import TaintRule
from berth.model.allocation import AllocatedClaim
from berth.model.claim import Claim, ClaimRef
from berth.model.pod import PodClaims


class FakeApi:
    """Slices and nodes; every change is seen by the watches, unless they are cut.

    Attributes:
        allocations: What a watch of claims lists first.
        unwatched: Why claims may not be watched; set before somebody does.
        claim_reports: Who watches claims now; a test tells them what happens.
        requests: Verb and time of every request that would change something.
        refuse: Called with the verb and the slice before a write; may raise.
        store: Called with what is to be stored; gives what the server makes of it.
        opened: Features that are off by default, and on in a version that has them; of what is
            tried for show it drops the others, of what is written none.
        hooked: An admission hook lets nothing be tried for show.
    """

    def __init__(self, *nodes: Node, node_name: str = "") -> None:
        self.identity = Identity(
            kind="kubelet", source="/etc/kubelet.conf", server="https://api", node_name=node_name
        )
        self.nodes = {node.name: node for node in nodes}
        self.slices: dict[str, Slice] = {}
        self.taint_rules: tuple[TaintRule, ...] = ()
        self.allocations: tuple[AllocatedClaim, ...] = ()
        self.unwatched: KubeError | None = None
        self.claim_reports: list[Callable[[ClaimEvent], None]] = []
        self.requests: list[tuple[str, float]] = []
        self.reads = 0
        self.refuse: Callable[[str, Slice], None] = lambda _verb, _slice: None
        self.store: Callable[[Slice], Slice] = lambda item: item
        self.fail: KubeError | None = None
        self.version: ServerVersion | KubeError = ServerVersion(major=1, minor=37, text="v1.37.2")
        self.versions_asked = 0
        self.tries = 0
        self.hooked = False
        self.opened = {one.key for one in FEATURES if not one.stage((1, 37)).is_on}
        self._watches: list[tuple[SliceQuery, Callable[[SliceEvent], None]]] = []
        self._cut = False
        self._version = 100
        self._changed = trio.lowlevel.ParkingLot()

    def owned(self, driver: str = "berth.dev") -> list[Slice]:
        """Give the slices of a driver, by name."""
        return [item for _, item in sorted(self.slices.items()) if item.driver == driver]

    def devices(self) -> list[str]:
        """Give the names of all published devices, in the scheduler's order."""
        return [device["name"] for item in self.owned() for device in item.devices]

    async def wait_devices(self, count: int) -> None:
        """Wait until so many devices are published."""
        while len(self.devices()) != count:
            await self._changed.park()

    def drop(self, name: str) -> None:
        """Delete a slice by another hand."""
        self._tell(SliceGone(slice=self.slices.pop(name)))

    def put(self, item: Slice) -> None:
        """Store a slice by another hand."""
        self._store(item)

    def cut_watches(self) -> None:
        """Let nothing be seen any more."""
        self._cut = True
        error = KubeError("watch", "connection reset")
        for _, report in self._watches:
            report(WatchInterrupted(error=error, retry_s=1.0, attempts=1))

    def mend_watches(self) -> None:
        """Let the watches go on, with the whole list first."""
        self._cut = False
        for query, report in self._watches:
            report(SlicesListed(slices=self._matching(query)))

    async def list_slices(self, query: SliceQuery) -> tuple[Slice, ...]:
        """Give the slices."""
        await self._read()
        return self._matching(query)

    async def list_taint_rules(self) -> tuple[TaintRule, ...]:
        """Give the rules."""
        await self._read()
        return self.taint_rules

    async def watch_slices(
        self, query: SliceQuery, report: Callable[[SliceEvent], None]
    ) -> NoReturn:
        """Report until cancelled."""
        await trio.lowlevel.checkpoint()
        report(SlicesListed(slices=self._matching(query)))
        self._watches.append((query, report))
        try:
            while True:
                await trio.sleep_forever()
        finally:
            self._watches.remove((query, report))

    async def watch_claims(
        self, query: ClaimQuery, report: Callable[[ClaimEvent], None]
    ) -> NoReturn:
        """Report until cancelled."""
        assert query.driver == "berth.dev"
        await trio.lowlevel.checkpoint()
        if self.unwatched is None:
            report(ClaimsListed(claims=self.allocations))
        else:
            report(WatchInterrupted(error=self.unwatched, retry_s=1.0, attempts=1))
        self.claim_reports.append(report)
        try:
            while True:
                await trio.sleep_forever()
        finally:
            self.claim_reports.remove(report)

    async def create_slice(self, wanted: Slice) -> Slice:
        """Create a slice."""
        await self._write("create", wanted)
        self._version += 1
        name = f"{wanted.generate_name[:58]}{self._version:05d}"
        return self._store(attrs.evolve(wanted, name=name, uid=f"uid-{self._version}"))

    async def try_slice(self, wanted: Slice) -> Slice:
        """Give what would be stored."""
        await self._read()
        self.tries += 1
        if self.hooked:
            hook = 'admission webhook "policy.example" does not support dry run'
            raise KubeError("API server, POST", hook, status=400, reason="BadRequest")
        self.refuse("try", wanted)
        return self.store(slice_from_json(_without(self._closed(), slice_json(wanted))))

    def _closed(self) -> set[str]:
        """The fields that its version drops."""
        version = self.version
        number = (1, 37) if isinstance(version, KubeError) else (version.major, version.minor)
        return {
            field
            for feature in FEATURES
            for field in feature.proof
            if not feature.stage(number).is_on
            and (feature.key not in self.opened or feature.stage(number) is Stage.ABSENT)
        }

    async def update_slice(self, wanted: Slice) -> Slice:
        """Replace a slice."""
        await self._write("update", wanted)
        known = self.slices.get(wanted.name)
        if known is None:
            raise KubeError(wanted.name, "gone", status=404)
        if known.resource_version != wanted.resource_version:
            raise KubeError(wanted.name, "conflict", status=409)
        return self._store(wanted)

    async def delete_slice(self, gone: Slice) -> None:
        """Delete a slice."""
        await self._write("delete", gone)
        known = self.slices.get(gone.name)
        if known is None:
            return
        if (known.uid, known.resource_version) != (gone.uid, gone.resource_version):
            raise KubeError(gone.name, "conflict", status=409)
        self.drop(gone.name)

    async def get_node(self, name: str) -> Node:
        """Give a node."""
        await self._read()
        if name not in self.nodes:
            raise KubeError(f"node {name}", "not found", status=404)
        return self.nodes[name]

    async def get_claim(self, ref: ClaimRef, *, driver: str) -> Claim:
        """Have no claims."""
        await trio.lowlevel.checkpoint()
        raise KubeError(str(ref), f"no claims of {driver}", status=404)

    async def apply_claim_status(
        self, ref: ClaimRef, devices: Sequence[DeviceStatus], *, driver: str, manager: str
    ) -> None:
        """Have no claims."""
        await trio.lowlevel.checkpoint()
        raise KubeError(str(ref), f"{driver} {manager} {len(devices)}", status=404)

    async def read_claim_status(self, ref: ClaimRef, *, driver: str) -> tuple[DeviceStatus, ...]:
        """Have no claims."""
        await trio.lowlevel.checkpoint()
        raise KubeError(str(ref), f"no claims of {driver}", status=404)

    async def pod_is_ending(self, namespace: str, name: str, *, uid: str) -> bool:
        """Have no pods."""
        await trio.lowlevel.checkpoint()
        raise KubeError(f"{namespace}/{name}", f"no pod {uid}", status=404)

    async def pod_claims(self, namespace: str, name: str, *, uid: str) -> PodClaims | None:
        """Have no pods."""
        await trio.lowlevel.checkpoint()
        raise KubeError(f"{namespace}/{name}", f"no pod {uid}", status=403)

    async def server_version(self) -> ServerVersion:
        """Give a version."""
        await trio.lowlevel.checkpoint()
        self.versions_asked += 1
        if isinstance(self.version, KubeError):
            raise self.version
        return self.version

    def local_endpoints(self) -> tuple[str, ...]:
        """Have no connection."""
        return ()

    async def _read(self) -> None:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.fail is not None:
            raise self.fail

    async def _write(self, verb: str, item: Slice) -> None:
        await trio.lowlevel.checkpoint()
        self.requests.append((verb, trio.current_time()))
        if self.fail is not None:
            raise self.fail
        self.refuse(verb, item)
        assert len({device["name"] for device in item.devices}) == len(item.devices) <= 128

    def _store(self, item: Slice) -> Slice:
        self._version += 1
        stored = attrs.evolve(
            self.store(item), generate_name="", resource_version=str(self._version)
        )
        self.slices[stored.name] = stored
        self._tell(SliceSeen(slice=stored))
        return stored

    def _tell(self, event: SliceSeen | SliceGone) -> None:
        self._changed.unpark_all()
        for query, report in () if self._cut else self._watches:
            if event.slice in self._matching(query, (event.slice,)):
                report(event)

    def _matching(
        self, query: SliceQuery, slices: Sequence[Slice] | None = None
    ) -> tuple[Slice, ...]:
        found = self.slices.values() if slices is None else slices
        return tuple(
            item
            for item in found
            if item.driver == query.driver and query.node_name in {"", item.node_name}
        )


def _without(fields: Set[str], value: Any) -> Any:
    """A document without fields of these names, wherever they are."""
    if isinstance(value, dict):
        return {key: _without(fields, item) for key, item in value.items() if key not in fields}
    return [_without(fields, item) for item in value] if isinstance(value, list) else value
