"""Which NUMA nodes of the machine are as good as each other: those of one socket that lie nearest.

A socket may be divided into several nodes (SNC, NPS), and a device hangs from one of them. Its
neighbours in the same socket are hardly farther from it than that one.

All blocks. What cannot be read is unknown: then a node stands for itself alone.

Source: Linux ``Documentation/ABI/stable/sysfs-devices-node`` (``distance``),
``sysfs-devices-system-cpu`` (``physical_package_id``); ``deviceattribute/numa_linux.go`` of
Kubernetes 1.37, whose choice this is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from berth.host.numanodes import read_numa_nodes
from berth.host.sysfiles import number, text
from berth.model.numa import NumaNode

NEAR_LIMIT: Final = 8
"""Most nodes that stand for one: of a device's 48 values its other attributes need most."""


def near_nodes(root: Path = Path("/sys")) -> Mapping[int, tuple[int, ...]]:
    """The nodes that are as good as a node, by its number; itself first.

    Args:
        root: Where sysfs is mounted.
    """
    sockets = {node.id: _socket(root, node) for node in read_numa_nodes(root)}
    return {node: (node, *_beside(root, node, sockets)) for node in sockets}


def _beside(root: Path, node: int, sockets: Mapping[int, int | None]) -> tuple[int, ...]:
    """The nearest other nodes, but for those that are known to be of another socket."""
    words = text(root / f"devices/system/node/node{node}/distance").split()
    if len(words) != len(sockets) or not all(word.isdigit() for word in words):
        return ()
    # One column for each node that is online, in their order.
    columns = zip(sockets, words, strict=True)
    others = {other: int(word) for other, word in columns if other != node}
    nearest = min(others.values(), default=0)
    own = sockets[node]
    return tuple(
        other
        for other, distance in others.items()
        if distance == nearest and (own is None or sockets[other] in {None, own})
    )[: NEAR_LIMIT - 1]


def _socket(root: Path, node: NumaNode) -> int | None:
    """The socket of a node's first CPU; ``None`` for a node of memory alone."""
    if not node.cpus:
        return None
    return number(root / f"devices/system/cpu/cpu{node.cpus[0]}/topology/physical_package_id")
