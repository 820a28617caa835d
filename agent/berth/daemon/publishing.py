"""What keeps the slices on the API server: who publishes, for which node, and what it learns.

It begins when it is known who we are to the server and kubelet knows us, and holds what the
publisher finds out to whom it concerns.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from berth.daemon.offering import Offering
from berth.daemon.parts import Parts
from berth.dra.history import node_history
from berth.dra.origin import pools_of
from berth.dra.publisher import Publisher
from berth.errors import KubeError
from berth.health.changes import SLICE
from berth.kube.api import ClaimQuery
from berth.node.health.offered import Offered
from berth.runtime.files import Folder
from berth.runtime.latest import Latest

_DECLARED_S: Final = 15.0
# How long after kubelet came its Node is read once more: it writes its status every 10 s.
_ASK_NODE_S: Final = 10.0


class Publishing:
    """The publisher's surroundings.

    Args:
        parts: Of the daemon; told the publisher as soon as there is one.
        offering: Tells when the first inventory is whole.
    """

    def __init__(self, parts: Parts, offering: Offering) -> None:
        self._parts = parts
        self._offering = offering

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Publish, once it is known who we are to the API server, and kubelet knows us."""
        task_status.started()
        await self._parts.gateway.server.wait_value(lambda server: server is not None)
        await self._parts.dra.wait_kubelet()
        # A restart must not take out of the slices for a moment what was in them.
        await self._offering.settled.wait()
        waits = self._parts.work.waits
        offered = Offered(self._parts.held.discovery.inventory, self._parts.inquiry, marks=waits)
        publisher = Publisher(
            api=self._parts.gateway,
            driver=self._parts.config.dra.driver,
            inventory=offered.inventory,
            choice=self._parts.choice(),
            unseen=self._parts.allocations.unseen,
            told=self._parts.told(SLICE),
            history=node_history(Folder(self._parts.config.node.state_dir)),
            kind="profile" if self._parts.config.gpu.partition_type else "",
            near=self._parts.near,
        )
        self._parts.publisher.set(publisher)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(offered.run)
            nursery.start_soon(self._follow_refusals, publisher)
            nursery.start_soon(self._learn_node_addresses, publisher)
            nursery.start_soon(self._follow_kubelet, publisher)
            await publisher.run()

    def claims(self) -> ClaimQuery:
        """Which claims are of this node."""
        return ClaimQuery(
            driver=self._parts.config.dra.driver, pools=pools_of(self._parts.choice().name)
        )

    async def _follow_refusals(self, publisher: Publisher) -> None:
        """Keep from claims what the server does not take, and what must not be without waiting."""
        discovery, waits = self._parts.held.discovery, self._parts.work.waits
        news: tuple[Latest[Any], ...] = (publisher.refusals, discovery.inventory, *waits.news)

        async def follow(latest: Latest[Any]) -> None:
            async for _ in latest.changes():
                refused = {
                    name: why.exclusion.detail for name, why in publisher.refusals.get().items()
                }
                discovery.refuse({**waits.left_out(discovery.inventory.get()), **refused})

        async with trio.open_nursery() as nursery:
            for latest in news:
                nursery.start_soon(follow, latest)

    async def _follow_kubelet(self, publisher: Publisher) -> None:
        """A kubelet that came again may have other gates; its Node tells so a moment later."""
        async for _ in self._parts.dra.registered.changes():
            publisher.look_at_node()
            await trio.sleep(_DECLARED_S)
            publisher.look_at_node()

    async def _learn_node_addresses(self, publisher: Publisher) -> None:
        """The node's own addresses make their links uplinks."""
        name = publisher.choice.name
        while name:
            try:
                node = await self._parts.gateway.get_node(name)
            except KubeError:
                await trio.sleep(_ASK_NODE_S)
                continue
            self._parts.node_addresses = node.addresses
            self._parts.held.discovery.look_again()
            return
