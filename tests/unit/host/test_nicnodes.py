"""Which nodes an RDMA device has, and what lies at their paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from berth.host.nicnodes import RDMA_CM, TUN, VHOST_NET, NicNodeReader

NIC = "0000:41:00.0"


class Tree:
    """A sysfs and a ``/dev`` under a folder."""

    def __init__(self, folder: Path) -> None:
        self.sys = folder / "sys"
        self.dev = folder / "dev"

    def tell(self, subject: str, name: str, ibdev: str) -> None:
        """Let sysfs tell of a node."""
        folder = self.sys / "class" / subject / name
        folder.mkdir(parents=True)
        (folder / "ibdev").write_text(f"{ibdev}\n")

    def node(self, path: str, minor: int) -> None:
        """Make a node."""
        there = self.dev / path.removeprefix("/dev/")
        there.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(there, stat.S_IFCHR | 0o660, os.makedev(231, minor))

    @property
    def reader(self) -> NicNodeReader:
        """Who reads it."""
        return NicNodeReader(self.sys, self.dev)


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    for subject, name in (
        ("infiniband_verbs", "uverbs1"),
        ("infiniband_mad", "issm1"),
        ("infiniband_mad", "umad1"),
    ):
        tree.tell(subject, name, "mlx5_1")
    tree.tell("infiniband_verbs", "uverbs0", "mlx5_0")
    return tree


def test_nodes_of_a_device_are_those_that_sysfs_tells(tree: Tree) -> None:
    """A umad with the issm of its port, and nothing of another device."""

    nodes = tree.reader.read(["mlx5_1"])

    assert nodes.rdma == {
        "mlx5_1": ("/dev/infiniband/uverbs1", "/dev/infiniband/umad1", "/dev/infiniband/issm1")
    }


@pytest.mark.root
def test_only_what_is_a_node_is_known(tree: Tree) -> None:
    """With the numbers that it has now; a path without a node is known as none."""

    tree.node("/dev/infiniband/uverbs1", 193)
    tree.node(RDMA_CM, 5)
    tree.node(VHOST_NET, 238)
    (tree.dev / "net").mkdir()
    (tree.dev / "net/tun").write_text("")

    known = tree.reader.read(["mlx5_1"]).known

    assert set(known) == {"/dev/infiniband/uverbs1", RDMA_CM, VHOST_NET}
    assert (known[VHOST_NET].major, known[VHOST_NET].minor) == (231, 238)
    assert TUN not in known


def test_machine_without_rdma_has_none(tmp_path: Path) -> None:
    """Nothing is read where no device asks for it."""

    assert NicNodeReader(tmp_path, tmp_path).read([]).rdma == {}


@pytest.mark.root
def test_nodes_of_vfio_are_read_where_a_nic_is_bound_to_it(tree: Tree) -> None:
    """Of the interface, of groups, of iommufd and of functions; the folder of these is none."""

    paths = {
        "/dev/vfio/vfio",
        "/dev/vfio/50",
        "/dev/vfio/noiommu-3",
        "/dev/iommu",
        "/dev/vfio/devices/vfio2",
    }
    for number, path in enumerate(sorted(paths)):
        tree.node(path, number)
    (tree.sys / "bus/pci/devices" / NIC / "vfio-dev/vfio2").mkdir(parents=True)

    found = tree.reader.read([], vfio=[NIC, "0000:41:00.1"])
    assert (set(found.known), found.vfio) == (paths, {NIC: "vfio2"})
    bare = tree.reader.read([])
    assert (set(bare.known), bare.vfio) == (set(), {})
