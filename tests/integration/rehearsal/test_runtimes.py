"""The same pod on each generation of the runtime's NRI, with what is special about it."""

from __future__ import annotations

from typing import Final

import pytest

from berth.nri.runtime_role import NRI_0_6, NRI_0_8, NRI_0_11, NRI_0_12, Manner
from berth.nri.versions import Runtime as RuntimeName
from berth.rehearsal import checks, podchecks
from berth.rehearsal.iproute import link_facts
from berth.rehearsal.runtime import CONTAINERD_2_4, Runtime
from berth.runtime.methods import RpcError
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import schedule, start_pod, until

RUNTIMES: Final[dict[str, tuple[RuntimeName, Manner]]] = {
    "containerd 1.7.24": (RuntimeName(name="containerd", version="v1.7.24"), NRI_0_6),
    "containerd 2.1.6": (RuntimeName(name="containerd", version="v2.1.6"), NRI_0_8),
    "CRI-O 1.35": (RuntimeName(name="cri-o", version="1.35.0"), NRI_0_11),
    "containerd 2.4.2": (CONTAINERD_2_4, NRI_0_12),
}


@pytest.mark.parametrize("name", RUNTIMES)
async def test_pod_gets_its_nic_and_gives_it_back(stages: Stages, name: str) -> None:
    """Attach, metadata and return are the same whatever NRI the runtime speaks."""

    runtime, manner = RUNTIMES[name]
    stage = await stages(runtime=Runtime(name=runtime, manner=manner))
    before = await link_facts("nic0")
    assert before is not None

    pod = await start_pod(stage, "one")
    placed = await podchecks.attached(stage, pod)
    await podchecks.completed(stage, pod, placed)
    await stage.pods.stop(pod, stage.kubelet)

    await checks.returned({"nic0": before})
    await checks.undone(stage, pod)
    assert stage.runtime.connections == 1


@pytest.mark.parametrize(("name", "leaks"), [("containerd 2.1.6", True), ("CRI-O 1.35", False)])
async def test_refusal_comes_where_the_runtime_bears_it(
    stages: Stages, name: str, *, leaks: bool
) -> None:
    """A runtime that leaves refused sandboxes running gets the refusal at the container."""

    runtime, manner = RUNTIMES[name]
    stage = await stages(runtime=Runtime(name=runtime, manner=manner))
    pod = stage.pods.found(schedule(stage, "one"))
    await stage.pods.prepare(pod, stage.kubelet)
    await stage.world.remove_nic("nic0")

    if not leaks:
        with pytest.raises(RpcError, match="NRI RunPodSandbox failed"):
            await stage.pods.run_sandbox(pod)
        assert stage.runtime.sandboxes() == ()
        return
    await stage.pods.run_sandbox(pod)
    with pytest.raises(RpcError, match="failed to get NRI adjustment"):
        await stage.pods.run_containers(pod)


async def test_pod_of_before_a_runtime_restart_is_undone(stages: Stages) -> None:
    """Of such a pod no stop is told: its NIC, a virtual link, dies with it, and nothing hangs."""

    stage = await stages(nics=2)
    pod = await start_pod(stage, "one")
    await stage.runtime.go_down()
    await stage.start_runtime()
    await stage.runtime.wait_plugins()
    await podchecks.attached(stage, pod)

    await stage.pods.stop(pod, stage.kubelet)

    await checks.undone(stage, pod)
    await until(lambda: set(stage.cluster.devices()) == {"nic-spare-nic1"})
    await start_pod(stage, "two")
