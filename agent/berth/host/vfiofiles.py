"""What the machine shows of functions that vfio-pci has: groups, names, nodes; everything blocks.

Nothing here takes the kernel's lock of a device, so a function whose driver waits for its user can
be looked at all the same. Group numbers are read anew each time: they are dealt at boot, and for a
function without an IOMMU when vfio-pci takes it.

Source: Linux ``Documentation/driver-api/vfio.rst``, ``Documentation/ABI/testing`` (``vfio-dev``).
"""

from __future__ import annotations

from pathlib import Path

import attrs

from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import HostNode, NvidiaFiles
from berth.host.sysfs import Sysfs


@attrs.frozen(kw_only=True)
class VfioFacts:
    """A function as vfio-pci shows it.

    Attributes:
        group: Number of its IOMMU group; ``None`` when it is in none.
        noiommu: That group is one without an IOMMU.
        name: Its name as a VFIO device, such as ``vfio0``; empty when it has none.
    """

    group: int | None = None
    noiommu: bool = False
    name: str = ""


class VfioFiles:
    """Reads the files of one machine.

    Args:
        root: Where its file system is; tests give a tree.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._sys = root / "sys"
        self._nodes = NvidiaFiles(root)

    def around(self, address: str) -> tuple[PciFunction, ...]:
        """The function, and all that share its IOMMU group; none when it is not there."""
        return Sysfs(self._sys).chosen(lambda function: function.address == address)

    def knows(self, driver: str) -> bool:
        """Whether a driver is loaded."""
        return (self._sys / "bus/pci/drivers" / driver).exists()

    def facts(self, address: str) -> VfioFacts:
        """How the function is reached now."""
        function = Sysfs(self._sys).function(address)
        if function is None:
            return VfioFacts()
        return VfioFacts(
            group=function.iommu_group, noiommu=function.noiommu, name=self._name(address)
        )

    def node(self, path: str) -> HostNode | None:
        """The device node at a path; ``None`` where there is none."""
        return self._nodes.node(path)

    def _name(self, address: str) -> str:
        try:
            entries = (self._sys / "bus/pci/devices" / address / "vfio-dev").iterdir()
            return min((path.name for path in entries), default="")
        except OSError:
            return ""
