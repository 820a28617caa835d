"""What the publisher makes of servers that know costs, drop them, or refuse them."""

from __future__ import annotations

import attrs
import trio
from trio.testing import MockClock

from berth.errors import KubeError
from berth.kube.api import Node
from berth.kube.slices import COSTS, Slice
from berth.model.inventory import Inventory
from berth.model.nodecost import NodeCost
from tests.unit.dra.fakeapi import FakeApi
from tests.unit.dra.shelf import nics
from tests.unit.dra.test_countersthere import Open, Scene, scene, server

__all__ = ["scene"]

COST = {"cpu": NodeCost(pod_milli=500)}
TOLD = {"cpu": {"overhead": {"perPod": "500m"}}}
GATE = "DRANodeAllocatableResources"


def counting(*declared: str) -> FakeApi:
    """A server that keeps costs, and a node whose kubelet declares these features."""
    api = server()
    api.nodes["worker-7"] = Node(
        name="worker-7", uid="node-uid", kubelet_version="v1.37.2", declared=frozenset(declared)
    )
    return api


def costly(count: int = 2) -> Inventory:
    """NICs that cost something."""
    return Inventory(devices=tuple(attrs.evolve(one, costs=COST) for one in nics(count)))


def told(it: Scene) -> list[object]:
    """What slices tell of each device's cost."""
    return [device.get(COSTS) for item in it.api.owned() for device in item.devices]


def remarks(it: Scene) -> tuple[str, ...]:
    """What the operator is told."""
    return it.publisher.statistics().remarks


def refuse_costs(_: str, item: Slice) -> None:
    """What an admission plugin does for a node whose kubelet does not declare them."""
    if any(COSTS in device for device in item.devices):
        words = f'forbidden: node "worker-7" does not support {GATE} feature'
        raise KubeError("API server", words, status=403)


def drop_costs(item: Slice) -> Slice:
    """What a server with the gate off makes of a slice."""
    kept = tuple({k: v for k, v in one.items() if k != COSTS} for one in item.devices)
    return attrs.evolve(item, devices=kept)


async def test_costs_are_written_where_they_are_kept_and_counted(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Nothing is to be told of it."""

    async with scene(counting(GATE), costly()) as it:
        assert told(it) == [TOLD, TOLD]
        assert remarks(it) == ()


async def test_server_that_drops_costs_is_not_sent_them(
    autojump_clock: MockClock, scene: Open
) -> None:
    """It was shown them once, and did not keep them."""

    api = counting(GATE)
    api.store = drop_costs
    async with scene(api, costly()) as it:
        before = len(api.requests)
        await trio.sleep(600)
        assert told(it) == [None, None]
        assert len(api.requests) == before == 1
        assert remarks(it) == ("node_cost of g is not accounted: dropped by the server",)


async def test_server_that_cannot_be_shown_costs_is_sent_them_once(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Then what it made of the write decides, for all pools."""

    api = counting(GATE)
    api.hooked, api.store = True, drop_costs
    async with scene(api, costly()) as it:
        await trio.sleep(60)
        before = len(api.requests)
        await trio.sleep(600)
        assert told(it) == [None, None]
        assert len(api.requests) == before
        assert remarks(it) == ("node_cost of g is not accounted: dropped by the server",)


async def test_node_that_does_not_declare_costs_tells_none(
    autojump_clock: MockClock, scene: Open
) -> None:
    """Its server refuses what tells one: the rest of what it is shown is seen all the same."""

    api = counting()
    api.refuse = refuse_costs
    async with scene(api, costly()) as it:
        assert told(it) == [None, None]
        assert remarks(it) == ("node_cost of g is not accounted: the node does not declare it",)
        states = it.publisher.capabilities.states.get()
        assert states.of("compatibility-groups").why == "kept by the server"


async def test_kubelet_that_forgets_costs_is_noticed_by_a_refusal(
    autojump_clock: MockClock, scene: Open
) -> None:
    """The Node was read before: it is read again, and the devices are told without."""

    api = counting(GATE)
    async with scene(api, costly()) as it:
        api.nodes = counting().nodes
        api.refuse = refuse_costs
        it.inventory.set(costly(3))
        await trio.sleep(60)
        assert told(it) == [None, None, None]
        assert it.publisher.statistics().state == "published"


async def test_kubelet_that_learns_costs_is_told_them(
    autojump_clock: MockClock, scene: Open
) -> None:
    """When it comes again."""

    api = counting()
    async with scene(api, costly()) as it:
        assert told(it) == [None, None]

        api.nodes = counting(GATE).nodes
        it.publisher.look_at_node()
        await trio.sleep(60)
        assert told(it) == [TOLD, TOLD]
        assert remarks(it) == ()
