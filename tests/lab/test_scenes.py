"""Tests of our code alone that this host's kernel may skip, on the lab's."""

from __future__ import annotations

import re

from tests.lab import scenes
from tests.lab.labnode import LabNode


def test_children_and_vrfs_on_a_kernel_that_has_all_kinds(lab: LabNode) -> None:
    """VLANs, VRFs, ipvlan links: each test passes there, and none is skipped."""

    told = scenes.run(lab.guest, "integration/nic/test_children.py")

    assert re.fullmatch(r"\d+ passed in .*", told)
