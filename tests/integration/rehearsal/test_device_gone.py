"""A NIC is pulled out while its claim is prepared (case 5)."""

from __future__ import annotations

import trio

from berth.model.claim import ClaimRef
from berth.rehearsal import checks
from berth.rehearsal.stage import Stage
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import ask, schedule, start_pod, until

PROMPT_S = 5.0
"""Far less than the 15 s from one round of looks to the next."""
UNKNOWN = ClaimRef(namespace="default", name="nobody", uid="00000000-0000-4000-8000-000000000000")


async def wait_not_offered(stage: Stage, name: str) -> None:
    """Wait until the device of a link is in no slice."""

    def gone() -> bool:
        devices = stage.cluster.devices().values()
        return all(checks.attribute(device, "ifName") != name for device in devices)

    await until(gone)


async def until_health(stage: Stage, status: str, reason: str) -> None:
    """Wait until the daemon says so of its one NIC."""

    async def told() -> bool:
        (device,) = (one for one in (await ask(stage, "health.list"))["devices"] if one["group"])
        return (device["status"], device["reason"]) == (status, reason)

    await until(told)


async def test_unprepare_of_a_lost_device_succeeds_with_its_neighbours(stages: Stages) -> None:
    """Lost, healthy and unknown claims in one request: no error, twice, and nothing is left."""

    stage = await stages(nics=2)
    lost = stage.pods.found(schedule(stage, "lost"))
    await stage.pods.prepare(lost, stage.kubelet)
    healthy = await start_pod(stage, "healthy")
    await stage.world.remove_nic("nic0")
    await stage.pods.stop_sandbox(healthy)
    refs = [*lost.claims.values(), *healthy.claims.values(), UNKNOWN]

    await stage.kubelet.unprepare("berth.dev", refs)
    await stage.kubelet.unprepare("berth.dev", refs)

    await checks.undone(stage, lost)
    await checks.undone(stage, healthy)
    lines = stage.berthd.log_text().splitlines()
    warnings = [line for line in lines if "NIC lost" in line and "nic-spare-nic0" in line]
    assert len(warnings) == 1, warnings
    await wait_not_offered(stage, "nic0")


async def test_unprepare_of_a_device_lost_in_its_pod_succeeds_after_a_restart(
    stages: Stages,
) -> None:
    """A NIC that vanished from the pod while the daemon was away does not hold the pod up."""

    stage = await stages()
    pod = await start_pod(stage, "one")
    await stage.berthd.kill()
    await stage.world.remove_nic("nic0")
    await stage.berthd.start()
    await stage.berthd.wait_ready()
    await stage.kubelet.wait_driver("berth.dev")

    await stage.pods.stop(pod, stage.kubelet)

    await checks.undone(stage, pod)
    await wait_not_offered(stage, "nic0")


async def test_a_device_that_vanishes_in_its_pod_is_told_at_once(stages: Stages) -> None:
    """By the kernel's word, not by the next round; the pod's status says why."""

    stage = await stages()
    pod = await start_pod(stage, "one")
    await until_health(stage, "healthy", "")
    await stage.world.remove_nic("nic0")

    with trio.fail_after(PROMPT_S):
        await until_health(stage, "unhealthy", "missing")

    await stage.pods.stop(pod, stage.kubelet)
