"""Pods are bound when their devices are ready: the whole daemon, and a scheduler that waits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from berth.errors import ClaimError
from berth.rehearsal.apiserver.faults import Fault, Refuse
from berth.rehearsal.apiserver.gates import BINDING, GATES_1_37
from berth.rehearsal.apiserver.resources import CLAIMS
from berth.rehearsal.iproute import ip
from berth.rehearsal.pods import Pod
from berth.rehearsal.sandbox import PodName
from berth.rehearsal.stage import Stage
from berth.rehearsal.world import SWITCH
from tests.integration.rehearsal.conftest import GROUP, Stages
from tests.integration.rehearsal.players import ask, schedule, until
from tests.integration.rehearsal.test_health_command import says

READY, FAILED = "berth.dev/ready", "berth.dev/failed"
NIC = "nic-spare-nic0"


def waiting(**bind: object) -> dict[str, Any]:
    """A group of NICs whose pods wait for carrier."""
    return {"nic": {"group": [{**GROUP, "bind": {"when": "link-up", **bind}}]}}


async def cut(*names: str) -> None:
    """Take the carrier of NICs away."""
    for name in names:
        await ip("link", "set", name, "down", netns=SWITCH)


async def mend(name: str) -> None:
    """Give it back."""
    await ip("link", "set", name, "up", netns=SWITCH)


def told(stage: Stage, pod: PodName) -> Mapping[str, tuple[str, str]]:
    """Status and reason of the conditions of the pod's device."""
    (ref,) = stage.cluster.claims_of(pod).values()
    devices = stage.cluster.claim(ref)["status"].get("devices") or ()
    return {c["type"]: (c["status"], c["reason"]) for one in devices for c in one["conditions"]}


async def wait_told(stage: Stage, pod: PodName, condition: str, *said: str) -> None:
    """Wait until a condition is told so."""
    await until(lambda: told(stage, pod).get(condition) == said)


async def offered(stages: Stages, nics: int = 1, **bind: object) -> Stage:
    """A stage whose NICs have no carrier, and whose slices say what is waited for."""
    stage = await stages(nics, config=waiting(**bind))
    await cut(*(f"nic{number}" for number in range(nics)))
    devices = stage.cluster.devices().values()
    assert [one.get("bindingConditions") for one in devices] == [[READY]] * nics
    return stage


async def why(stage: Stage, what: str) -> str:
    """What the daemon says of a pod or device."""
    answer = await ask(stage, "why", what=what)
    return "; ".join(str(found["verdict"]) for found in answer["found"])


async def start(stage: Stage, pod: PodName) -> Pod:
    """Have a pod bound and started."""
    await until(lambda: stage.cluster.bind(pod))
    return await stage.pods.start(pod, stage.kubelet)


async def test_pod_is_bound_when_its_nic_has_carrier(stages: Stages) -> None:
    """The daemon is killed, and the API server away, while it waits."""

    stage = await offered(stages)
    pod = schedule(stage, "web")
    await wait_told(stage, pod, READY, "False", "NoCarrier")
    assert not stage.cluster.bind(pod)
    assert f"{NIC} is not ready: nic0 has no carrier" in await why(stage, "web")

    await stage.berthd.kill()
    await stage.start()
    await mend("nic0")
    await wait_told(stage, pod, READY, "True", "LinkUp")
    running = await start(stage, pod)

    await wait_told(stage, pod, READY, "True", "Prepared")
    await wait_told(stage, pod, "Ready", "True", "Attached")
    await stage.pods.stop(running, stage.kubelet)


async def test_nic_that_gets_no_carrier_in_time_is_given_up_for_another(stages: Stages) -> None:
    """A taint keeps the next claim from it until it is ready."""

    stage = await offered(stages, 2, within_s=2, rest_s=600)
    await mend("nic1")
    pod = schedule(stage, "web")
    await wait_told(stage, pod, FAILED, "True", "NotReadyInTime")
    taints = {name: one.get("taints") for name, one in stage.cluster.devices().items()}
    assert [taint["key"] for taint in taints[NIC] or ()] == ["berth.dev/not-ready"]

    assert NIC in str((await ask(stage, "devices"))["warnings"])

    running = await start(stage, pod)

    (ref,) = stage.cluster.claims_of(pod).values()
    (result,) = stage.cluster.results(ref)
    assert result["device"] == "nic-spare-nic1"
    with pytest.raises(ClaimError, match="cannot be allocated"):
        schedule(stage, "next")
    await mend("nic0")
    await until(lambda: "taints" not in stage.cluster.devices()[NIC])
    await stage.pods.stop(running, stage.kubelet)


async def test_nic_that_was_given_up_rests_on_when_the_daemon_was_killed(stages: Stages) -> None:
    """Its taint is in the slices from before the kill until it is ready, without a break."""

    stage = await offered(stages, within_s=2, rest_s=600)
    pod = schedule(stage, "web")
    await wait_told(stage, pod, FAILED, "True", "NotReadyInTime")
    stage.api.delete(CLAIMS, "web", "default")

    await stage.berthd.kill()
    await stage.start()
    with trio.move_on_after(3):
        while True:
            assert "taints" in stage.cluster.devices()[NIC]
            await trio.sleep(0.05)
    assert f"{NIC} was given up by a claim" in str((await ask(stage, "devices"))["warnings"])

    await mend("nic0")
    await until(lambda: "taints" not in stage.cluster.devices()[NIC])


async def test_claim_that_goes_while_it_waits_leaves_nothing(stages: Stages) -> None:
    """Its device is free for the next one, which is told of from the beginning."""

    stage = await offered(stages)
    pod = schedule(stage, "web")
    await wait_told(stage, pod, READY, "False", "NoCarrier")
    stage.api.delete(CLAIMS, "web", "default")
    await mend("nic0")

    following = schedule(stage, "next")
    running = await start(stage, following)

    assert told(stage, following)[READY][0] == "True"
    await stage.pods.stop(running, stage.kubelet)


async def test_status_is_told_when_the_server_answers_again(stages: Stages) -> None:
    """What came up meanwhile binds the pod."""

    stage = await offered(stages)
    pod = schedule(stage, "web")
    await wait_told(stage, pod, READY, "False", "NoCarrier")
    stage.api.faults.append(Fault(action=Refuse(status=503), method="PATCH", times=3))
    await mend("nic0")

    await wait_told(stage, pod, READY, "True", "LinkUp")
    assert not any(fault.times for fault in stage.api.faults)


async def test_command_says_when_a_pod_is_bound(stages: Stages, tmp_path: Path) -> None:
    """One that hangs is killed, and its device is not ready."""

    program = tmp_path / "attached"
    says(program, f'[ "$1" = nic0 ] || exit 2; [ -e {tmp_path}/up ] || sleep 600; exit 0')
    bind = {"when": "command", "command": [str(program), "{ifname}"]}
    config = {"nic": {"group": [{**GROUP, "bind": {**bind, "interval_s": 1, "deadline_s": 1}}]}}
    stage = await stages(1, config=config)
    pod = schedule(stage, "web")
    await wait_told(stage, pod, READY, "False", "CommandSaysNo")
    assert "had not ended after 1 s and was killed" in await why(stage, "web")

    (tmp_path / "up").touch()

    running = await start(stage, pod)
    await stage.pods.stop(running, stage.kubelet)


async def test_pod_waits_on_its_node_where_the_server_drops_conditions(stages: Stages) -> None:
    """Its prepare does what the scheduler cannot."""

    stage = await stages(1, config=waiting(), gates=GATES_1_37 - {BINDING})
    await cut("nic0")
    (device,) = stage.cluster.devices().values()
    assert "bindingConditions" not in device
    pod = stage.pods.found(schedule(stage, "web"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.pods.prepare, pod, stage.kubelet)

        async def waits() -> bool:
            return "nic0 has no carrier" in await why(stage, "web")

        await until(waits)
        assert not pod.prepared
        await mend("nic0")
    assert pod.prepared


async def test_group_is_left_out_where_the_server_drops_conditions(stages: Stages) -> None:
    """If its operator wishes so; what is missing is told by its name."""

    config = waiting(ungated="leave-out")
    stage = await stages(1, config=config, start=False, gates=GATES_1_37 - {BINDING})
    await stage.start()

    async def is_out() -> bool:
        return "DRADeviceBindingConditions is off" in await why(stage, NIC)

    await until(is_out)
    await until(lambda: not stage.cluster.devices())
