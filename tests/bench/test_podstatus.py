"""How soon a pod's own status says that its device is sick, by a real kubelet."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.control import ControlClient
from tests.bench.conftest import Report
from tests.bench.figures import Aim, Row
from tests.cluster.api import Object
from tests.cluster.bed import Cluster
from tests.cluster.claimforms import request
from tests.cluster.session import made_namespace
from tests.cluster.site import PodView, Site

DEVICE = "null-full"
CONFIG = """
[[generic]]
name = "null"
match = { path = "/dev/full" }
"""
SAMPLES = 60
PAUSE_S = 1.3
SETTLE_S = 10.0
# Kubelet lets a second pass between two syncs of a pod: changes 0.3 s apart were seen each second.
LIMIT_S = 600.0


@pytest.fixture
def user(cluster: Cluster) -> Iterator[tuple[Path, PodView]]:
    """The daemon's folder on a node with kubelet 1.37, and a pod there that has the device."""
    node = cluster.node("1.37+2.4")
    with contextlib.contextmanager(made_namespace)(cluster) as namespace:
        site = Site(cluster, node, namespace)
        node.start_berthd(CONFIG, activated=True).wait_ready()
        site.wait_registered()
        site.wait_offered((DEVICE,))
        site.claim("device", request("device", of="generic"))
        yield node.path("/run/berth"), site.run("user", "device")
    cluster.discard(node)


def test_verdict_to_status(report: Report, cluster: Cluster, user: tuple[Path, PodView]) -> None:
    """From the operator's word, with the file that keeps it, to a watch of the pod."""

    folder, pod = user
    collection, _, name = pod.path.rpartition("/")
    seen = cluster.api.snapshots(collection, limit_s=LIMIT_S, fieldSelector=f"metadata.name={name}")
    times = []
    time.sleep(SETTLE_S)  # a pod that has just started is synced a few times more
    with contextlib.closing(ControlClient(folder)) as control:
        for number in range(SAMPLES):
            time.sleep(PAUSE_S)
            message = f"sample {number:03}"
            began = time.monotonic()
            control.ask("health.set", device=DEVICE, reason="fan-broken", message=message)
            next(held for held in seen if message in _told(held[name]))
            times.append((time.monotonic() - began) * 1000)

    report(
        Row(
            name="verdict to the status of a pod",
            unit="ms",
            samples=tuple(times),
            aims=(Aim(of="p99", most=300.0),),
            note=f"longest {max(times):.0f} ms; a write of the file that keeps it is in it",
        )
    )


def _told(pod: Object) -> str:
    (status,) = pod["status"]["containerStatuses"]
    listed = status.get("allocatedResourcesStatus", ())
    return " ".join(each.get("message", "") for one in listed for each in one["resources"])
