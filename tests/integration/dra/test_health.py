"""Health streams on real sockets: the stand-in for kubelet, and clients that misbehave."""

from __future__ import annotations

import gc
import logging

import attrs
import pytest
import trio

from berth.dra.health import STREAMS_LIMIT, HealthStreams
from berth.dra.healthreport import Place
from berth.health.verdict import HealthState, Status, Verdict
from berth.pb import pluginregistration_pb2 as pb
from berth.rehearsal.kubelet import Act, Kubelet
from berth.rehearsal.kubelet.health import TOKENS
from berth.rehearsal.kubelet.healthinfo import DeviceHealth
from berth.runtime.grpcbridge import open_channel
from berth.runtime.grpcbridge.server import CALL_LIMIT
from berth.runtime.grpcbridge.setup import CONNECTION_CALLS
from berth.runtime.latest import Latest
from tests.descriptors import open_descriptors
from tests.integration.dra.conftest import DRIVER, LIMIT_S, Door, OpenDoor, ref
from tests.integration.dra.rawstreams import calling
from tests.integration.dra.test_door import until

POOL, GPU = "worker-7", "gpu-0000-41-00-0"
METHOD = "/v1.DRAResourceHealth/NodeWatchResources"
WELL = Verdict(status=Status.HEALTHY, observed_s=1000)
ILL = Verdict(status=Status.UNHEALTHY, reason="xid-79", message="fell off the bus", observed_s=1000)


@attrs.define
class Node:
    """What the devices of a node are like.

    Attributes:
        names: Of its devices.
    """

    names: tuple[str, ...] = (GPU,)
    state: Latest[HealthState] = attrs.field(init=False)
    streams: HealthStreams = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make all devices healthy."""
        self.state = Latest(HealthState(verdicts=dict.fromkeys(self.names, WELL)))
        self.streams = HealthStreams(
            self.state, places=lambda: [Place(pool=POOL, device=name) for name in self.names]
        )

    def judge(self, verdict: Verdict) -> None:
        """Judge all devices alike."""
        self.state.set(HealthState(verdicts=dict.fromkeys(self.names, verdict)))

    @property
    def open(self) -> int:
        """How many streams there are."""
        return sum(self.streams.statistics().streams.values())


async def wait_told(kubelet: Kubelet, health: str, message: str = "", device: str = GPU) -> None:
    """Wait until a pod's status says so of the device."""
    wanted = DeviceHealth(health=health, message=message)
    await kubelet.health.statuses.wait_value(lambda now: now.get((DRIVER, POOL, device)) == wanted)


def own_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What berth told that is worse than a warning.

    Not what asyncio tells: grpcio's poller serves all loops of the process, and an event of the
    loop that an earlier test closed may come to this test's ("Event loop is closed").
    """
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("berth") and record.levelno > logging.WARNING
    ]


async def test_registration_offers_health_behind_claims(open_door: OpenDoor) -> None:
    """KC §1.3: kubelet takes the first of the claims' tokens that it knows."""

    with trio.fail_after(LIMIT_S):
        async with (
            open_door(health=Node().streams) as door,
            open_channel(door.thread, door.places.registration_socket) as channel,
        ):
            info = await channel.unary(
                "/pluginregistration.Registration/GetInfo", pb.InfoRequest(), pb.PluginInfo
            )

    assert list(info.supported_versions) == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]


@pytest.mark.parametrize(
    ("known", "version"), [(tuple(TOKENS), "v1"), (("v1alpha1.DRAResourceHealth",), "v1alpha1")]
)
async def test_pod_is_told_what_its_device_is_like(
    open_door: OpenDoor, known: tuple[str, ...], version: str
) -> None:
    """At once, and again with each change; kubelet's death ends the stream."""

    node = Node()
    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door:
            async with door.kubelet_running(health=known) as kubelet:
                await wait_told(kubelet, "Healthy")
                node.judge(ILL)
                await wait_told(kubelet, "Unhealthy", "fell off the bus")
                node.judge(WELL)
                await wait_told(kubelet, "Healthy")
                await until(lambda: node.streams.statistics().sent[version] == 3)
                assert node.streams.statistics().streams[version] == 1
            await until(lambda: not node.open)

            told = [note.detail for note in door.acts(Act.HEALTH_TOLD)]
            assert told == [
                f"{POOL}/{GPU} Healthy",
                f"{POOL}/{GPU} Unhealthy: fell off the bus",
                f"{POOL}/{GPU} Healthy",
            ]
            statistics = door.plugin.statistics()
            assert statistics.health == node.streams.statistics()


async def test_kubelet_without_the_gate_opens_no_stream(open_door: OpenDoor) -> None:
    """1.34 and 1.35: it is registered as ever."""

    node = Node()
    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door, door.kubelet_running(health=()) as it:
            await it.wait_driver(DRIVER)
            assert str(it.health.look(DRIVER, POOL, GPU)) == "Unknown"

    assert sum(node.streams.statistics().sent.values()) == 0


async def test_drain_ends_streams_and_kubelet_comes_back(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the kept socket nothing is registered anew: the next run is asked by itself."""

    monkeypatch.setattr("berth.rehearsal.kubelet.health.RETRY_S", 0.05)
    node = Node()
    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door, door.kubelet_running() as kubelet:
            await wait_told(kubelet, "Healthy")
            await door.supervisor.stop(grace_s=1)
            ends = [note.detail for note in door.acts(Act.HEALTH_ENDED)]
            assert ends[0].startswith("code = UNAVAILABLE desc = berthd stops serving")
            assert node.open == 0
            node.judge(ILL)
            async with trio.open_nursery() as nursery:
                await nursery.start(door.plugin.run)
                await wait_told(kubelet, "Unhealthy", "fell off the bus")
                nursery.cancel_scope.cancel()

            assert door.plugin.statistics().registration.times == 1


async def test_client_that_never_reads_is_ended_and_others_are_told(
    open_door: OpenDoor, caplog: pytest.LogCaptureFixture
) -> None:
    """One message waits for it, no more; kubelet's stream and claims go on beside it."""

    node = Node(names=tuple(f"gpu-{number:04d}" for number in range(3000)))
    node.judge(attrs.evolve(ILL, timeout_s=3, message="x" * 500))
    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door, door.kubelet_running() as kubelet:
            await kubelet.wait_driver(DRIVER)
            async with calling(door.places.dra_socket, METHOD, range(3)):
                await until(lambda: node.open == 4)
                node.judge(attrs.evolve(ILL, timeout_s=3, message="worse"))
                await wait_told(kubelet, "Unhealthy", "worse", device="gpu-2999")
                await kubelet.prepare(DRIVER, [ref()])
                await until(lambda: node.open == 1)
                # On a machine that is held up kubelet's own may be late too, and is opened again.
                assert node.streams.statistics().unread >= 3
            assert own_errors(caplog) == []


@pytest.mark.slow
async def test_many_streams_leave_kubelet_its_own(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that opens more than there may be calls, and reads none, takes half of them.

    Kubelet's stream is ended for newer ones, and is the newest itself when it asks again.
    """

    monkeypatch.setattr("berth.rehearsal.kubelet.health.RETRY_S", 0.05)
    node = Node(names=(GPU, *(f"gpu-{number:04d}" for number in range(200))))
    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door, door.kubelet_running() as kubelet:
            await wait_told(kubelet, "Healthy")
            numbers = range(CALL_LIMIT + 100)
            async with calling(door.places.dra_socket, METHOD, numbers):
                await until(lambda: node.streams.statistics().displaced > CONNECTION_CALLS // 2)
                node.judge(ILL)
                await wait_told(kubelet, "Unhealthy", "fell off the bus")
                await kubelet.prepare(DRIVER, [ref()])
                assert node.open <= STREAMS_LIMIT
            await until(lambda: node.open == 1)
    assert own_errors(caplog) == []


@pytest.mark.slow
async def test_streams_that_come_and_go_leave_nothing(open_door: OpenDoor) -> None:
    """Clients that hang up at once, after a part of a message, or with many streams."""

    node = Node(names=tuple(f"gpu-{number:04d}" for number in range(500)))

    async def come_and_go(door: Door) -> None:
        for size in (0, 1, 30, 3000):
            async with calling(door.places.dra_socket, METHOD, range(2)) as stream:
                if size:
                    await stream.receive_some(size)

    with trio.fail_after(LIMIT_S):
        async with open_door(health=node.streams) as door:
            files: list[int] = []
            tasks: list[int] = []
            for _ in range(8):
                await come_and_go(door)
                await until(lambda: not node.open)
                await until(lambda: not door.plugin.statistics().door.connections)
                gc.collect()
                files.append(len(open_descriptors()))
                tasks.append(trio.lowlevel.current_statistics().tasks_living)

            assert min(files[4:]) <= files[1]
            assert min(tasks[4:]) <= tasks[1]
            assert node.state.statistics().readers == 0
