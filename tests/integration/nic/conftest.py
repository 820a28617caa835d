"""A host of the test's own, in which the tests of this folder stand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.nic.beds import Bed, open_bed
from tests.netns import need_kind


@pytest.fixture(name="bed")
def _bed() -> Iterator[Bed]:
    """A scratch home that the test stands in."""
    need_kind("veth")
    with open_bed() as bed:
        yield bed
