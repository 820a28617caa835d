"""CPUs and a VF of one NUMA node for one pod, by kubelet's own managers, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.claimforms import request
from tests.cluster.pods import container
from tests.cluster.site import PodView
from tests.cluster.test_peripherals import wait_allocatable
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

RESOURCES = {0: "berth.dev/near", 1: "berth.dev/far"}
VFS = {0: "nic-0000-21-10-0", 1: "nic-0000-41-10-0"}
ROOTS = {0: "pci0000:20", 1: "pci0000:40"}
SETTINGS = f"""{SLOW}
[[nic.group]]
name = "near"
match = {{ pf = ["ens1"] }}
door = "both"
attach = "nri"
[[nic.group]]
name = "far"
match = {{ pf = ["ens2"] }}
door = "both"
attach = "nri"
"""
ALIGNED = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    # The policy wants some for itself; 1 is left on node 0, and 2 and 3 on node 1.
    "reservedSystemCPUs": "0",
}


@pytest.fixture(name="aligned")
def _aligned(site: LabSite) -> Iterator[LabSite]:
    """A site whose kubelet gives whole CPUs, and all of a pod's from one NUMA node."""
    node = site.node
    node.make_vfs("ens1", 1)
    node.make_vfs("ens2", 1)
    node.configure_kubelet(**ALIGNED)
    node.start_berthd(SETTINGS)
    for resource in RESOURCES.values():
        wait_allocatable(site, 1, resource)
    yield site
    site.cluster.drain(node.name)
    node.configure_kubelet()


def told_of(site: LabSite, pod: PodView) -> dict[str, Any]:
    """What `berth topology` tells of the one container of a pod."""
    answer = json.loads(site.berth("topology", f"{site.namespace}/{pod.name}", "--json"))
    (found,) = answer["pods"]
    (main,) = found["containers"]
    told: dict[str, Any] = main
    return told


def test_pod_gets_cpus_of_its_vfs_node(aligned: LabSite) -> None:
    """On either node; kubelet knows the VF's from what our plugin tells."""

    for numa, resource in RESOURCES.items():
        limits = {"cpu": "1", "memory": "64Mi", resource: "1"}
        main = container("main", resources={"limits": limits})
        pod = aligned.run(f"on-{numa}", containers=[main])

        given = pod.run("cat", "/sys/fs/cgroup/cpuset.cpus.effective").strip()
        assert pod.links() == {"lo", "eth0", "net1"}
        folder = f"/sys/devices/system/cpu/cpu{given}/node{numa}"
        assert aligned.node.run("ls", "-d", folder).strip() == folder
        told = told_of(aligned, pod)
        assert (told["cpus"], told["cpus_of"]) == ([int(given)], "container")
        assert [(one["name"], one["numa"]) for one in told["devices"]] == [(VFS[numa], [numa])]
        assert told["numa"]["says"] == f"on NUMA node {numa}"
        assert told["pcie"]["roots"] == [ROOTS[numa]]


def test_claim_of_both_nodes_is_told_as_spread(aligned: LabSite) -> None:
    """Kubelet's managers do not look at claims, and nothing keeps a user from asking so."""

    wanted = [request(group, cel=f'own.group == "{group}"') for group in ("near", "far")]
    aligned.claim("both", *wanted)
    pod = aligned.run("torn", "both")

    told = told_of(aligned, pod)

    assert {one["name"]: one["numa"] for one in told["devices"]} == {VFS[0]: [0], VFS[1]: [1]}
    assert (told["numa"]["verdict"], told["numa"]["nodes"]) == ("spread", [0, 1])
    assert (told["pcie"]["verdict"], told["pcie"]["roots"]) == ("spread", [*ROOTS.values()])
    nodes = json.loads(aligned.berth("topology", "--json"))["numa"]
    assert [(node["id"], node["cpus"]) for node in nodes] == [(0, [0, 1]), (1, [2, 3])]
    assert all(node["memory_bytes"] for node in nodes)
    aligned.berth("topology", "--svg", "/root/node.svg")
    assert "NUMA spread" in aligned.node.read("/root/node.svg")
