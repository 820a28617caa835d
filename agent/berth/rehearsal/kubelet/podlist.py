"""Kubelet's PodResources service: which container has which ids, and which devices of claims.

Source: KC §10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
import trio

from berth.model.resource import ClaimUsage, ContainerRef
from berth.pb import podresources_v1_pb2 as pb
from berth.rehearsal.kubelet.books import Allotment, ResourceState
from berth.runtime.methods import Call, Method, RpcError, Service, Status

RATE: Final = 100.0
"""Calls a second that are answered, of all callers together."""

BURST: Final = 10.0


@attrs.define(kw_only=True)
class PodList:
    """Tells what pods have.

    Attributes:
        allotments: Gives what they have of extended resources.
        resources: Gives the resources of now.
        containers: Containers of active pods.
        claims: What they have of claims.
        blind: Whether kubelet has not read its pods yet, as right after its start.
    """

    allotments: Callable[[], Iterable[Allotment]]
    resources: Callable[[], Mapping[str, ResourceState]]
    containers: list[ContainerRef] = attrs.field(factory=list)
    claims: list[ClaimUsage] = attrs.field(factory=list)
    blind: bool = False
    _tokens: float = BURST
    _filled_at: float = 0.0

    def service(self) -> Service:
        """The method table."""
        return Service(
            name="v1.PodResourcesLister",
            methods=(
                Method(
                    name="List",
                    request=pb.ListPodResourcesRequest,
                    reply=pb.ListPodResourcesResponse,
                    handler=self._list,
                ),
                Method(
                    name="GetAllocatableResources",
                    request=pb.AllocatableResourcesRequest,
                    reply=pb.AllocatableResourcesResponse,
                    handler=self._allocatable,
                ),
                Method(
                    name="Get",
                    request=pb.GetPodResourcesRequest,
                    reply=pb.GetPodResourcesResponse,
                    handler=self._get,
                ),
            ),
        )

    async def _list(
        self, _request: pb.ListPodResourcesRequest, _call: Call
    ) -> pb.ListPodResourcesResponse:
        await self._take_token()
        return pb.ListPodResourcesResponse(pod_resources=self._pods())

    async def _get(
        self, request: pb.GetPodResourcesRequest, _call: Call
    ) -> pb.GetPodResourcesResponse:
        await self._take_token()
        for pod in self._pods():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return pb.GetPodResourcesResponse(pod_resources=pod)
        raise RpcError(
            "",
            f"pod {request.pod_name} in namespace {request.pod_namespace} not found",
            code=Status.UNKNOWN,
        )

    async def _allocatable(
        self, _request: pb.AllocatableResourcesRequest, _call: Call
    ) -> pb.AllocatableResourcesResponse:
        await self._take_token()
        devices = [
            pb.ContainerDevices(resource_name=name, device_ids=state.healthy)
            for name, state in self.resources().items()
        ]
        return pb.AllocatableResourcesResponse(devices=devices)

    async def _take_token(self) -> None:
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        self._tokens = min(BURST, self._tokens + (now - self._filled_at) * RATE)
        self._filled_at = now
        if self._tokens < 1:
            raise RpcError("", "rejected by rate limit", code=Status.RESOURCE_EXHAUSTED)
        self._tokens -= 1

    def _pods(self) -> list[pb.PodResources]:
        pods: dict[tuple[str, str], pb.PodResources] = {}
        for ref in () if self.blind else self.containers:
            fresh = pb.PodResources(name=ref.pod, namespace=ref.namespace)
            pod = pods.setdefault((ref.namespace, ref.pod), fresh)
            pod.containers.append(self._container(ref))
        return list(pods.values())

    def _container(self, ref: ContainerRef) -> pb.ContainerResources:
        # One entry for each id, as kubelet has one for each NUMA node: readers put them together.
        devices = [
            pb.ContainerDevices(resource_name=item.resource, device_ids=[name])
            for item in self.allotments()
            if item.container == ref
            for name in item.ids
        ]
        claims = [_claim(item) for item in self.claims if item.container == ref]
        return pb.ContainerResources(name=ref.container, devices=devices, dynamic_resources=claims)


def _claim(usage: ClaimUsage) -> pb.DynamicResource:
    device = pb.ClaimResource(
        driver_name=usage.driver,
        pool_name=usage.pool,
        device_name=usage.device,
        share_id=usage.share_id or None,
    )
    return pb.DynamicResource(
        claim_name=usage.name, claim_namespace=usage.namespace, claim_resources=[device]
    )
