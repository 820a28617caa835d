"""What the publisher makes of servers that know costs, drop them, or refuse them."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import KubeError
from berth.kube.api import ServerVersion
from berth.kube.slices import COSTS, Slice
from berth.model.inventory import Inventory
from berth.model.nodecost import NodeCost
from tests.unit.dra.shelf import nics
from tests.unit.dra.test_countersthere import Open, Scene, scene, server

__all__ = ["scene"]

COST = {"cpu": NodeCost(pod_milli=500)}


def costly(count: int = 2) -> Inventory:
    """NICs that cost something."""
    return Inventory(devices=tuple(attrs.evolve(one, costs=COST) for one in nics(count)))


def told(it: Scene) -> list[object]:
    """What slices tell of each device's cost."""
    return [device.get(COSTS) for item in it.api.owned() for device in item.devices]


def remarks(it: Scene) -> tuple[str, ...]:
    """What the operator is told."""
    return it.publisher.statistics().remarks


def drop_costs(item: Slice) -> Slice:
    """What a server with the gate off makes of a slice."""
    kept = tuple({k: v for k, v in one.items() if k != COSTS} for one in item.devices)
    return attrs.evolve(item, devices=kept)


@pytest.mark.parametrize(
    ("minor", "cost"), [(36, None), (37, {"cpu": {"overhead": {"perPod": "500m"}}})]
)
async def test_costs_are_written_where_the_server_may_know_them(
    autojump_clock: MockClock, scene: Open, minor: int, cost: object
) -> None:
    """1.36 has another field; there the operator is told."""

    async with scene(server(1, minor), costly()) as it:
        assert told(it) == [cost, cost]
        assert len(remarks(it)) == (1 if cost is None else 0)


async def test_server_that_hides_its_version_is_told_no_cost(
    autojump_clock: MockClock, scene: Open
) -> None:
    """It might be of any."""

    api = server()
    api.version = KubeError("API server", "forbidden", status=403)
    async with scene(api, costly()) as it:
        assert told(it) == [None, None]
        assert "not known to be 1.37 or later" in remarks(it)[0]


async def test_dropped_costs_are_not_sent_again(autojump_clock: MockClock, scene: Open) -> None:
    """Nor is a slice that has none written anew for it."""

    api = server()
    api.store = drop_costs
    async with scene(api, costly()) as it:
        before = len(api.requests)
        await trio.sleep(600)
        assert told(it) == [None, None]
        assert len(api.requests) == before
        (remark,) = remarks(it)
        assert remark.startswith("node_cost of g is not accounted: the API server drops it")


async def test_refused_costs_leave_the_devices_offered(
    autojump_clock: MockClock, scene: Open
) -> None:
    """A server refuses the whole slice of a node whose kubelet does not declare the feature."""

    api = server()
    words = 'forbidden: node "worker-7" does not support DRANodeAllocatableResources feature'

    def refuse(_: str, item: Slice) -> None:
        if any(COSTS in device for device in item.devices):
            raise KubeError("API server", words, status=403)

    api.refuse = refuse
    async with scene(api, costly()) as it:
        assert told(it) == [None, None]
        assert "kubelet does not declare" in remarks(it)[0]
        assert it.publisher.statistics().failures == 0


async def test_costs_are_tried_again_on_another_version(
    autojump_clock: MockClock, scene: Open
) -> None:
    """What one server did not keep the next one may."""

    api = server()
    api.store = drop_costs
    async with scene(api, costly()) as it:
        api.cut_watches()
        api.store = lambda item: item
        api.version = ServerVersion(major=1, minor=38, text="v1.38.0")
        api.mend_watches()
        await trio.sleep(10)

        assert None not in told(it)
        assert remarks(it) == ()
