"""The newest answer of nvidia-ctk, and when there is none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import attrs
import trio

from berth.config.gpu import CdiSource
from berth.host.nvidiafiles import NodeFacts, NvidiaFiles
from berth.node.nvidiatool import NvidiaTool
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


async def test_answer_about_another_driver_is_not_used_while_the_tool_is_asked(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    """It names libraries that an update has taken away; berth's own list has those of now."""

    tool = tmp_path / "nvidia-ctk"
    tool.write_text(f"#!/bin/sh\necho '{json.dumps(ANSWER)}'\n")
    tool.chmod(0o755)
    told: Latest[int] = Latest(0)

    def changed() -> None:
        told.set(told.get() + 1)

    asked = NvidiaTool(Files(), aside=run_in_thread, changed=changed, find=lambda: str(tool))
    nursery.start_soon(asked.run)
    asked.see((gpu(0),), DRIVER, CdiSource.AUTO)
    await told.wait_value(lambda times: times == 1)
    assert asked.answer is not None

    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    asked.see((gpu(0),), UPDATED, CdiSource.AUTO)
    with trio.fail_after(10):
        await told.wait_value(lambda times: times == 2)

    assert asked.answer is None
