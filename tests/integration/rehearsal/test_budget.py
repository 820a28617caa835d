"""What the daemon costs a node: memory, inotify instances, and what it loads, and when.

The limits are part of the repository: whoever raises one says why.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from berth.rehearsal.kubelet import Act
from berth.rehearsal.stage import Stage
from berth.runtime.threads import run_in_thread
from tests.descriptors import inotify_watches
from tests.integration.rehearsal.conftest import Stages
from tests.integration.rehearsal.players import start_pod, until

RSS_LIMIT_MB: Final = {10: 74.0, 11: 74.0, 12: 74.0, 13: 79.0, 14: 85.0}[sys.version_info.minor]
"""Resident memory after READY, and after pods that came and went, by Python's minor version.

The aim is 60. Seen with NICs alone: 59 with CPython 3.10, 62 with 3.11 and 3.12, 67 with Debian
13's 3.13, 74 with 3.14. Of the 62, 19 are pages of shared libraries (grpcio alone 10), 16 the code
and values of berth, 5 what attrs makes for them. The device plugin, GPUs and device nodes added 4
(66 with 3.11), half of it the messages of kubelet's two more interfaces. NVML's bindings, 2 more,
are loaded where a GPU is. Health added 4 more (70): some 60 modules, and what they know of each
device. The page of figures is loaded where somebody wants it. The rest is room for other versions
of libraries.
"""

GROWTH_LIMIT_MB: Final = 3.0
"""By how much it may grow over the first pods: threads start, buffers are made."""

_IMPORT: Final = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


async def rss_mb(stage: Stage) -> float:
    """The daemon's resident memory."""
    text = await run_in_thread("files", _status, stage.berthd.pid)
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text(encoding="ascii")


async def play(stage: Stage, rounds: int) -> None:
    """Let pods with a NIC come and go."""
    await until(lambda: len(stage.cluster.devices()) == 1)
    for number in range(rounds):
        pod = await start_pod(stage, f"pod{number}")
        await stage.pods.stop(pod, stage.kubelet)


async def test_memory_after_ready_and_after_pods(stages: Stages) -> None:
    """It stays below its limit, and does not grow with what came and went."""

    stage = await stages(start=False)
    await stage.start()
    await until(lambda: len(stage.cluster.devices()) == 1)
    ready_mb = await rss_mb(stage)
    await play(stage, 3)
    used_mb = await rss_mb(stage)

    assert ready_mb < RSS_LIMIT_MB
    assert used_mb < RSS_LIMIT_MB
    assert used_mb - ready_mb < GROWTH_LIMIT_MB


async def test_one_inotify_instance_serves_every_door(stages: Stages) -> None:
    """All of root's programs share 128; a folder that several doors watch is watched once."""

    nodes = [
        {"name": name, "match": {"path": f"/dev/{name}"}, "door": "both"}
        for name in ("full", "zero", "random")
    ]
    stage = await stages(config={"generic": nodes}, start=False, held=False, with_nri=False)
    await stage.berthd.start()
    await stage.berthd.wait_ready()
    await until(lambda: stage.count(Act.REGISTERED) == 1 + len(nodes))

    watches = await run_in_thread("files", inotify_watches, stage.berthd.pid)

    assert len(watches) == 1, watches
    assert 1 <= watches[0] <= 8


async def test_nothing_is_loaded_while_it_serves(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade replaces files under a running daemon; and the first pod waits for nobody."""

    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    stage = await stages(start=False)
    await stage.start()
    await play(stage, 1)
    await stage.berthd.terminate()

    started, _, served = stage.berthd.log_text().partition("\nready version=")
    assert "berth.daemon.start" in _IMPORT.findall(started)
    assert _IMPORT.findall(served) == []
