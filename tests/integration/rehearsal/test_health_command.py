"""A program of the operator's says how a device is, and the whole daemon goes by it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.rehearsal import devicechecks
from berth.rehearsal.devicechecks import ask
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import until

RESOURCE = "berth.dev/full"
STOP_S = 5.0


def config(program: Path) -> Mapping[str, Any]:
    """A device of both doors, about which a program is asked each second."""
    health = {"command": [str(program), "{node}"], "interval_s": 1, "deadline_s": 30}
    group = {"name": "full", "match": {"path": "/dev/full"}, "door": "both", "health": health}
    return {"generic": [group]}


def says(program: Path, script: str) -> None:
    """Put another program in the place of the one that is there."""
    new = program.with_suffix(".new")
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    new.rename(program)


async def verdict(stage: Stage) -> Mapping[str, Any]:
    """What the daemon says of the device."""
    answer = await run_in_thread("control", ask, stage.world.runtime, "health.list")
    found: Mapping[str, Any]
    (found,) = answer["devices"]
    return found


async def wait_verdict(stage: Stage, status: str) -> Mapping[str, Any]:
    """Wait until it says this."""

    async def is_so() -> bool:
        return bool((await verdict(stage))["status"] == status)

    await until(is_so)
    return await verdict(stage)


async def test_word_of_a_program_takes_a_device_from_pods(stages: Stages, tmp_path: Path) -> None:
    """Kubelet is told, in the program's words a person is; and its hanging holds up no stop."""
    program = tmp_path / "full-ok"
    says(program, "exit 0")
    stage = await stages(0, config=config(program), start=False)
    await stage.start()
    await wait_verdict(stage, "healthy")
    await devicechecks.allocatable(stage, RESOURCE, 1)

    says(program, '[ "$1" = /dev/full ] && echo "the disk behind it is worn"; exit 1')

    sick = await wait_verdict(stage, "unhealthy")
    assert (sick["reason"], sick["message"][:26]) == ("probe-failed", "the disk behind it is worn")
    await devicechecks.allocatable(stage, RESOURCE, 0)

    says(program, f"trap '' TERM; touch {tmp_path}/hangs; sleep 600; sleep 600")
    await until((tmp_path / "hangs").exists)
    began = time.monotonic()
    await stage.stop()
    assert time.monotonic() - began < STOP_S
