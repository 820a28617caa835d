"""Devices for which kubelet does not ask, on the rehearsal's stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from berth.rehearsal.apiserver.gates import GATES_1_37, OPTIONAL_OPERATIONS
from berth.rehearsal.checks import holds as eventually
from berth.rehearsal.devicechecks import ask
from berth.rehearsal.kubelet import Act
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import until
from tests.integration.rehearsal.test_devices import claiming

ON = GATES_1_37 | {OPTIONAL_OPERATIONS}


def group(skip: str) -> dict[str, Any]:
    """Settings with one device that kubelet need not ask for."""
    one = {"name": "full", "match": {"path": "/dev/full"}, "skip_node_operations": skip}
    return {"generic": [one]}


async def opened(stages: Stages, skip: str, *operations: str, **setting: Any) -> Stage:
    """A stage whose slices say what kubelet leaves out."""
    stage = await stages(0, config=group(skip), start=False, **setting)
    await stage.start()

    await until(partial(says, stage, operations))
    return stage


def says(stage: Stage, operations: Sequence[str]) -> bool:
    """Whether the node's slice says that kubelet leaves these out."""
    slices = [one["spec"] for one in stage.cluster.slices() if one["spec"].get("devices")]
    return [one.get("skipNodeOperations", []) for one in slices] == [[*operations]]


async def holds(stage: Stage) -> list[tuple[str, list[str]]]:
    """How each held device is held, and by which pods."""
    answer = await run_in_thread("control", ask, stage.world.runtime, "holds")
    return [(one["state"], one["pods"]) for one in answer["holds"]]


async def wait_holds(stage: Stage, *wished: tuple[str, list[str]]) -> None:
    """Wait until devices are held so."""

    async def so() -> bool:
        return await holds(stage) == [*wished]

    assert await eventually(so), await holds(stage)


async def test_pod_comes_and_goes_while_the_daemon_is_away(stages: Stages) -> None:
    """Its holder is known when the daemon is back, and its end is seen."""

    stage = await opened(stages, "all", "*", gates=ON)
    await stage.berthd.kill()

    pod = claiming(stage)
    await stage.pods.prepare(pod, stage.kubelet)
    await stage.pods.run_sandbox(pod)
    await stage.pods.run_containers(pod)
    await stage.start()

    await wait_holds(stage, ("skipped", ["claiming"]))
    await stage.berthd.kill()
    await stage.pods.stop(pod, stage.kubelet)
    await stage.start()
    await wait_holds(stage)
    assert stage.count(Act.PREPARED) == 0


async def test_claims_are_watched_only_while_a_group_asks(stages: Stages) -> None:
    """The watch is of all claims of the cluster: it begins with a group, and ends with it."""

    def watches() -> int:
        claims = [one for one in stage.api.seen if one.path.endswith("/resourceclaims")]
        return sum("watch" in one.params for one in claims)

    stage = await opened(stages, "none", gates=ON)
    assert watches() == 0

    for skip, operations, begun in (("all", ["*"], 1), ("none", [], 1), ("all", ["*"], 2)):
        stage.configure(group(skip))
        stage.reload()
        await until(partial(says, stage, operations))

        assert watches() == begun


async def test_claim_that_is_not_unprepared_is_cleared_up(stages: Stages) -> None:
    """By the daemon itself, as soon as the claim has its device no more."""

    stage = await opened(stages, "unprepare", "NodeUnprepareResources", gates=ON)
    pod = claiming(stage)
    await stage.pods.start(pod.name, stage.kubelet)
    await wait_holds(stage, ("prepared", ["claiming"]))

    await stage.pods.stop(stage.pods.found(pod.name), stage.kubelet)

    await wait_holds(stage)
    assert (stage.count(Act.PREPARED), stage.count(Act.UNPREPARED)) == (1, 0)


async def test_cluster_without_it_asks_as_ever(stages: Stages) -> None:
    """Nothing is written that a server would drop, and the reason is told."""

    stage = await opened(stages, "all")
    pod = claiming(stage)
    await stage.pods.start(pod.name, stage.kubelet)

    await wait_holds(stage, ("prepared", ["claiming"]))
    answer = await run_in_thread("control", ask, stage.world.runtime, "devices")
    assert any("skip_node_operations is not in force" in one for one in answer["warnings"])
