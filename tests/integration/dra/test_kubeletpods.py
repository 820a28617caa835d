"""Kubelet's own pods over a real socket: what is told of one, and each way of not being told."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from berth.dra.kubeletpods import KubeletPods
from berth.errors import HostError
from berth.model.pod import PodClaims, Sandbox
from berth.pb import pods_v1alpha1_pb2 as pb
from berth.rehearsal.kubelet.ownpods import SOCKET, OwnPods
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.methods import Call, Method, Service
from tests.integration.dra.conftest import LIMIT_S

SANDBOX = Sandbox(id="s1", name="web", namespace="default", uid="u1")


async def ask(thread: AsyncioThread, folder: Path, service: Service) -> PodClaims | None:
    """Ask a kubelet that serves this."""
    path = folder / SOCKET
    path.parent.mkdir(exist_ok=True)
    server = GrpcServer(thread, path=path, services=[service])
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            fault: HostError | None = None
            answer: PodClaims | None = None
            try:
                answer = await KubeletPods(thread, root=folder).claims_of(SANDBOX)
            except HostError as error:
                fault = error
            nursery.cancel_scope.cancel()
    if fault is not None:
        raise fault
    return answer


async def test_pod_tells_its_group_and_claims(thread: AsyncioThread, folder: Path) -> None:
    """Which claim a template made, kubelet does not tell."""

    pods = OwnPods()
    pods.add("u1", named={"nic": "uplink"}, templates={"gpu": "gpus"}, group="team")

    assert await ask(thread, folder, pods.service()) == PodClaims(
        group="team", names=frozenset({"uplink"}), unresolved=frozenset({"gpu"})
    )


async def test_pod_that_kubelet_does_not_know_is_none(thread: AsyncioThread, folder: Path) -> None:
    """It is on its way out."""

    assert await ask(thread, folder, OwnPods().service()) is None


async def test_kubelet_that_begins_or_tells_garbage_is_an_error(
    thread: AsyncioThread, folder: Path
) -> None:
    """Nothing is concluded from it."""

    async def garbage(_request: pb.GetPodRequest, _call: Call) -> pb.GetPodResponse:
        await trio.lowlevel.checkpoint()
        return pb.GetPodResponse(pod=b"\x0f no pod")

    method = Method(
        name="GetPod", request=pb.GetPodRequest, reply=pb.GetPodResponse, handler=garbage
    )
    with pytest.raises(HostError, match="is initializing: FAILED_PRECONDITION"):
        await ask(thread, folder, OwnPods(ready=False).service())
    with pytest.raises(HostError, match="a pod that cannot be read"):
        await ask(thread, folder, Service(name="v1alpha1.Pods", methods=(method,)))


async def test_kubelet_without_the_gate_is_an_error_at_once(
    thread: AsyncioThread, folder: Path
) -> None:
    """Before 1.37 there is no socket."""

    began = trio.current_time()

    with pytest.raises(HostError, match=r"does not tell of its pods: .*UNAVAILABLE"):
        await KubeletPods(thread, root=folder).claims_of(SANDBOX)

    assert trio.current_time() - began < LIMIT_S / 4
