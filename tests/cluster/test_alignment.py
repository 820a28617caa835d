"""A GPU and a NIC of one PCIe root, out of four pairs: by single values, lists and derived ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.gates import Gates
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


def test_lists_are_published_as_far_as_the_server_takes_them(
    gated_site: Site, gates: Gates, machine: PairMachine
) -> None:
    """Where its gate is off each device is offered all the same, by single values, and it is said.

    Either way a GPU and a NIC of one root are found.
    """

    offered = start(gated_site, machine, LISTS)

    taken = gates is Gates.ALL_ALPHA
    assert places(offered, gpu(1)) == places(offered, nic(1)) == (AS_LISTS if taken else VALUES)
    assert len(gated_site.log_lines("lists are not published")) == (0 if taken else 1)
    told = gated_site.berth("devices", "--json")
    assert ("list-attributes is off: refused by the server" in told) is not taken
    pair(gated_site, "near", PCIE_ROOT)
    gated_site.run("near", "near")
    assert len(set(given(gated_site, "near").values())) == 1


def test_lists_align_by_what_they_have_in_common(alpha_site: Site, machine: PairMachine) -> None:
    """Of two nodes of one socket the other's NIC will do, and no farther one; by root its own."""

    offered = start(alpha_site, machine, LISTS)
    assert places(offered, gpu(1)) == places(offered, nic(1)) == AS_LISTS
    assert not alpha_site.log_lines("lists are not published")
    on_node = '2 in device.attributes["resource.kubernetes.io"].numaNode'
    third = f'own.uuid == "{CARDS[2].uuid}" && {on_node}'
    for name, attribute, shared in (("root", PCIE_ROOT, {2}), ("node", NUMA_NODE, {2, 3})):
        alpha_site.claim(
            name,
            request("gpu", of="gpu", cel=third),
            request("nic", of="nic-vfio"),
            constraints=[{"requests": ["gpu", "nic"], "matchAttribute": attribute}],
        )
        pod = alpha_site.run(name, name)
        roots = given(alpha_site, name)
        assert (roots["gpu"], roots["nic"]) == (2, min(shared, key=nic)), name
        (told,) = pod.metadata(f"resourceclaims/{name}/gpu")[0]["requests"]
        assert told["devices"][0]["attributes"][NUMA_NODE] == {"int": 2}
        pod.delete()
        alpha_site.api.delete(alpha_site.claim_path(name))


def test_lists_are_written_once(alpha_site: Site, machine: PairMachine) -> None:
    """The next daemon finds them as they are, and one that is told otherwise takes them away."""

    start(alpha_site, machine, LISTS)
    before = slice_versions(alpha_site)
    start(alpha_site, machine, LISTS)
    alpha_site.wait_log("registered with kubelet")
    assert slice_versions(alpha_site) == before
    start(alpha_site, machine)
    alpha_site.wait_same("places", lambda: places(alpha_site.wait_offered(EVERY), nic(1)), VALUES)


def test_derived_attribute_aligns_by_what_a_claim_makes_of_others(
    alpha_site: Site, machine: PairMachine
) -> None:
    """By socket, which no device tells: a NIC of the other node in it is taken."""

    start(alpha_site, machine)
    half = 'device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) / 2'
    socket = {"derivedAttributes": [{"name": "derived/socket", "expression": half}]}
    alpha_site.claim(
        "near",
        request("gpu", of="gpu", cel=f'own.uuid == "{CARDS[0].uuid}"', **socket),
        request("nic", of="nic-vfio", **socket),
        constraints=[{"requests": ["gpu", "nic"], "matchAttribute": "derived/socket"}],
    )

    alpha_site.run("near", "near")

    assert given(alpha_site, "near") == {"gpu": 0, "nic": 1}
