"""Eight GPUs of the stand-in: how soon they are offered, and what one that hangs costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from berth.rehearsal.nvml.cards import whole
from berth.rehearsal.nvml.world import FOR_EVER
from tests.bench.conftest import Report
from tests.bench.figures import Aim, Row
from tests.cluster.api import Object
from tests.cluster.bed import Cluster
from tests.cluster.gpumachine import GpuMachine
from tests.cluster.node import SLICES, Node
from tests.nvml import need_compiler

CARDS = tuple(whole(number, f"0000:{0x1B + number:02x}:00.0") for number in range(8))
STARTS = 5


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    """A node with kubelet 1.37 and containerd 2.4."""
    made = cluster.node("1.37+2.4")
    yield made
    cluster.discard(made)


@pytest.fixture
def machine() -> Iterator[GpuMachine]:
    """Eight GPUs."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-gpus-", dir="/var/tmp") as folder:
        yield GpuMachine(Path(folder), CARDS)


def test_start(report: Report, cluster: Cluster, node: Node, machine: GpuMachine) -> None:
    """From the start to READY, and to the slices with all that answer."""

    whole_ready, whole_offered = _starts(cluster, node, machine, 8)
    machine.show((*CARDS[:7], attrs.evolve(CARDS[7], hang_ms=FOR_EVER)))
    ready, offered = _starts(cluster, node, machine, 7)
    node.berthd.terminate(limit_s=20)
    machine.show(CARDS)

    report(
        Row(
            name="start to READY with eight GPUs, one of which hangs",
            unit="s",
            samples=ready,
            aims=(Aim(of="p50", most=1.0),),
            beside=whole_ready,
            beside_name="all well",
        )
    )
    report(
        Row(
            name="start to the slices with the other seven",
            unit="s",
            samples=offered,
            aims=(Aim(of="p50", most=2.0),),
            beside=whole_offered,
            beside_name="all well",
        )
    )


def _starts(
    cluster: Cluster, node: Node, machine: GpuMachine, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds to READY, and to slices with so many GPUs that nobody had published before."""
    ready, offered = [], []
    for _ in range(STARTS):
        if "berthd" in node.box.daemons:
            node.berthd.terminate(limit_s=20)
        node.run("rm", "-f", "/var/lib/berth/gpus.json")
        for name in cluster.api.get(SLICES)["items"]:
            cluster.api.delete(f"{SLICES}/{name['metadata']['name']}")
        began = time.perf_counter()
        node.start_berthd(machine.config, command=machine.command, activated=True).wait_ready()
        ready.append(time.perf_counter() - began)
        cluster.api.wait_all(
            SLICES, lambda slices: _count(slices) == count, what=f"{count} GPUs", limit_s=60
        )
        offered.append(time.perf_counter() - began)
    return tuple(ready), tuple(offered)


def _count(slices: dict[str, Object]) -> int:
    return sum(len(item["spec"].get("devices") or ()) for item in slices.values())
