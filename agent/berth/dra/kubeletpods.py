"""Kubelet's own pods: asks on the node which claims a pod has, without the API server.

PodResources lists by container, and so nothing of a claim to which no container refers. This tells
the pod as kubelet has it; of claims that were made from templates kubelet's own status lacks which
they are, since the API server alone keeps that (``generateAPIPodStatus``).

Source: KC §10; ``pkg/kubelet/apis/pods/server.go`` of 1.37.2. Before 1.37 the gate is off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from berth.errors import HostError
from berth.model.pod import PodClaims, Sandbox
from berth.pb import core_v1_pb2 as corepb
from berth.pb import pods_v1alpha1_pb2 as pb
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import open_channel
from berth.runtime.methods import RpcError, Status

GET: Final = "/v1alpha1.Pods/GetPod"


class KubeletPods:
    """Asks one kubelet.

    Args:
        thread: The loop on which grpcio runs.
        root: Kubelet's root directory.
    """

    def __init__(self, thread: AsyncioThread, *, root: Path) -> None:
        self.path = root / "pods-api" / "pods-api.sock"
        self._thread = thread

    async def claims_of(self, sandbox: Sandbox) -> PodClaims | None:
        """The claims of the sandbox's pod; ``None`` when kubelet does not know the pod.

        The caller says how long to wait.

        Raises:
            HostError: Kubelet does not answer, or serves no such thing.
        """
        request = pb.GetPodRequest(podUID=sandbox.uid)
        try:
            async with open_channel(self._thread, self.path) as channel:
                answer = await channel.unary(GET, request, pb.GetPodResponse)
        except RpcError as error:
            if error.code is Status.NOT_FOUND:
                return None
            raise HostError(
                str(self.path),
                f"kubelet does not tell of its pods: {error.found}",
                rule=error.code.name,
            ) from error
        return self._read(answer.pod)

    def _read(self, content: bytes) -> PodClaims:
        try:
            pod = corepb.Pod.FromString(content)
        except DecodeError as error:
            raise HostError(
                str(self.path), f"kubelet told a pod that cannot be read: {error}"
            ) from error
        return PodClaims.resolve(
            group=pod.spec.schedulingGroup.podGroupName,
            entries=[(one.name, one.resourceClaimName) for one in pod.spec.resourceClaims],
            made={one.name: one.resourceClaimName for one in pod.status.resourceClaimStatuses},
        )
