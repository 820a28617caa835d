"""What `berth topology` tells of a node whose kubelet gives whole CPUs and memory away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.pods import container
from tests.cluster.site import LAB, PodView, Site, device
from tests.cluster.test_peripherals import wait_allocatable

CONSOLE = """
[[generic]]
name = "console"
match = { path = "/dev/tty10" }
door = "plugin"
"""
ALIGNED = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    # The policy wants some for itself.
    "reservedSystemCPUs": "0",
}
MEMORY = {
    "memoryManagerPolicy": "Static",
    # All that is kept from pods: for eviction, as the bed's kubelet does, and for the system.
    "systemReserved": {"memory": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "150Mi"}}],
}


@contextlib.contextmanager
def kubelet_set(site: Site, **more: object) -> Iterator[None]:
    """A kubelet that gives whole CPUs, and memory of one NUMA node, for the time of a block."""
    site.node.configure_kubelet(**ALIGNED, **MEMORY, **more)
    yield
    site.cluster.drain(site.node.name)
    site.node.configure_kubelet()


@pytest.fixture(name="aligned")
def _aligned(site: Site) -> Iterator[Site]:
    """A site with such a kubelet, and a device at each door."""
    with kubelet_set(site):
        site.open(f"{LAB}{CONSOLE}")
        wait_allocatable(site, 1, "berth.dev/console")
        yield site


def told_of(site: Site, pod: PodView) -> dict[str, Any]:
    """What the command tells of the one container of a pod."""
    answer = json.loads(site.berth("topology", f"{site.namespace}/{pod.name}", "--json"))
    (found,) = answer["pods"]
    (main,) = found["containers"]
    told: dict[str, Any] = main
    return told


def test_container_has_its_cpus_memory_and_devices_of_both_doors(aligned: Site) -> None:
    """On one NUMA node, as there is but one; who shares the node's CPUs has none of its own."""

    limits = {"cpu": "1", "memory": "64Mi", "berth.dev/console": "1"}
    resources = {"limits": limits, "claims": [{"name": "uplink"}]}
    aligned.claim("uplink")
    pod = aligned.run("whole", "uplink", containers=[container("main", resources=resources)])
    idle = aligned.run("idle")

    main = told_of(aligned, pod)
    cpus = pod.run("cat", "/sys/fs/cgroup/cpuset/cpuset.cpus").strip()
    assert (main["cpus"], main["cpus_of"]) == ([int(cpus)], "container")
    assert [(one["type"], one["bytes"], one["numa"]) for one in main["memory"]] == [
        ("memory", 64 << 20, [0])
    ]
    assert [(one["name"], one["door"], one["claim"]) for one in main["devices"]] == [
        ("console-tty10", "plugin", ""),
        (device("nic0"), "dra", f"{aligned.namespace}/uplink"),
    ]
    assert main["numa"]["says"] == "on NUMA node 0"
    assert told_of(aligned, idle)["cpus_of"] == "node"
    shown = aligned.berth("topology")
    assert "main: aligned on NUMA node 0" in shown
    assert f"claim {aligned.namespace}/uplink" in shown
    aligned.berth("topology", "--svg", "/tmp/node.svg")
    assert f"{aligned.namespace}/whole/main" in aligned.node.path("/tmp/node.svg").read_text()


def test_topology_while_kubelet_is_away_tells_the_rest(site: Site) -> None:
    """The devices and the machine; of containers that nobody knows."""

    site.open()
    site.node.kubelet.terminate()

    answer = json.loads(site.berth("topology", "--json"))

    assert device("nic0") in [one["name"] for one in answer["devices"]]
    assert (answer["pods"], len(answer["warnings"])) == ([], 1)
    assert "nobody says what containers have" in answer["warnings"][0]


def test_pod_that_kubelet_manages_as_a_whole(alpha_site: Site) -> None:
    """Its CPUs and memory are its own; containers without an exclusive part share them."""

    site = alpha_site
    with kubelet_set(site, topologyManagerScope="pod"):
        site.open()
        limits = {"limits": {"cpu": "1", "memory": "128Mi"}}
        site.run("whole", containers=[container("main"), container("side")], resources=limits)

        answer = json.loads(site.berth("topology", f"{site.namespace}/whole", "--json"))

    (told,) = answer["pods"]
    assert len(told["cpus"]) == 1
    assert [one["bytes"] for one in told["memory"]] == [128 << 20]
    for each in told["containers"]:
        assert (each["cpus"], each["cpus_of"]) == (told["cpus"], "pod")
        assert (each["memory_of"], each["numa"]["says"]) == ("pod", "on NUMA node 0")
