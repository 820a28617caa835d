"""Nodes that are as good as each other, by what sysfs says of distances and sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.host.nearnodes import NEAR_LIMIT, near_nodes


def build(root: Path, distances: str, sockets: str) -> Path:
    """A machine of files: a row of distances for each node, and a socket, or none without CPUs."""
    for node, row in enumerate(distances.split("/")):
        folder = root / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "distance").write_text(f"{row}\n")
        socket = sockets[node]
        (folder / "cpulist").write_text("\n" if socket == "-" else f"{4 * node}-{4 * node + 3}\n")
        if socket != "-":
            topology = root / f"devices/system/cpu/cpu{4 * node}/topology"
            topology.mkdir(parents=True)
            (topology / "physical_package_id").write_text(f"{socket}\n")
    return root


@pytest.mark.parametrize(
    ("distances", "sockets", "near"),
    [
        ("10", "0", [(0,)]),
        ("10 21/21 10", "01", [(0,), (1,)]),
        (
            "10 12 32 32/12 10 32 32/32 32 10 12/32 32 12 10",
            "0011",
            [(0, 1), (1, 0), (2, 3), (3, 2)],
        ),
        ("10 20 20/20 10 20/20 20 10", "000", [(0, 1, 2), (1, 0, 2), (2, 0, 1)]),
        ("10 14/14 10", "0-", [(0, 1), (1, 0)]),
    ],
)
def test_nearest_nodes_of_the_socket_follow_a_node(
    tmp_path: Path, distances: str, sockets: str, near: list[tuple[int, ...]]
) -> None:
    """One of another socket is none, one of memory alone may be."""

    found = near_nodes(build(tmp_path, distances, sockets))

    assert found == dict(enumerate(near))


@pytest.mark.parametrize("row", ["", "10", "10 far", "10 20 30"])
def test_node_whose_distances_are_unreadable_stands_for_itself(tmp_path: Path, row: str) -> None:
    """A guess would put a device where it is not."""

    assert near_nodes(build(tmp_path, f"{row}/{row}", "00")) == {0: (0,), 1: (1,)}


def test_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    """It shows no folder."""

    assert near_nodes(tmp_path) == {0: (0,)}


def test_nodes_that_are_off_are_no_columns(tmp_path: Path) -> None:
    """The kernel tells distances to nodes that are online, in their order."""

    root = build(tmp_path, "10 20/20 10", "00")
    (root / "devices/system/node/node1").rename(root / "devices/system/node/node5")

    assert near_nodes(root) == {0: (0, 5), 5: (5, 0)}


def test_many_nodes_of_a_socket_are_cut(tmp_path: Path) -> None:
    """A device has room for 48 values, and its other attributes need most of it."""

    row = " ".join(["20"] * 20)

    found = near_nodes(build(tmp_path, "/".join([row] * 20), "0" * 20))

    assert {len(nodes) for nodes in found.values()} == {NEAR_LIMIT}
    assert all(nodes[0] == node for node, nodes in found.items())
