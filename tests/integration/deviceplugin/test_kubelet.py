"""The stand-in's device manager towards plugins that are not ours, and PodResources' manners."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import trio

from berth.deviceplugin.podresources import PodResources
from berth.errors import HostError
from berth.model.resource import ClaimUsage, ContainerRef
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.pb import podresources_v1_pb2 as podpb
from berth.rehearsal.kubelet import KubeletDevices
from berth.runtime.asyncthread import AsyncioThread
from berth.runtime.grpcbridge import GrpcServer, open_channel
from berth.runtime.grpcbridge.setup import MESSAGE_LIMIT
from berth.runtime.methods import Call, Method, RpcError, Service
from tests.integration.deviceplugin.conftest import GPU, LIMIT_S, OpenBed, gpus, until
from tests.integration.deviceplugin.test_restarts import rival_service


async def register(thread: AsyncioThread, folder: Path, endpoint: str) -> None:
    """Register a plugin's socket."""
    request = pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=GPU)
    async with open_channel(thread, folder / "kubelet.sock") as channel:
        await channel.unary("/v1beta1.Registration/Register", request, pb.Empty)


async def test_path_that_is_registered_twice_is_lost_to_kubelet(
    thread: AsyncioThread, folder: Path
) -> None:
    """As 1.37.2 does: the second registration is refused, and the end of the first goes unseen."""

    kubelet = KubeletDevices(thread, root=folder, private=folder)
    plugins = folder / "device-plugins"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(kubelet.run)
            rival = GrpcServer(thread, path=plugins / "x.sock", services=[rival_service(2)])
            async with trio.open_nursery() as serving:
                await serving.start(rival.run)
                await register(thread, plugins, "x.sock")
                await kubelet.wait_allocatable(GPU, 2)
                for _ in range(2):
                    with pytest.raises(RpcError, match="already connected"):
                        await register(thread, plugins, "x.sock")
                serving.cancel_scope.cancel()
            again = GrpcServer(thread, path=plugins / "x.sock", services=[rival_service(3)])
            await nursery.start(again.run)
            with pytest.raises(RpcError, match="already connected"):
                await register(thread, plugins, "x.sock")
            assert kubelet.allocatable(GPU) == 2
            nursery.cancel_scope.cancel()


async def test_older_plugin_is_called_again_when_the_newer_has_gone(
    thread: AsyncioThread, folder: Path
) -> None:
    """The last list counts, whoever sent it, and all is lost with the last plugin."""

    kubelet = KubeletDevices(thread, root=folder, private=folder)
    plugins = folder / "device-plugins"
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(kubelet.run)
            old = GrpcServer(thread, path=plugins / "old.sock", services=[rival_service(2)])
            new = GrpcServer(thread, path=plugins / "new.sock", services=[rival_service(3)])
            for server, count in ((old, 2), (new, 3)):
                await nursery.start(server.run)
                await register(thread, plugins, server.path.name)
                await kubelet.wait_allocatable(GPU, count)
            newest = kubelet.plugins.caller(GPU)
            await new.drain()
            await until(lambda: kubelet.plugins.caller(GPU) is not newest)
            assert kubelet.allocatable(GPU) == 3
            await old.drain()
            await kubelet.plugins.resources.wait_value(lambda now: now[GPU].ended_at is not None)
            assert (kubelet.capacity(GPU), kubelet.allocatable(GPU)) == (3, 0)
            nursery.cancel_scope.cancel()


async def test_plugin_that_does_not_serve_is_not_taken(
    thread: AsyncioThread, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelet dials within Register."""

    monkeypatch.setattr("berth.rehearsal.kubelet.extended.DIAL_S", 0.1)
    kubelet = KubeletDevices(thread, root=folder, private=folder)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(kubelet.run)
            with pytest.raises(RpcError, match="failed to dial"):
                await register(thread, folder / "device-plugins", "nobody.sock")
            nursery.cancel_scope.cancel()


async def test_pods_are_asked_gently(open_bed: OpenBed) -> None:
    """Beyond its rate kubelet refuses, which is an error like any other."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running():
            refused: list[str] = []

            async def ask() -> None:
                try:
                    await bed.pods.list_pods()
                except HostError as error:
                    refused.append(str(error))

            async with trio.open_nursery() as nursery:
                for _ in range(60):
                    nursery.start_soon(ask)

            assert refused
            assert "rejected by rate limit: RESOURCE_EXHAUSTED" in refused[0]


async def test_claims_and_a_blind_kubelet_are_told(open_bed: OpenBed) -> None:
    """Devices of claims come beside ids; right after its start kubelet may know no pods."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running() as kubelet:
            ref = ContainerRef(namespace="ns", pod="pod", container="main")
            usage = ClaimUsage(
                container=ref, namespace="ns", name="c", driver="d", pool="p", device="gpu-0"
            )
            kubelet.pods.containers.append(ref)
            kubelet.pods.claims.append(usage)
            assert (await bed.pods.list_pods()).claims == (usage,)
            (pod,) = await bed.pods.provisions()
            assert [each.claims for each in pod.containers] == [(usage,)]
            kubelet.pods.blind = True
            assert (await bed.pods.list_pods()).claims == ()


async def test_kubelet_that_hangs_or_is_old_is_an_error(
    thread: AsyncioThread, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer in time, and a call that is not served, are told with the socket's path."""

    monkeypatch.setattr("berth.deviceplugin.podresources.ANSWER_S", 0.3)

    async def hang(
        _request: podpb.ListPodResourcesRequest, _call: Call
    ) -> podpb.ListPodResourcesResponse:
        await trio.sleep_forever()

    service = Service(
        name="v1.PodResourcesLister",
        methods=(
            Method(
                name="List",
                request=podpb.ListPodResourcesRequest,
                reply=podpb.ListPodResourcesResponse,
                handler=hang,
            ),
        ),
    )
    pods = PodResources(thread, root=folder)
    pods.path.parent.mkdir()
    server = GrpcServer(thread, path=pods.path, services=[service])
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            with pytest.raises(HostError, match="did not answer List within"):
                await pods.list_pods()
            with pytest.raises(HostError, match=r"does not answer Get: .*UNIMPLEMENTED"):
                await pods.get_pod("ns", "pod")
            nursery.cancel_scope.cancel()


async def test_answer_that_is_too_large_or_none_is_an_error(
    thread: AsyncioThread, folder: Path
) -> None:
    """Nothing is freed by it: the list counts as not given."""

    answers = [bytes(MESSAGE_LIMIT + 1), b"\x0f no message at all", b"\x0a\x05cut"]
    pods = PodResources(thread, root=folder)
    pods.path.parent.mkdir()
    with trio.fail_after(LIMIT_S), ThreadPoolExecutor(1) as workers:
        server = grpc.server(workers, options=[("grpc.max_send_message_length", -1)])
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: answers.pop(0)
        )
        handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})
        server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"unix:{pods.path}")
        server.start()
        try:
            with pytest.raises(HostError, match="RESOURCE_EXHAUSTED"):
                await pods.list_pods()
            for _ in range(2):
                with pytest.raises(HostError, match="does not answer List: the reply cannot be"):
                    await pods.list_pods()
        finally:
            with trio.move_on_after(10, shield=True):
                await trio.to_thread.run_sync(server.stop(None).wait)
