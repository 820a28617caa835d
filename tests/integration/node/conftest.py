"""A node of the test's own, on a scratch host in which the test stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.nic.beds import Bed, open_bed
from tests.integration.node.nodebeds import Node
from tests.netns import need_kind


@pytest.fixture(name="bed")
def _bed() -> Iterator[Bed]:
    """A scratch home that the test stands in."""
    need_kind("veth")
    with open_bed() as bed:
        yield bed


@pytest.fixture(name="node")
def _node(bed: Bed, tmp_path: Path) -> Node:
    """A node in its first life; its records folder exists."""
    (tmp_path / "claims").mkdir()
    return Node(bed, tmp_path)
