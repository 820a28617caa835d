"""The device plugin door on real sockets: what kubelet sees of it, asks and is told."""

from __future__ import annotations

import logging
import os
import time

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.errors import ClaimError, HostError, RemoteProtocolError
from berth.model.resource import Resource
from berth.rehearsal.kubelet import Act
from berth.runtime.supervisor import Phase
from tests.integration.deviceplugin.conftest import (
    GPU,
    LIMIT_S,
    MODEM,
    OpenBed,
    gpus,
    units,
    until,
)


async def test_resource_is_registered_listed_and_given(open_bed: OpenBed) -> None:
    """Kubelet counts the units, a pod gets as many as it asks for, near to each other."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(8, ill=1)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 7)
            (given,) = await kubelet.admit("ns", "pod", {"main": {GPU: 2}})
            await bed.door.wait_registered(GPU)

            assert kubelet.capacity(GPU) == 8
            assert bed.desk.asked == [(GPU, given.ids)]
            # The two of one PCIe root.
            assert set(given.ids) in ({"GPU-0", "GPU-4"}, {"GPU-1", "GPU-5"}, {"GPU-2", "GPU-6"})
            answer = given.read_answer()
            assert dict(answer.envs) == {"IDS": ",".join(given.ids)}
            assert [item.host_path for item in answer.devices] == [f"/dev/{n}" for n in given.ids]
            assert str(bed.door.statistics()) == f"{GPU} registered, 7 of 8 healthy"
            assert bed.door.statistics().resources[0].tries == {("ok",): 1, ("error",): 0}
            (figures,) = bed.door.statistics().resources
            assert (figures.service.allocated, figures.service.refused) == (1, 0)
            assert figures.state.times == 1


async def test_list_is_sent_on_change_alone(open_bed: OpenBed) -> None:
    """Each change gives one list; what kubelet cannot see of a change gives none."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            bed.desk.resources.set((gpus(2, ill=1),))
            await kubelet.wait_allocatable(GPU, 1)
            held = tuple(attrs.evolve(unit, held=True) for unit in units(2, ill=1))
            bed.desk.resources.set((Resource(name=GPU, units=held),))
            bed.desk.resources.set((Resource(name=GPU, units=held, pack=True),))
            await wait_all_tasks_blocked(0.05)
            bed.desk.resources.set((gpus(3),))
            await kubelet.wait_allocatable(GPU, 3)

            assert bed.acts(Act.LISTED) == ["2/2", "1/2", "3/3"]
            # It is counted when it was taken, of which kubelet knows earlier than we.
            await until(lambda: bed.door.statistics().resources[0].service.lists == 3)


async def test_refused_units_fail_the_pod_in_the_words_of_who_refused(open_bed: OpenBed) -> None:
    """L3: the pod's event names the device and who holds it, and the next pod is served."""

    async def refuse(_resource: str, _ids: tuple[str, ...]) -> None:
        await trio.lowlevel.checkpoint()
        raise ClaimError("gpu-0", "is held by claim ns/claim (uid-1)")

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 1)
            calm = bed.desk.act
            bed.desk.act = refuse
            with pytest.raises(RemoteProtocolError) as caught:
                await kubelet.admit("ns", "pod", {"main": {GPU: 1}})
            bed.desk.act = calm
            await kubelet.admit("ns", "next", {"main": {GPU: 1}})

            assert str(caught.value) == (
                "UnexpectedAdmissionError: Allocate failed due to rpc error: code ="
                " FAILED_PRECONDITION desc = gpu-0: is held by claim ns/claim (uid-1),"
                " which is unexpected"
            )
            assert bed.door.statistics().resources[0].service.refused == 1


async def test_defect_and_silence_of_who_gives_end_one_call_alone(
    open_bed: OpenBed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect is told as one, a call that hangs is given up, and the door stays open."""

    monkeypatch.setattr("berth.deviceplugin.service.ALLOCATE_S", 0.2)
    caplog.set_level(logging.CRITICAL)

    async def fail(_resource: str, ids: tuple[str, ...]) -> None:
        if ids == ("GPU-0",):
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise LookupError(ids)

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            bed.desk.act = fail
            with pytest.raises(RemoteProtocolError, match="GPU-0 not allocated within"):
                await kubelet.admit("ns", "pod", {"main": {GPU: 1}})
            with pytest.raises(RemoteProtocolError, match="defect: LookupError"):
                await kubelet.admit("ns", "pod", {"main": {GPU: 2}})

            assert kubelet.allocatable(GPU) == 2
            assert bed.supervisor.statistics().plugins[0].failures == 0


async def test_two_resources_have_a_server_each_and_come_and_go(open_bed: OpenBed) -> None:
    """Resources follow the configuration; one that lost its units stays, with none."""

    modems = Resource(name=MODEM, units=units(2, prefix="m"))
    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(2), modems) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 2)
            await kubelet.wait_allocatable(MODEM, 2)
            given = await kubelet.admit("ns", "pod", {"main": {GPU: 1, MODEM: 2}})
            assert [item.resource for item in given] == [GPU, MODEM]
            assert len(bed.sockets()) == 2

            bed.desk.resources.set((Resource(name=GPU, units=()), modems))
            await kubelet.wait_allocatable(GPU, 0)
            assert kubelet.capacity(GPU) == 0
            assert len(bed.sockets()) == 2

            bed.desk.resources.set((Resource(name=GPU, units=()),))
            await kubelet.plugins.resources.wait_value(lambda now: now[MODEM].ended_at is not None)
            await until(lambda: len(bed.sockets()) == 1)
            assert [item.name for item in bed.door.statistics().resources] == [GPU]

            bed.desk.resources.set((gpus(1), modems))
            await kubelet.wait_allocatable(MODEM, 2)
            await kubelet.wait_allocatable(GPU, 1)


async def test_list_of_1024_units_is_served(open_bed: OpenBed) -> None:
    """A thousand shares are listed, preferred among and given, one device each."""

    shares = tuple(
        attrs.evolve(unit, id=f"{unit.id}::{share}") for unit in units(64) for share in range(16)
    )
    resource = Resource(name=f"{GPU}.shared", units=shares)
    with trio.fail_after(LIMIT_S):
        async with open_bed(resource) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(resource.name, 1024)
            (given,) = await kubelet.admit("ns", "pod", {"main": {resource.name: 64}})

            assert len({name.partition("::")[0] for name in given.ids}) == 64
            with pytest.raises(RemoteProtocolError, match="a container gets one share of a device"):
                await kubelet.admit("ns", "next", {"main": {resource.name: 65}})
            usages = (await bed.pods.list_pods()).usages
            assert [(item.resource, item.ids) for item in usages] == [(resource.name, given.ids)]


async def test_door_waits_for_a_folder_that_is_missing(open_bed: OpenBed) -> None:
    """The door serves before kubelet was ever there, and registers when it comes."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed:
            assert bed.supervisor.statistics().plugins[0].phase is Phase.SERVING
            endpoints = await bed.door.endpoints.wait_value(lambda now: GPU in now)
            await endpoints[GPU].state.wait_value(lambda state: "is missing" in state.reason)
            assert not bed.folder.exists()
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 1)


async def test_stopped_door_leaves_nothing(open_bed: OpenBed) -> None:
    """A call under way is answered before the list ends, and no socket of ours stays.

    Kubelet closes the connection with the list, and a call on it would fail its pod.
    """

    began, go = trio.Event(), trio.Event()

    async def wait(_resource: str, _ids: tuple[str, ...]) -> None:
        began.set()
        await go.wait()

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(1)) as bed, bed.kubelet_running() as kubelet:
            await kubelet.wait_allocatable(GPU, 1)
            bed.desk.act = wait
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kubelet.admit, "ns", "pod", {"main": {GPU: 1}})
                await began.wait()
                nursery.start_soon(lambda: bed.supervisor.stop(grace_s=20))
                await bed.supervisor.state.wait_value(
                    lambda state: state.plugins[0].phase is Phase.DRAINING
                )
                await wait_all_tasks_blocked(0.05)
                assert kubelet.allocatable(GPU) == 1
                go.set()

            assert bed.acts(Act.ADMITTED, "pod") == [""]
            assert len(bed.acts(Act.REGISTERED)) == 1
            assert bed.sockets() == []
            assert list(bed.private.glob("*-deviceplugin*")) == []
            assert kubelet.capacity(GPU) == 1
            assert kubelet.allocatable(GPU) == 0


async def test_pods_are_asked_for_what_they_have(open_bed: OpenBed) -> None:
    """PodResources gives one usage for a container and resource, and nothing that ended."""

    with trio.fail_after(LIMIT_S):
        async with open_bed(gpus(4)) as bed:
            pods = bed.pods
            with pytest.raises(HostError, match="kubelet does not answer List"):
                await pods.list_pods()
            assert pods.socket() is None
            with pytest.raises(HostError, match="there is no socket"):
                await pods.age_s()
            async with bed.kubelet_running() as kubelet:
                await kubelet.wait_allocatable(GPU, 4)
                await kubelet.admit("ns", "pod", {"main": {GPU: 2}, "side": {GPU: 1}})
                usages = await pods.usages()
                assert [(str(item.container), len(item.ids)) for item in usages] == [
                    ("pod ns/pod, container main", 2),
                    ("pod ns/pod, container side", 1),
                ]
                found = await pods.get_pod("ns", "pod")
                assert found is not None
                assert found.usages == usages
                assert await pods.get_pod("ns", "other") is None
                assert set((await pods.list_allocatable())[GPU]) == {
                    f"GPU-{number}" for number in range(4)
                }
                kubelet.end_pod("ns", "pod")
                assert (await pods.list_pods()).usages == ()
                counts = pods.seconds.counts()
                assert (counts["unavailable",], counts["ok",]) == (1, 4)
                os.utime(bed.pods.path, ns=(0, time.time_ns() - 90 * 10**9))
                assert 90 <= await bed.pods.age_s() < 90 + LIMIT_S
