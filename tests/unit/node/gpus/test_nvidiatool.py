"""The newest answer of nvidia-ctk, and when there is none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.config.gpu import CdiSource
from berth.host.nvidiafiles import NodeFacts, NvidiaFiles
from berth.model.gpu import Driver
from berth.node.gpus.nvidiatool import NvidiaTool
from berth.runtime.latest import Latest
from berth.runtime.threads import run_in_thread
from tests.unit.gpu.machine import DRIVER, facts, gpu, uuid_of

ANSWER = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": uuid_of(0), "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
    ],
    "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]},
}


UPDATED = attrs.evolve(DRIVER, version="590.10")


class Files(NvidiaFiles):
    """A machine of which nothing is read."""

    def read(self, *, version: str, addresses: Iterable[str] = ()) -> NodeFacts:
        """Eight GPUs."""
        assert version in {DRIVER.version, UPDATED.version}
        assert not addresses
        return facts()


class Bench:
    """One that asks a tool of which the test says what it does."""

    def __init__(self, folder: Path) -> None:
        self._tool = folder / "nvidia-ctk"
        self.begun = folder / "begun"
        self.told: Latest[int] = Latest(0)
        self.asked = NvidiaTool(
            Files(), aside=run_in_thread, changed=self._changed, find=lambda: str(self._tool)
        )

    def _changed(self) -> None:
        self.told.set(self.told.get() + 1)

    def does(self, script: str) -> None:
        """Let the tool be this shell script, which leaves a file when it is run."""
        self._tool.write_text(f"#!/bin/sh\ntouch {self.begun}\n{script}\n")
        self._tool.chmod(0o755)

    def see(self, driver: Driver = DRIVER) -> None:
        """Let the GPU be there, with a driver."""
        self.asked.see((gpu(0),), driver, CdiSource.AUTO)


@pytest.fixture
async def bench(tmp_path: Path, nursery: trio.Nursery) -> Bench:
    """One whose tool is not there yet."""
    made = Bench(tmp_path)
    nursery.start_soon(made.asked.run)
    return made


WELL = f"echo '{json.dumps(ANSWER)}'"
GONE = {"containerEdits": {"mounts": [{"hostPath": "/no/such", "containerPath": "/x"}]}}

RUBBISH = {
    "fails": ("echo 'libnvidia-ml.so.1: not found' >&2; exit 1", "not found"),
    "knows no such flag": (
        "echo 'flag provided but not defined: -device-name-strategy' >&2; exit 1",
        "flag provided but not defined",
    ),
    "is killed": ("kill -9 $$", "exit status -9"),
    "prints nothing": ("true", "not one JSON document"),
    "prints rubbish": ("head -c 100000 /dev/urandom", "not one JSON document"),
    "prints two": (f"{WELL}; {WELL}", "not one JSON document"),
    "prints without end": ("exec cat /dev/zero", "prints more than"),
    "names missing files": (f"echo '{json.dumps({**ANSWER, **GONE})}'", "/no/such"),
    "is no program": ("#", "not one JSON document"),
}


async def test_answer_is_taken_when_it_comes(bench: Bench) -> None:
    """What looks at the GPUs is told, and asked for nothing meanwhile."""

    bench.does(WELL)
    bench.see()

    await bench.told.wait_value(lambda times: times == 1)
    assert bench.asked.answer is not None
    assert bench.asked.answer.devices.keys() == {uuid_of(0)}


@pytest.mark.parametrize("what", RUBBISH)
async def test_tool_of_no_use_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """The list of berth's own stays, and the tool is asked again when something is another."""

    script, reason = RUBBISH[what]
    bench.does(script)
    bench.see()
    with trio.fail_after(60):
        while not caplog.records:  # noqa: ASYNC110 - another process ends
            await trio.sleep(0.01)
    bench.begun.unlink()
    bench.see()
    await wait_all_tasks_blocked(0.05)

    (record,) = caplog.records
    assert record.getMessage() == "nvidia-ctk's answer is not used, berth's own list is"
    assert reason in str(record.__dict__["berth_fields"]["reason"])
    assert (bench.asked.answer, bench.told.get()) == (None, 0)
    assert not bench.begun.exists()

    bench.does(WELL)
    bench.see(UPDATED)
    await bench.told.wait_value(lambda times: times == 1)
    assert bench.asked.answer is not None


async def test_answer_about_another_driver_is_not_used_while_the_tool_is_asked(
    bench: Bench,
) -> None:
    """It names libraries that an update has taken away; berth's own list has those of now."""

    bench.does(WELL)
    bench.see()
    await bench.told.wait_value(lambda times: times == 1)
    assert bench.asked.answer is not None

    bench.does("exec sleep 60")
    bench.see(UPDATED)
    with trio.fail_after(10):
        await bench.told.wait_value(lambda times: times == 2)

    assert bench.asked.answer is None
