"""Who has what of a node, and whether that lies together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.errors import ConfigError
from berth.model.device import Attribute, Device
from berth.model.numa import NumaNode
from berth.model.provision import MemoryBlock, UnitBlock
from berth.node.views import topology_view
from berth.node.views.alignment import Thing, memory_things, numa_verdict, pcie_verdict
from tests.unit.node.views.fourroots import (
    FAR,
    GPU,
    INVENTORY,
    NEAR,
    PODS,
    SFP,
    claimed,
    container,
    layout,
    near,
    pod,
    torn,
    whole,
)


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    """Where the machine's sysfs is made."""
    return tmp_path / "sys"


def only(answer: Mapping[str, Any], place: int = 0) -> Mapping[str, Any]:
    """A container of the only pod."""
    (found,) = answer["pods"]
    told: Mapping[str, Any] = found["containers"][place]
    return told


@pytest.mark.parametrize(
    ("things", "verdict", "nodes", "says"),
    [
        ([], "none", [], ""),
        ([()], "unknown", [], "nobody says where it is"),
        ([(1,), (1,), ()], "aligned", [1], "on NUMA node 1"),
        ([(0, 1), (1,)], "aligned", [1], "on NUMA node 1"),
        ([(0, 1), (0, 1)], "aligned", [0, 1], "on NUMA nodes 0-1"),
        ([(0,), (1,)], "spread", [0, 1], "over NUMA nodes 0-1: a on 0, b on 1"),
        ([(0, 1), (2,)], "spread", [0, 1, 2], "over NUMA nodes 0-2: a on 0-1, b on 2"),
    ],
)
def test_numa_verdict_is_aligned_when_one_node_is_near_to_all(
    things: list[tuple[int, ...]], verdict: str, nodes: list[int], says: str
) -> None:
    """What nobody knows the place of speaks neither for it nor against it, and is named."""

    named = [Thing(label=label, numa=numa) for label, numa in zip("abc", things, strict=False)]
    told = numa_verdict(named)

    assert (told["verdict"], told["nodes"], told["says"]) == (verdict, nodes, says)
    assert told["unknown"] == [thing.label for thing in named if not thing.numa]


def test_memory_of_two_nodes_is_spread() -> None:
    """It has a part on each, unlike a device, which is near to each."""

    told = numa_verdict(memory_things([MemoryBlock(type="memory", size_bytes=1, numa=(0, 1))]))

    assert told["says"] == "over NUMA nodes 0-1: part of the memory on 0, part of the memory on 1"


def test_pcie_verdict_names_who_is_below_which_root() -> None:
    """What is below none does not count."""

    things = [Thing(label="a", root="r1"), Thing(label="b"), Thing(label="c", root="r0")]

    assert pcie_verdict(things[:2]) == {"verdict": "aligned", "roots": ["r1"], "says": "below r1"}
    assert pcie_verdict(things)["says"] == "c below r0, a below r1"
    assert pcie_verdict(things[1:2])["verdict"] == "none"


def test_container_is_aligned_by_cpus_memory_and_devices_of_both_doors(root: Path) -> None:
    """Shares of one device are one entry; two roots of one node are told beside."""

    main = only(topology_view(layout(root, near())))

    assert (main["cpus"], main["cpus_of"], main["memory_of"]) == ([2, 3], "container", "container")
    gpu, nic = main["devices"]
    assert (gpu["name"], gpu["ids"], gpu["resource"]) == (
        GPU,
        ["GPU-1::0", "GPU-1::1"],
        "berth.dev/gpu",
    )
    assert (nic["name"], nic["claim"], nic["numa"]) == (NEAR, "default/uplink", [0])
    assert (gpu["pcie_root"], nic["pcie_root"]) == ("pci0000:30", "pci0000:20")
    assert main["numa"] == {
        "verdict": "aligned",
        "nodes": [0],
        "says": "on NUMA node 0",
        "unknown": [],
    }
    assert (main["pcie"]["verdict"], main["pcie"]["roots"]) == (
        "spread",
        ["pci0000:20", "pci0000:30"],
    )
    assert (gpu["ours"], nic["ours"]) == (True, True)


def test_container_without_anything_has_no_verdict(root: Path) -> None:
    """It shares CPUs and memory with the whole node."""

    side = only(topology_view(layout(root, near())), 1)

    assert (side["cpus"], side["cpus_of"], side["devices"]) == ([], "node", [])
    assert side["numa"]["verdict"] == side["pcie"]["verdict"] == "none"


def test_spread_container_says_what_is_where(root: Path) -> None:
    """Another plugin's id that is a PCI address is found; another driver's device has no place."""

    answer = topology_view(layout(root, torn()))
    main = only(answer)

    assert main["numa"]["says"] == (
        "over NUMA nodes 0-1: CPUs 8-9 on 0, hugepages-2Mi on 0, 0000:c1:00.0 on 1"
    )
    assert main["numa"]["unknown"] == ["worker-7/tpu-0"]
    others = {one["name"]: one for one in answer["devices"] if not one["ours"]}
    assert others["0000:c1:00.0"]["pcie_root"] == "pci0000:c0"
    assert others["worker-7/tpu-0"]["containers"] == ["default/torn/main"]


def test_other_plugins_word_is_taken_where_the_machine_has_none(root: Path) -> None:
    """Ids that are no addresses have the NUMA nodes that their plugin told kubelet."""

    block = UnitBlock(resource="example.com/gpu", ids=("GPU-9",), numa=(1,))
    lone = pod("lone", container("lone", "main", units=(block,)))

    (device,) = only(topology_view(layout(root, lone)))["devices"]

    assert (device["name"], device["numa"], device["pcie_root"]) == ("GPU-9", [1], "")


def test_nic_of_ours_that_another_plugin_gave_is_one_device(root: Path) -> None:
    """Its id there is the address by which we know it too."""

    block = UnitBlock(resource="intel.com/vf", ids=("0000:a1:00.0",))
    lone = pod("lone", container("lone", "main", units=(block,)))

    answer = topology_view(layout(root, lone))

    (found,) = (one for one in answer["devices"] if one["pci"] == "0000:a1:00.0")
    assert (found["name"], found["containers"]) == (FAR, ["default/lone/main"])
    assert only(answer)["devices"][0]["name"] == "0000:a1:00.0"


def test_pod_managed_as_a_whole_shares_what_no_container_has_alone(root: Path) -> None:
    """Its CPUs are not counted twice, and its memory is everybody's in it."""

    answer = topology_view(layout(root, whole()))
    own, pool = only(answer), only(answer, 1)

    assert (own["cpus"], own["cpus_of"]) == ([4], "container")
    assert (pool["cpus"], pool["cpus_of"]) == ([5, 6], "pod")
    assert (own["memory_of"], pool["memory_of"]) == ("pod", "pod")
    assert answer["pods"][0]["cpus"] == [4, 5, 6]
    assert answer["pods"][0]["numa"]["nodes"] == [1]


def test_pod_is_spread_when_its_containers_are_on_different_nodes(root: Path) -> None:
    """Each container for itself is aligned."""

    both = pod("both", container("both", "a", cpus=(0,)), container("both", "b", cpus=(4,)))

    (told,) = topology_view(layout(root, both))["pods"]

    assert [one["numa"]["verdict"] for one in told["containers"]] == ["aligned", "aligned"]
    assert told["numa"]["says"] == "over NUMA nodes 0-1: CPU 0 on 0, CPU 4 on 1"


def test_devices_are_told_with_their_holders_in_the_order_of_their_roots(root: Path) -> None:
    """A link of no hardware that nobody offers or has is left out."""

    answer = topology_view(layout(root, *PODS))

    names = [one["name"] for one in answer["devices"]]
    assert names == [NEAR, GPU, FAR, "0000:c1:00.0", SFP, "worker-7/tpu-0"]
    by_name = {one["name"]: one for one in answer["devices"]}
    assert by_name[NEAR]["containers"] == by_name[GPU]["containers"] == ["default/near/main"]
    assert (by_name[NEAR]["held_by"], by_name[FAR]["containers"]) == (["default/uplink"], [])
    assert [node["cpus"][0] for node in answer["numa"]] == [0, 4]
    assert [one["name"] for one in answer["pods"]] == ["idle", "near", "torn", "whole"]
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(("numa", "known"), [(1, [1]), (-1, [])])
def test_device_that_is_gone_is_where_its_slice_says(
    numa: int, known: list[int], root: Path
) -> None:
    """Its claim lives on, and so does what was published of it; -1 is no node."""

    told: dict[str, Attribute] = {
        "resource.kubernetes.io/numaNode": numa,
        "resource.kubernetes.io/pcieRoot": "pci0000:99",
    }
    published = Device(name=NEAR, identity="pci", type="nic", group="fast", attributes=told)
    inventory = attrs.evolve(INVENTORY, devices=(published,))

    view = topology_view(layout(root, near(), inventory=inventory, functions={}))

    _, nic = only(view)["devices"]
    assert (nic["numa"], nic["pcie_root"]) == (known, "pci0000:99")


def test_machine_with_one_node_has_everything_there(root: Path) -> None:
    """Its firmware tells no device's node, and there is no other."""

    lone = pod("lone", container("lone", "main", cpus=(0,), claims=(claimed("lone", "main", FAR),)))

    answer = topology_view(layout(root, lone, numa=(NumaNode(id=0, cpus=(0, 1)),), functions={}))

    assert only(answer)["numa"]["says"] == "on NUMA node 0"
    assert {tuple(one["numa"]) for one in answer["devices"]} == {(0,)}


@pytest.mark.parametrize("asked", ["near", "default/near"])
def test_one_pod_is_found_by_its_name(asked: str, root: Path) -> None:
    """With or without its namespace; devices tell of all holders all the same."""

    answer = topology_view(layout(root, *PODS), asked)

    assert [one["name"] for one in answer["pods"]] == ["near"]
    assert any(one["containers"] == ["default/torn/main"] for one in answer["devices"])


@pytest.mark.parametrize("asked", ["other/near", "nobody"])
def test_pod_that_is_not_here_is_refused(asked: str, root: Path) -> None:
    """It may have ended, or run elsewhere."""

    with pytest.raises(ConfigError, match=f"pod {asked}: is none of this node's active pods"):
        topology_view(layout(root, *PODS), asked)
