"""The device plugin door through restarts, lost sockets and rivals."""

from __future__ import annotations

import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import RemoteProtocolError
from berth.pb import deviceplugin_v1beta1_pb2 as pb
from berth.rehearsal.kubelet import Act
from berth.runtime.grpcbridge import GrpcServer, open_channel
from berth.runtime.methods import Call, Method, Send, Service, StreamMethod
from berth.runtime.sockets import SocketId, find_socket
from tests.descriptors import open_descriptors
from tests.integration.deviceplugin.conftest import GPU, LIMIT_S, Bed, OpenBed, gpus, until


async def wait_another(path: Path, before: SocketId | None) -> None:
    """Wait until another socket lies at the path."""
    await until(lambda: find_socket(path) not in {None, before})


@pytest.mark.slow
async def test_kubelet_restarts_and_the_resource_is_back_each_time(open_bed: OpenBed) -> None:
    """Case 1: registered again with the health of now, and nothing is left open."""

    files: list[int] = []
    async with open_bed(gpus(4)) as bed:
        for number in range(20):
            with trio.fail_after(10):
                if number % 2:
                    # Twice within a second: the first of the two may not even be told of us.
                    async with bed.kubelet_running():
                        await trio.lowlevel.checkpoint()
                bed.desk.resources.set((gpus(4, ill=number % 3),))
                async with bed.kubelet_running() as kubelet:
                    await kubelet.wait_allocatable(GPU, 4 - number % 3)
                    await kubelet.admit("ns", f"pod-{number}", {"main": {GPU: 1}})
                    kubelet.end_pod("ns", f"pod-{number}")
            endpoint = bed.door.endpoints.get()[GPU]
            with trio.fail_after(10):
                await endpoint.state.wait_value(lambda state: "away" in state.reason)
            files.append(len(open_descriptors()))

        with trio.fail_after(10):
            await until(lambda: len(open_descriptors()) <= max(files[:2]))
        assert bed.supervisor.statistics().plugins[0].failures == 0
        assert endpoint.state.get().rivals == ()
    assert bed.sockets() == []


async def test_admitted_pods_survive_a_restart_without_a_second_allocate(
    open_bed: OpenBed,
) -> None:
    """Kubelet asks once for a container; a unit that fell ill meanwhile fails its re-admission."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed:
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 1)
                first = await kubelet.admit("ns", "pod", {"main": {GPU: 1}})
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 1)
                assert await kubelet.admit("ns", "pod", {"main": {GPU: 1}}) == first
                assert len((await bed.pods.list_pods()).usages) == 1
            bed.desk.resources.set((gpus(1, ill=1),))
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 0)
                with pytest.raises(RemoteProtocolError, match="no longer healthy"):
                    await kubelet.admit("ns", "pod", {"main": {GPU: 1}})

            assert len(bed.desk.asked) == 1


async def test_deleted_socket_is_bound_again(open_bed: OpenBed) -> None:
    """Who removes our socket disturbs nobody: kubelet keeps its connection, the file is back."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            own = bed.door.endpoints.get()[GPU].socket
            assert own is not None
            for _ in range(2):
                before = find_socket(own)
                own.unlink()
                await wait_another(own, before)
            await kubelet.admit("ns", "pod", {"main": {GPU: 1}})

            assert len(bed.acts(Act.REGISTERED)) == 1
            assert bed.acts(Act.LISTED) == ["2/2"]
            assert bed.sockets() == [own.name]


@pytest.mark.slow
async def test_connection_that_is_lost_is_registered_anew_under_another_name(
    open_bed: OpenBed,
) -> None:
    """Kubelet connects no second time by itself, and may take the old path for connected still."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            endpoint = bed.door.endpoints.get()[GPU]
            for times in (2, 3):
                kubelet.plugins.drop(GPU)
                await bed.wait_registered(times)
                await kubelet.wait_allocatable(GPU, 2)

            assert len(set(bed.acts(Act.REGISTERED))) == 3
            assert bed.acts(Act.REFUSED) == []
            assert endpoint.state.get().times == 3


async def test_folder_that_goes_and_comes_back_is_used_again(open_bed: OpenBed) -> None:
    """Kubelet's whole folder may be removed; its next life finds us."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed:
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 2)
            shutil.rmtree(bed.root)
            endpoint = bed.door.endpoints.get()[GPU]
            await endpoint.state.wait_value(lambda state: "is missing" in state.reason)
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 2)

            assert bed.supervisor.statistics().plugins[0].failures == 0


@pytest.mark.slow
async def test_sockets_of_dead_processes_are_removed(open_bed: OpenBed) -> None:
    """What an earlier process of ours left is removed, what others left is not."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 1)
            kin = bed.sockets()[0].rpartition("-")[0]
            dead, foreign = bed.folder / f"{kin}-999.sock", bed.folder / "foreign.sock"
            for path in (dead, foreign):
                with socket.socket(socket.AF_UNIX) as left:
                    left.bind(str(path))
            kubelet.plugins.drop(GPU)
            await bed.wait_registered(2)

            assert not dead.exists()
            assert foreign.exists()
            assert len(bed.sockets()) == 1


async def test_rival_that_takes_the_resource_is_told_and_outlived(
    open_bed: OpenBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls go to the last to register: kubelet's books show it, and the resource is taken back."""

    monkeypatch.setattr("berth.deviceplugin.plugin.COMPARE_S", 0.1)
    monkeypatch.setattr("berth.deviceplugin.plugin.COMPARE_AGAIN_S", 0.1)
    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            async with rival_running(bed):
                await kubelet.wait_allocatable(GPU, 5)
                state = await bed.door.endpoints.get()[GPU].state.wait_value(
                    lambda state: bool(state.rivals)
                )
                await kubelet.wait_allocatable(GPU, 2)

            assert state.rivals == ("rival.sock",)
            assert state.reason == (
                f"another plugin has registered {GPU}: kubelet lists 5 ids that are not ours,"
                " such as r0; newer sockets: rival.sock"
            )


async def test_resource_that_kubelet_lost_is_registered_again(
    open_bed: OpenBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival that came and went leaves its list behind; ours is told again."""

    monkeypatch.setattr("berth.deviceplugin.plugin.COMPARE_S", 0.1)
    monkeypatch.setattr("berth.deviceplugin.plugin.COMPARE_AGAIN_S", 0.1)
    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            now = kubelet.plugins.resources.get()
            lost = attrs.evolve(now[GPU], devices=dict.fromkeys(now[GPU].devices, False))
            kubelet.plugins.resources.set({**now, GPU: lost})
            await kubelet.wait_allocatable(GPU, 2)

            assert len(bed.acts(Act.REGISTERED)) == 2


async def test_kubelet_that_refuses_is_asked_again(open_bed: OpenBed) -> None:
    """A name that kubelet does not take is told in its own words."""

    odd = gpus(1)
    bad = "kubernetes.io/gpu"
    with trio.fail_after(LIMIT_S):
        async with open_bed(type(odd)(name=bad, units=odd.units)) as bed, bed.kubelet_running():
            await until(lambda: len(bed.acts(Act.REFUSED, bad)) >= 2)
            state = bed.door.endpoints.get()[bad].state.get()

            assert not state.registered
            assert "the ResourceName 'kubernetes.io/gpu' is invalid" in state.reason


async def test_kubelet_that_is_dead_or_hangs_is_told(
    open_bed: OpenBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody on kubelet's socket, and no answer from it, are states with a reason."""

    monkeypatch.setattr("berth.deviceplugin.registration.REGISTER_S", 0.3)

    async def hang(_request: pb.RegisterRequest, _call: Call) -> pb.Empty:
        await trio.sleep_forever()

    service = Service(
        name="v1beta1.Registration",
        methods=(
            Method(name="Register", request=pb.RegisterRequest, reply=pb.Empty, handler=hang),
        ),
    )
    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed:
            bed.folder.mkdir(parents=True)
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(bed.folder / "kubelet.sock"))
            state = bed.door.endpoints.get()[GPU].state
            await state.wait_value(lambda now: "nobody listens" in now.reason)
            assert bed.sockets() == []

            (bed.folder / "kubelet.sock").unlink()
            server = GrpcServer(bed.thread, path=bed.folder / "kubelet.sock", services=[service])
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run)
                await state.wait_value(lambda now: "did not answer" in now.reason)
                nursery.cancel_scope.cancel()
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 1)


async def test_books_that_cannot_be_asked_for_change_nothing(
    open_bed: OpenBed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without PodResources the resource stays registered as it is."""

    monkeypatch.setattr("berth.deviceplugin.plugin.COMPARE_S", 0.05)
    caplog.set_level("DEBUG", logger="berth")
    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running() as kubelet:
            bed.pods.path.unlink()
            await kubelet.wait_allocatable(GPU, 1)
            await until(lambda: "cannot be compared" in caplog.text)

            assert bed.door.statistics().resources[0].state.registered
            assert len(bed.acts(Act.REGISTERED)) == 1


@asynccontextmanager
async def rival_running(bed: Bed) -> AsyncIterator[None]:
    """Let another plugin have the resource while the block runs."""
    request = pb.RegisterRequest(version="v1beta1", endpoint="rival.sock", resource_name=GPU)
    rival = GrpcServer(bed.thread, path=bed.folder / "rival.sock", services=[rival_service(5)])
    async with trio.open_nursery() as nursery:
        await nursery.start(rival.run)
        async with open_channel(bed.thread, bed.folder / "kubelet.sock") as channel:
            await channel.unary("/v1beta1.Registration/Register", request, pb.Empty)
        yield
        nursery.cancel_scope.cancel()


def rival_service(count: int) -> Service:
    """Give another plugin, with so many devices."""

    async def get_options(_request: pb.Empty, _call: Call) -> pb.DevicePluginOptions:
        await trio.lowlevel.checkpoint()
        return pb.DevicePluginOptions()

    async def watch(_request: pb.Empty, _call: Call, send: Send[pb.ListAndWatchResponse]) -> None:
        devices = [pb.Device(ID=f"r{number}", health="Healthy") for number in range(count)]
        await send(pb.ListAndWatchResponse(devices=devices))
        await trio.sleep_forever()

    return Service(
        name="v1beta1.DevicePlugin",
        methods=(
            Method(
                name="GetDevicePluginOptions",
                request=pb.Empty,
                reply=pb.DevicePluginOptions,
                handler=get_options,
            ),
            StreamMethod(
                name="ListAndWatch",
                request=pb.Empty,
                reply=pb.ListAndWatchResponse,
                handler=watch,
            ),
        ),
    )
