"""The operator's command beside a daemon that serves: its answers at each point of a pod."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from berth.errors import RemoteProtocolError
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import GROUP, Stages
from tests.integration.rehearsal.players import schedule, start_pod, until


async def berth(stage: Stage, *words: str) -> tuple[int, str]:
    """Run the command; gives its exit code and output."""

    def work() -> tuple[int, str]:
        command = [sys.executable, "-m", "berth", "--runtime-dir", str(stage.world.runtime), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout

    return await run_in_thread("operator", work)


async def answer(stage: Stage, *words: str) -> Any:
    """Run the command for its JSON."""
    return json.loads((await berth(stage, *words, "--json"))[1])


async def test_command_follows_a_pod(stages: Stages) -> None:
    """Before, while and after a pod has its NIC, the command tells what is so."""

    stage = await stages(nics=2)
    await until_well(stage)
    free = await answer(stage, "devices")
    assert free["by"] == "daemon"
    assert {d["ifname"]: d["held_by"] for d in free["devices"] if d["offered"]} == {
        "nic0": [],
        "nic1": [],
    }
    code, text = await berth(stage, "why", "default/one")
    assert (code, "no pod, claim or device of this node is so called" in text) == (1, True)

    pod = await start_pod(stage, "one")
    (hold,) = (await answer(stage, "holds"))["holds"]
    assert (hold["claim"], hold["pods"], hold["stage"]) == ("default/one", ["one"], "attached")
    code, text = await berth(stage, "why", "one")
    assert (code, "is in the pod as net1: nothing of ours is missing" in text) == (0, True)
    held = (await answer(stage, "why", hold["device"]))["found"][0]
    assert held["kind"] == "device"
    assert held["device"]["held_by"] == ["default/one"]

    await stage.pods.stop(pod, stage.kubelet)
    assert (await answer(stage, "holds"))["holds"] == []
    await until_well(stage)


async def until_well(stage: Stage) -> None:
    """Wait until the daemon has no trouble."""

    async def well() -> bool:
        return (await berth(stage, "status"))[0] == 0

    await until(well)


async def test_command_tells_why_a_pod_waits(stages: Stages) -> None:
    """A refused claim is told with its faults, and the pod by its name."""

    stage = await stages()
    name = schedule(stage, "bad", addresses=[{"address": "192.0.2.300/24"}])
    with pytest.raises(RemoteProtocolError, match=r"192\.0\.2\.300"):
        await stage.pods.start(name, stage.kubelet)
    code, text = await berth(stage, "why", "default/bad")

    assert code == 0
    assert text.startswith("pod default/bad\n")
    assert "was refused" in text
    assert "addresses[0].address" in text


async def test_command_reloads(stages: Stages) -> None:
    """A good file takes effect, a bad one is told and changes nothing."""

    stage = await stages(nics=2)
    stage.configure({"nic": {"group": [GROUP]}, "nri": {"timeout_s": 1.25}})
    code, text = await berth(stage, "reload")
    assert code == 0
    assert "[nri] timeout_s was 1.5, is 1.25" in text

    stage.configure({"nic": {"group": [GROUP], "enabeld": True}})
    code, text = await berth(stage, "reload")
    assert (code, "enabeld is unknown" in text) == (1, True)
    offered = [d for d in (await answer(stage, "devices"))["devices"] if d["offered"]]
    assert len(offered) == 2


@pytest.mark.slow
async def test_word_of_a_person_against_a_device_outlives_a_crash(stages: Stages) -> None:
    """It was on disk before it was answered; the next daemon says the same before it serves."""

    stage = await stages()
    (device,) = (d for d in (await answer(stage, "devices"))["devices"] if d["offered"])
    assert device["verdict"]["status"] != "unhealthy"
    code, text = await berth(stage, "health", "set", "nic0", "loose-cable")
    assert (code, f"{device['name']} is unhealthy (loose-cable) now" in text) == (0, True)
    await stage.berthd.kill()
    await stage.start()

    code, text = await berth(stage, "health")
    assert (code, f"{device['name']} is unhealthy (loose-cable)" in text) == (1, True)
    (found,) = (await answer(stage, "why", "nic0"))["found"]
    assert found["device"]["verdict"]["reason"] == "loose-cable"
    assert (await berth(stage, "health", "clear", "nic0"))[0] == 0
    assert (await berth(stage, "health"))[0] == 0
