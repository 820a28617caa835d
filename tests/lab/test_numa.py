"""CPUs and a VF of one NUMA node for one pod, by kubelet's own managers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.pods import container
from tests.cluster.test_peripherals import wait_allocatable
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

RESOURCES = {0: "berth.dev/near", 1: "berth.dev/far"}
SETTINGS = f"""{SLOW}
[[nic.group]]
name = "near"
match = {{ pf = ["ens1"] }}
door = "plugin"
attach = "nri"
[[nic.group]]
name = "far"
match = {{ pf = ["ens2"] }}
door = "plugin"
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
