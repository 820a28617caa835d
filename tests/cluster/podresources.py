"""What a node's kubelet lists of a pod's devices, asked out here through the box's own files."""

from __future__ import annotations

import trio

from berth.deviceplugin.podresources import SERVICE, PodResources
from berth.model.resource import PodUsages
from berth.pb import podresources_v1_pb2 as pb
from berth.runtime.asyncthread import open_asyncio_thread
from berth.runtime.grpcbridge import open_channel
from tests.cluster.site import Site


def listed(site: Site, pod: str) -> PodUsages:
    """What the pod's containers have, by limits and by claims."""

    async def ask() -> PodUsages:
        async with open_asyncio_thread("podresources") as thread:
            kubelet = PodResources(thread, root=site.node.path("/var/lib/kubelet"))
            return await kubelet.get_pod(site.namespace, pod) or PodUsages()

    return trio.run(ask)


def dynamic(site: Site, pod: str) -> dict[str, list[str]]:
    """The claims that kubelet names for the pod's containers, each with its devices."""

    async def ask() -> pb.GetPodResourcesResponse:
        socket = site.node.path("/var/lib/kubelet/pod-resources/kubelet.sock")
        request = pb.GetPodResourcesRequest(pod_namespace=site.namespace, pod_name=pod)
        async with (
            open_asyncio_thread("podresources") as thread,
            open_channel(thread, socket) as channel,
        ):
            return await channel.unary(f"/{SERVICE}/Get", request, pb.GetPodResourcesResponse)

    return {
        claim.claim_name: [device.device_name for device in claim.claim_resources]
        for container in trio.run(ask).pod_resources.containers
        for claim in container.dynamic_resources
    }
