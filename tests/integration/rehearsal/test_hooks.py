"""Sandboxes that start while the daemon is away, late, or asked by many (cases 14, 15)."""

from __future__ import annotations

import signal

import pytest
import trio

from berth.rehearsal import checks, podchecks
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.kubelet import Act
from berth.runtime.methods import RpcError
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import schedule, start_pod, until


async def test_crash_between_prepare_and_start(stages: Stages) -> None:
    """What was prepared before kill -9 is attached after it, as if nothing had happened."""

    stage = await stages()
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)

    await stage.berthd.restart()
    await stage.runtime.wait_plugins()
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)

    placed = await podchecks.attached(stage, pod)
    await podchecks.traffic(pod, placed)
    await podchecks.completed(stage, pod, placed)


async def test_sandbox_that_started_without_us_gets_its_nic_late(stages: Stages) -> None:
    """The runtime reports the pod when we are back: its NIC follows, and is told in the journal."""

    stage = await stages()
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)
    await stage.berthd.kill()
    await stage.pods.run_sandbox(pod)
    assert await link_facts("nic0") is not None

    await stage.berthd.start()
    await stage.runtime.wait_plugins()
    await stage.pods.run_containers(pod)

    placed = await podchecks.attached(stage, pod)
    await podchecks.completed(stage, pod, placed)
    assert "default/one" in stage.berthd.log_text()


async def test_container_without_its_nic_is_refused(stages: Stages) -> None:
    """A NIC that cannot follow keeps the pod's containers from being made, by name."""

    stage = await stages()
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)
    await stage.berthd.kill()
    await stage.pods.run_sandbox(pod)
    await stage.world.remove_nic("nic0")
    await stage.berthd.start()
    await stage.runtime.wait_plugins()

    with pytest.raises(RpcError, match="nic-spare-nic0"):
        await stage.pods.run_containers(pod)

    assert pod.containers == []


async def test_runtime_that_cuts_us_off_meets_us_again(stages: Stages) -> None:
    """Stopped for longer than a hook may take, we are dropped; back, we complete the pod."""

    stage = await stages()
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)
    stage.berthd.signal(signal.SIGSTOP)
    began = trio.current_time()

    await stage.pods.run_sandbox(pod)
    assert 1.9 < trio.current_time() - began < 15
    await until(lambda: stage.runtime.plugins == 0)
    stage.berthd.signal(signal.SIGCONT)
    with trio.fail_after(5):
        await stage.runtime.wait_plugins()

    await stage.pods.run_containers(pod)
    await podchecks.attached(stage, pod)


async def test_hook_without_time_refuses_and_brings_the_nic_home(stages: Stages) -> None:
    """A limit that no move can keep gives an error for that pod, and nothing half done."""

    stage = await stages(config={"nri": {"timeout_s": 0.01}})
    before = await link_facts("nic0")
    assert before is not None
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)

    with pytest.raises(RpcError, match="NRI RunPodSandbox failed"):
        await stage.pods.run_sandbox(pod)

    assert stage.runtime.plugins == 1
    await stage.pods.unprepare(pod, stage.kubelet)
    await checks.returned({"nic0": before})


async def test_twenty_pods_at_once(stages: Stages) -> None:
    """Each gets its own NIC within the runtime's time, and gives it back."""

    count = 20
    stage = await stages(nics=count)
    before = {f"nic{n}": await link_facts(f"nic{n}") for n in range(count)}
    names = [
        schedule(stage, f"pod{n}", addresses=[{"address": f"192.0.2.{n + 1}/24"}])
        for n in range(count)
    ]
    pods = []

    async def start(place: int) -> None:
        pods.append(await stage.pods.start(names[place], stage.kubelet))

    async with trio.open_nursery() as nursery:
        for place in range(count):
            nursery.start_soon(start, place)

    assert stage.runtime.connections == 1
    seen = [one.standin for pod in pods for one in await podchecks.attached(stage, pod)]
    assert sorted(seen) == sorted(before)
    async with trio.open_nursery() as nursery:
        for pod in pods:
            nursery.start_soon(stage.pods.stop, pod, stage.kubelet)
    await checks.returned({name: facts for name, facts in before.items() if facts is not None})
    assert stage.count(Act.CALL_FAILED) == 0


async def test_restart_with_held_sockets_goes_unseen(stages: Stages) -> None:
    """A pod that starts meanwhile waits a moment; kubelet forgets neither driver nor slices."""

    stage = await stages(nics=2)
    slices = {item["metadata"]["uid"] for item in stage.cluster.slices()}
    first = await start_pod(stage, "one")
    name = schedule(stage, "two")
    await stage.berthd.kill()

    async with trio.open_nursery() as nursery:
        pod = stage.pods.found(name)
        nursery.start_soon(stage.pods.prepare, pod, stage.kubelet)
        await stage.berthd.start()
        await stage.berthd.wait_ready()
    await stage.runtime.wait_plugins()
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)

    await podchecks.attached(stage, first)
    await podchecks.attached(stage, pod)
    await until(lambda: len(stage.cluster.devices()) == 2)
    assert stage.count(Act.REGISTERED) == 1
    assert stage.count(Act.UNREGISTERED) == 0
    assert {item["metadata"]["uid"] for item in stage.cluster.slices()} == slices


async def test_restart_changes_no_slice(stages: Stages) -> None:
    """What is published stays as it is while a new daemon finds its feet: nothing is written."""

    stage = await stages(nics=3)
    await start_pod(stage, "one")
    versions = [item["metadata"]["resourceVersion"] for item in stage.cluster.slices()]

    await stage.berthd.restart()
    await stage.runtime.wait_plugins()
    await until(lambda: stage.api.watching == 1)
    await trio.sleep(2.0)

    assert versions == [item["metadata"]["resourceVersion"] for item in stage.cluster.slices()]
