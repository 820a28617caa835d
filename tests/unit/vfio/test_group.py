"""What shares an IOMMU group with a function, and keeps it from being given away."""

from __future__ import annotations

import pytest

from berth.host.hardware import PciFunction
from berth.vfio.group import hindrance, members

OWN = PciFunction(address="0000:1b:00.0", class_code=0x030200, driver="nvidia", iommu_group=40)
ALONE = PciFunction(address="0000:1d:00.0", class_code=0x030200, driver="nvidia")


def other(**changes: object) -> PciFunction:
    """Another function of the group."""
    values: dict[str, object] = {
        "address": "0000:1b:00.1",
        "class_code": 0x040300,
        "iommu_group": 40,
        **changes,
    }
    return PciFunction(**values)  # type: ignore[arg-type]  # as the test says


def test_members_are_the_other_endpoints_of_the_group() -> None:
    """Neither itself nor bridges nor those of another group, or of none."""

    sound, bridge = other(), other(address="0000:1a:00.0", class_code=0x060400)
    apart = other(address="0000:1c:00.0", iommu_group=41)

    assert members(OWN, [OWN, sound, bridge, apart, ALONE]) == (sound,)
    assert members(ALONE, [OWN, sound, ALONE, other(iommu_group=None)]) == ()


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_nothing_hinders_beside_what_is_unbound_or_for_machines_too(driver: str) -> None:
    """Neither can be reached by the host's own programs."""

    assert hindrance(OWN, [other(driver=driver)]) == ""


def test_member_of_the_host_is_named() -> None:
    """Who reads the refusal has to know what to move."""

    assert hindrance(OWN, [other(), other(address="0000:1b:00.2", driver="ixgbe")]) == (
        "0000:1b:00.2 of the same group is bound to ixgbe"
    )


def test_function_without_group_needs_leave() -> None:
    """Without an IOMMU a machine's DMA reaches all memory."""

    assert hindrance(ALONE, []) == "it is in no IOMMU group"
    assert hindrance(ALONE, [], allow_noiommu=True) == ""


def test_group_without_iommu_needs_leave() -> None:
    """It keeps nothing apart; vfio-pci makes it so that there is one at all."""
    bare = PciFunction(address="0000:1e:00.0", driver="vfio-pci", iommu_group=3, noiommu=True)

    assert hindrance(bare, []) == "it is in a group without an IOMMU"
    assert hindrance(bare, [], allow_noiommu=True) == ""
