"""Kubelet's Pods service: the pods of its node, as it has them.

Of claims that were made from templates the status lacks which they are, as was seen on 1.37.2:
kubelet makes a status of its own, and the API server alone keeps those.

Source: KC §10; ``pkg/kubelet/apis/pods/server.go`` of 1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from berth.pb import core_v1_pb2 as corepb
from berth.pb import pods_v1alpha1_pb2 as pb
from berth.runtime.methods import Call, Method, RpcError, Service, Status

SOCKET: Final = "pods-api/pods-api.sock"
"""Where it lies below kubelet's root directory."""


@attrs.define(kw_only=True)
class OwnPods:
    """Tells them.

    Attributes:
        pods: By UID.
        ready: Whether kubelet has read its pods since its start.
    """

    pods: dict[str, corepb.Pod] = attrs.field(factory=dict)
    ready: bool = True

    def add(
        self,
        uid: str,
        *,
        named: Mapping[str, str] | None = None,
        templates: Mapping[str, str] | None = None,
        group: str = "",
    ) -> None:
        """Have a pod.

        Args:
            uid: The pod's.
            named: Claims that it names, by its own names for them.
            templates: The same of templates.
            group: Its PodGroup.
        """
        pod = corepb.Pod()
        for own, name in (named or {}).items():
            pod.spec.resourceClaims.add(name=own, resourceClaimName=name)
        for own, name in (templates or {}).items():
            pod.spec.resourceClaims.add(name=own, resourceClaimTemplateName=name)
        if group:
            pod.spec.schedulingGroup.podGroupName = group
        self.pods[uid] = pod

    def service(self) -> Service:
        """The method table."""
        method = Method(
            name="GetPod", request=pb.GetPodRequest, reply=pb.GetPodResponse, handler=self._get
        )
        return Service(name="v1alpha1.Pods", methods=(method,))

    async def _get(self, request: pb.GetPodRequest, _call: Call) -> pb.GetPodResponse:
        await trio.lowlevel.checkpoint()
        if not self.ready:
            raise RpcError("", "Kubelet is initializing", code=Status.FAILED_PRECONDITION)
        pod = self.pods.get(request.podUID)
        if pod is None:
            text = f"pod with UID {request.podUID} not found"
            raise RpcError("", text, code=Status.NOT_FOUND)
        return pb.GetPodResponse(pod=pod.SerializeToString())
