"""What a node's kubelet lists of a pod's devices, asked out here through the box's own files."""

from __future__ import annotations

import trio

from berth.deviceplugin.podresources import PodResources
from berth.model.resource import PodUsages
from berth.runtime.asyncthread import open_asyncio_thread
from tests.cluster.site import Site


def listed(site: Site, pod: str) -> PodUsages:
    """What the pod's containers have, by limits and by claims."""

    async def ask() -> PodUsages:
        async with open_asyncio_thread("podresources") as thread:
            kubelet = PodResources(thread, root=site.node.path("/var/lib/kubelet"))
            return await kubelet.get_pod(site.namespace, pod) or PodUsages()

    return trio.run(ask)
