"""Where slices are written to a real API server as the daemon writes them, without its pauses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from berth.dra.capabilities import Capabilities
from berth.dra.origin import Origin
from berth.dra.slices import PoolPlan, Verb
from berth.dra.tainting import NOTES_SINCE
from berth.dra.writer import Ending, SliceWriter
from berth.kube.api import KubeApi
from berth.kube.server import KubeServer
from berth.kube.slices import Owner, Slice
from berth.rehearsal.apiserver.gates import DECLARED
from tests.cluster.apidoor import open_admin
from tests.cluster.bed import Cluster
from tests.cluster.berthd import DRIVER
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES
from tests.unit.dra.inventories import Inventory

NODE: Final = "drawn"
_NODES: Final = "/api/v1/nodes"
_NEAR: Final[Mapping[int, tuple[int, ...]]] = {
    node: (node, *(other for other in range(8) if other != node)) for node in range(8)
}
# Every node is as good as each other, so that lists are as long as they can be.


class Desk:
    """The writer of one node's slices, a round at a time.

    Args:
        api: The API server.
        origin: Who publishes.
    """

    def __init__(self, api: KubeApi, origin: Origin) -> None:
        self._api = api
        self.capabilities = Capabilities(api, driver=origin.driver, node_name=origin.node_name)
        self.writer = SliceWriter(api, origin, self.capabilities, near=_NEAR)

    async def learn(self) -> None:
        """Ask what the server keeps, and which slices there are."""
        self.capabilities.saw_node(await self._api.get_node(self.writer.origin.node_name))
        await self.capabilities.look()
        await self.writer.relist()

    async def publish(self, inventory: Inventory) -> list[Verb]:
        """Write what is due, once; gives what was done."""
        due = self.plan(inventory)
        for each in due:
            if each.writes:
                assert await self.writer.write(each) is Ending.DONE
        return [write.verb for each in due for write in each.writes]

    def plan(self, inventory: Inventory) -> tuple[PoolPlan, ...]:
        """What is due; lists are made where the server takes them, of what there is."""
        return self.writer.plan(
            [attrs.evolve(device, lists={}) for device in inventory.devices],
            inventory.sets,
            notes=self.capabilities.is_since(NOTES_SINCE),
            unseen=None,
        )

    async def listed(self) -> dict[str, Slice]:
        """The slices as the server has them now, by name."""
        return {one.name: one for one in await self._api.list_slices(self.writer.query)}


@contextlib.asynccontextmanager
async def open_desk(cluster: Cluster, gates: Gates, folder: Path) -> AsyncIterator[Desk]:
    """A desk for a node of its own, which is an object alone and goes with its slices.

    Args:
        gates: Those of the cluster: what the node declares as its kubelet would.
        folder: Where credentials are put.
    """
    api = cluster.api
    (node,) = api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    features = sorted(DECLARED) if gates is Gates.ALL_ALPHA else []
    api.merge(f"{_NODES}/{NODE}/status", {"status": {"declaredFeatures": features}})
    owner = Owner(name=NODE, uid=node["metadata"]["uid"])
    try:
        async with open_admin(cluster, folder) as client:
            desk = Desk(KubeServer(client), Origin(driver=DRIVER, owner=owner, kind="type"))
            await desk.learn()
            yield desk
    finally:
        api.delete(f"{SLICES}?fieldSelector=spec.nodeName%3D{NODE}")
        api.delete(f"{_NODES}/{NODE}")
