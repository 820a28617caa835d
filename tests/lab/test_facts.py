"""What our daemon says of real PCI functions, against what the kernel says of them."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from tests.cluster.api import Object
from tests.lab.labnode import VFS, LabNode
from tests.lab.labsite import LabSite

DEVICES = "/sys/bus/pci/devices"


def test_functions_are_published_as_the_kernel_tells_them(site: LabSite) -> None:
    """NUMA node, PCIe root, IOMMU group, PF and index of each VF; counts of each PF."""

    node = site.node
    node.make_vfs("ens1", 7)
    node.make_vfs("ens2", 2)
    node.start_berthd(VFS)

    by_address = {address.replace(":", "-").replace(".", "-"): address for address in _vfs(node)}
    offered = site.wait_offered([f"nic-{each}" for each in by_address])
    assert len(by_address) == 9
    for slug, address in by_address.items():
        assert _published(offered[f"nic-{slug}"]) == _kernels(node, address)


@pytest.mark.slow
def test_every_function_of_the_machine_is_listed(site: LabSite) -> None:
    """The node's own link too, as what the node is reached by when a group names it."""

    node = site.node
    node.make_vfs("ens1", 1)
    own = json.loads(node.ip("-j", "route", "show", "default"))[0]["dev"]
    node.start_berthd(
        f'[[nic.group]]\nname = "all"\nmatch = {{ name = ["{own}", "ens1", "ens2", "ens1v0"] }}\n'
    )

    listed = {each["ifname"]: each for each in site.listed("devices")}

    assert listed.keys() == node.links() - {"lo"}
    assert listed[own]["reason"] == "uplink"
    assert listed["ens1"]["reason"] == "has-vfs"
    assert {"ens2", "ens1v0"} == {name for name, each in listed.items() if each["offered"]}


@pytest.mark.slow
def test_function_whose_link_is_elsewhere_is_not_offered(site: LabSite) -> None:
    """Somebody else has moved it: it is told why, left alone, and offered when it is back."""

    node = site.node
    node.make_vfs("ens1", 2)
    node.ip("netns", "add", "other")
    node.ip("link", "set", "ens1v0", "netns", "other")
    there = node.ip("-j", "-n", "other", "link", "show", "dev", "ens1v0")
    node.start_berthd(VFS)

    site.wait_offered(["nic-0000-21-10-2"])
    (listed,) = (each for each in site.listed("devices") if each["pci"] == "0000:21:10.0")
    assert listed["reason"] == "link-elsewhere"
    assert node.ip("-j", "-n", "other", "link", "show", "dev", "ens1v0") == there
    node.ip("-n", "other", "link", "set", "ens1v0", "netns", "1")
    site.wait_offered(["nic-0000-21-10-0", "nic-0000-21-10-2"])
    node.ip("netns", "delete", "other")


def _vfs(node: LabNode) -> list[str]:
    """The addresses of all VFs."""
    return node.run("sh", "-c", f"cd {DEVICES} && ls -d */physfn | cut -d/ -f1").split()


def _published(device: Object) -> Object:
    """The facts that a device is published with, without the types of their values."""
    names = ("iommuGroup", "numaNode", "pciBusID", "pcieRoot", "pfName", "pfPciBusID", "vfIndex")
    return {
        short: next(iter(value.values()))
        for name, value in device["attributes"].items()
        if (short := name.rpartition("/")[2]) in names
    }


def _kernels(node: LabNode, address: str) -> Object:
    """The same as sysfs tells them."""
    folder = f"{DEVICES}/{address}"

    def leads_to(link: str) -> PurePosixPath:
        return PurePosixPath(node.run("readlink", "-f", f"{folder}/{link}").strip())

    pf = leads_to("physfn")
    vfs = node.run("sh", "-c", f"cd {pf} && readlink -f virtfn* --").split()
    return {
        "iommuGroup": int(leads_to("iommu_group").name),
        "numaNode": int(node.read(f"{folder}/numa_node")),
        "pciBusID": address,
        "pcieRoot": next(part for part in pf.parts if part.startswith("pci0000:")),
        "pfName": node.run("ls", f"{pf}/net").strip(),
        "pfPciBusID": pf.name,
        "vfIndex": [PurePosixPath(each).name for each in vfs].index(address),
    }
