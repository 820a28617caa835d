"""Whether a function can be given away apart from what shares its IOMMU group.

The IOMMU keeps groups apart and nothing within one, so every other endpoint of the group has to be
on vfio-pci or unbound. Bridges use no memory themselves.

Source: Linux ``Documentation/driver-api/vfio.rst``; gpu-and-health.md §1.6; network.md §4.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.host.hardware import PciFunction
from berth.vfio.binding import VFIO

REASON: Final = "iommu-group"
"""The word for it, as a reason not to offer a device."""


def members(function: PciFunction, functions: Iterable[PciFunction]) -> tuple[PciFunction, ...]:
    """The other endpoints of its group."""
    return tuple(each for each in functions if _shares(each, function))


def hindrance(
    function: PciFunction, others: Iterable[PciFunction], *, allow_noiommu: bool = False
) -> str:
    """Why a function may not be given to a machine, in words; empty when it may.

    Args:
        others: The other endpoints of its group.
    """
    if function.iommu_group is None or function.noiommu:
        where = "no IOMMU group" if function.iommu_group is None else "a group without an IOMMU"
        return "" if allow_noiommu else f"it is in {where}"
    for other in others:
        if other.driver not in {VFIO, ""}:
            return f"{other.address} of the same group is bound to {other.driver}"
    return ""


def _shares(other: PciFunction, function: PciFunction) -> bool:
    same = other.iommu_group is not None and other.iommu_group == function.iommu_group
    return same and other.address != function.address and not other.is_bridge
