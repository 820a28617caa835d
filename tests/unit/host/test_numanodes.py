"""NUMA nodes as sysfs tells of them."""

from __future__ import annotations

from pathlib import Path

from berth.host.numanodes import read_numa_nodes
from berth.model.numa import NumaNode
from tests.sysfs_tree import SysfsTree


def test_nodes_are_read_in_order_with_cpus_and_memory(tmp_path: Path) -> None:
    """A node of memory alone has no CPUs; tens come after ones."""

    tree = SysfsTree(tmp_path / "sys")
    tree.numa_node(10, memory_kib=1024)
    tree.numa_node(2, cpus="0-1,4", memory_kib=2048)
    (tree.root / "devices/system/node/possible").write_text("0-15\n")

    assert read_numa_nodes(tree.root) == (
        NumaNode(id=2, cpus=(0, 1, 4), memory_bytes=2 << 20),
        NumaNode(id=10, memory_bytes=1 << 20),
    )


def test_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    """All that is online is on it."""

    folder = tmp_path / "devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "online").write_text("0-1\n")

    assert read_numa_nodes(tmp_path) == (NumaNode(id=0, cpus=(0, 1)),)


def test_this_machine_has_a_node_with_cpus() -> None:
    """The kernel's own files have the form that is read."""

    first = read_numa_nodes()[0]

    assert first.cpus
    assert first.memory_bytes or not Path("/sys/devices/system/node").exists()
