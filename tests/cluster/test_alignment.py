"""A GPU and a NIC of one PCIe root, out of four pairs: by single values, lists and derived ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.api import Object
from tests.cluster.bed import Bed, Cluster
from tests.cluster.claimforms import request
from tests.cluster.gatedsite import gated_cluster, site_in
from tests.cluster.pairmachine import (
    CARDS,
    EVERY,
    ROOTS,
    SETTINGS,
    PairMachine,
    gpu,
    nic,
    root_of,
)
from tests.cluster.site import PodView, Site
from tests.cluster.test_credentials import slice_versions
from tests.nvml import need_compiler

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"
LISTS = "[dra]\nlists = true\n"
VALUES = {PCIE_ROOT: {"string": ROOTS[1]}, NUMA_NODE: {"int": 1}}
AS_LISTS = {PCIE_ROOT: {"strings": [ROOTS[1]]}, NUMA_NODE: {"ints": [1, 0]}}


@pytest.fixture(name="machine")
def _machine() -> Iterator[PairMachine]:
    """Four pairs."""
    need_compiler()
    with tempfile.TemporaryDirectory(prefix="berth-pairs-", dir="/var/tmp") as folder:
        yield PairMachine(Path(folder))


@pytest.fixture(name="gated", scope="module")
def _gated(bed: Bed) -> Iterator[Cluster]:
    """A cluster that takes lists and derived attributes."""
    with gated_cluster(bed, "DRAListTypeAttributes", "DRADerivedAttributes") as cluster:
        yield cluster


@pytest.fixture(name="open_site")
def _open_site(gated: Cluster) -> Iterator[Site]:
    """A site in it."""
    with site_in(gated) as site:
        yield site


def start(site: Site, machine: PairMachine, more: str = "") -> dict[str, Object]:
    """Start the daemon on that machine; gives what it offers."""
    config = f"{more}{machine.config}{SETTINGS}"
    site.node.start_berthd(config, command=machine.command, activated=True).wait_ready()
    site.wait_registered()
    return site.wait_offered(EVERY)


def places(offered: Mapping[str, Object], device: str) -> Object:
    """What a device says of where it is."""
    return {name: offered[device]["attributes"].get(name) for name in (PCIE_ROOT, NUMA_NODE)}


def pair(site: Site, name: str, attribute: str = "", **gpu_wish: object) -> str:
    """Make a claim for a GPU and a NIC, which have an attribute in common if one is named."""
    asked = [request("gpu", of="gpu", **gpu_wish), request("nic", of="nic-vfio")]
    rules = [{"requests": ["gpu", "nic"], "matchAttribute": attribute}] if attribute else []
    return site.claim(name, *asked, constraints=rules)


def given(site: Site, name: str) -> dict[str, int]:
    """The root of what a claim was given, by request."""
    results = site.api.get(site.claim_path(name))["status"]["allocation"]["devices"]["results"]
    return {result["request"]: root_of(result["device"]) for result in results}


def seen(pod: PodView) -> tuple[set[str], set[str]]:
    """The GPUs and the groups of NICs whose nodes the container has."""
    script = "cd /dev; ls -d nvidia[0-9] vfio/[0-9]* 2>/dev/null; true"
    names = set(pod.run("sh", "-c", script).split())
    return ({n for n in names if n.startswith("nvidia")}, {n for n in names if "/" in n})


def test_gpu_and_nic_of_one_root_are_given_together(site: Site, machine: PairMachine) -> None:
    """Four claims find the four pairs, where the first of each kind are of different roots."""

    offered = start(site, machine)
    assert places(offered, gpu(1)) == places(offered, nic(1)) == VALUES
    pair(site, "anyhow")
    anyhow = site.run("anyhow", "anyhow")
    assert len(set(given(site, "anyhow").values())) == 2
    anyhow.delete()
    site.api.delete(site.claim_path("anyhow"))

    pods = {}
    for name in ("one", "two", "three", "four"):
        pair(site, name, PCIE_ROOT)
        pods[name] = site.run(name, name)

    roots = {name: given(site, name) for name in pods}
    assert all(len(set(root.values())) == 1 for root in roots.values())
    assert {root["gpu"] for root in roots.values()} == {0, 1, 2, 3}
    for name, pod in pods.items():
        number = roots[name]["gpu"]
        assert seen(pod) == ({f"nvidia{number}"}, {f"vfio/{40 + number}"})
    pods["three"].delete()
    site.api.delete(site.claim_path("three"))
    site.claim("lone", request("nic", of="nic-vfio"))
    site.run("lone", "lone")
    pair(site, "five", PCIE_ROOT)
    waiting = site.create("five", "five")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")


def test_lists_are_not_sent_again_to_a_server_that_refuses_them(
    site: Site, machine: PairMachine
) -> None:
    """Its gate is off: every device is offered all the same, by single values, and it is said."""

    offered = start(site, machine, LISTS)

    assert places(offered, gpu(1)) == places(offered, nic(1)) == VALUES
    assert len(site.log_lines("lists are not published")) == 1
    assert "its feature gate DRAListTypeAttributes is off" in site.berth("devices", "--json")
    pair(site, "near", PCIE_ROOT)
    site.run("near", "near")
    assert len(set(given(site, "near").values())) == 1


def test_lists_align_by_what_they_have_in_common(open_site: Site, machine: PairMachine) -> None:
    """Of two nodes of one socket the other's NIC will do, and no farther one; by root its own."""

    offered = start(open_site, machine, LISTS)
    assert places(offered, gpu(1)) == places(offered, nic(1)) == AS_LISTS
    assert not open_site.log_lines("lists are not published")
    for name, attribute, shared in (("root", PCIE_ROOT, {2}), ("node", NUMA_NODE, {2, 3})):
        open_site.claim(
            name,
            request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[2].uuid}"'),
            request("nic", of="nic-vfio"),
            constraints=[{"requests": ["gpu", "nic"], "matchAttribute": attribute}],
        )
        pod = open_site.run(name, name)
        roots = given(open_site, name)
        assert (roots["gpu"], roots["nic"]) == (2, min(shared, key=nic)), name
        pod.delete()
        open_site.api.delete(open_site.claim_path(name))


def test_lists_are_written_once(open_site: Site, machine: PairMachine) -> None:
    """The next daemon finds them as they are, and one that is told otherwise takes them away."""

    start(open_site, machine, LISTS)
    before = slice_versions(open_site)
    start(open_site, machine, LISTS)
    open_site.wait_log("registered with kubelet")
    assert slice_versions(open_site) == before
    start(open_site, machine)
    open_site.wait_same("places", lambda: places(open_site.wait_offered(EVERY), nic(1)), VALUES)


def test_derived_attribute_aligns_by_what_a_claim_makes_of_others(
    open_site: Site, machine: PairMachine
) -> None:
    """By socket, which no device tells: a NIC of the other node in it is taken."""

    start(open_site, machine)
    half = 'device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) / 2'
    socket = {"derivedAttributes": [{"name": "derived/socket", "expression": half}]}
    open_site.claim(
        "near",
        request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[0].uuid}"', **socket),
        request("nic", of="nic-vfio", **socket),
        constraints=[{"requests": ["gpu", "nic"], "matchAttribute": "derived/socket"}],
    )

    open_site.run("near", "near")

    assert given(open_site, "near") == {"gpu": 0, "nic": 1}
