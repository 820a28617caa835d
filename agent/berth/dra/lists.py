"""Standard attributes in their list form, for clusters that take lists; a list is never empty.

The scheduler matches lists by what they have in common, and takes a single value for a list of one.
A server whose feature gate DRAListTypeAttributes is off empties the list and then refuses the
attribute, which has no value left. Whether it is on cannot be asked, so an operator says it.

Source: KC §4.5, §4.7, §9.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from berth.errors import KubeError
from berth.kube.slices import Slice
from berth.model.device import Device, Values

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"

FIELDS: Final = ("ints", "strings")
"""Fields of an attribute that are lists, of those that are written."""

_PATHS: Final = tuple(f"attributes[{name}]" for name in (NUMA_NODE, PCIE_ROOT))


def listed(device: Device, near: Mapping[int, tuple[int, ...]]) -> Device:
    """The device with lists for its NUMA node and its PCIe root, as far as it has them.

    Args:
        near: The nodes that are as good as a node, by its number, itself first; one that is not
            there stands for itself.
    """
    forms: dict[str, Values] = {}
    root, node = (device.attributes.get(name) for name in (PCIE_ROOT, NUMA_NODE))
    if isinstance(root, str):
        forms[PCIE_ROOT] = (root,)
    if isinstance(node, int):
        forms[NUMA_NODE] = near.get(node, (node,))
    return attrs.evolve(device, lists=forms) if forms else device


def refuses_lists(error: KubeError, sent: Slice) -> bool:
    """Whether a refused write was refused for lists in it."""
    named = any(path in place for place in (error.found, *error.fields) for path in _PATHS)
    return named and any(
        not value.keys().isdisjoint(FIELDS)
        for device in sent.devices
        for value in device.get("attributes", {}).values()
    )
