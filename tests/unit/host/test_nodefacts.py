"""What is said of device nodes, as values."""

from __future__ import annotations

import pytest

from berth.host.nodefacts import DevNode, part_of
from berth.model.edits import NodeType


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ttyUSB0", "ttyUSB"),
        ("ttyUSB12", "ttyUSB"),
        ("pcmC10D0c", "pcmCD0c"),
        ("nvidia3", "nvidia"),
        ("nvme0n1p2", "nvmen1p2"),
        ("sda", "sd"),
        ("sdab3", "sd3"),
        ("kvm", "kvm"),
    ],
)
def test_part_holds_no_number_that_the_kernel_counts_up(name: str, part: str) -> None:
    """The same part of another device is called alike."""

    assert part_of(name) == part


def test_number_tells_characters_from_blocks() -> None:
    """They are counted apart, so 8:0 is two devices."""
    node = DevNode(path="/dev/sg0", type=NodeType.CHAR, major=8, minor=0)
    disk = DevNode(path="/dev/sda", type=NodeType.BLOCK, major=8, minor=0)

    assert (node.number, disk.number) == ("chr:8:0", "blk:8:0")


def test_names_begin_with_its_own() -> None:
    """Whoever compares names meets the node's own first."""
    node = DevNode(path="/dev/a", type=NodeType.CHAR, major=1, minor=3, links=("/dev/0",))

    assert node.names == ("/dev/a", "/dev/0")
    assert not node.is_outside
