"""A machine of files with PCI functions whose drivers can be changed.

What is written to its files has its effect by `berth.rehearsal.drivercore`; nodes are made by
``mknod``, and without the right to do so a test skips loudly.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.host.driverbind import DriverFiles
from berth.host.vfiofiles import VfioFiles
from berth.rehearsal.drivercore import VFIO, DriverCore
from tests.sysfs_tree import BRIDGE, SysfsTree

GPU = "0000:1b:00.0"
OTHER = "0000:1c:00.0"
AUDIO = "0000:1b:00.1"
BRIDGE_ABOVE = "0000:1a:00.0"
GROUP = 40
NIC = "0000:41:00.0"
NIC_GROUP = 50
DRIVERS = {GPU: "nvidia", OTHER: "nvidia", NIC: "mlx5_core"}


class VfioMachine:
    """Two GPUs and a NIC, each in a group of its own, the first one with the bridge above it.

    Args:
        root: The machine's file system; built if it is not there, else as it was left.
        groups: Whether there is an IOMMU.
    """

    def __init__(
        self,
        root: Path,
        *,
        groups: bool = True,
        noiommu: bool = False,
        iommufd: bool = False,
        changed: Callable[[str, str], None] = lambda _address, _driver: None,
    ) -> None:
        if os.geteuid() != 0:
            pytest.skip("SKIPPED FOR WANT OF ROOT: makes device nodes")
        self.root = root
        if not root.exists():
            self._build(groups=groups)
        self.core = DriverCore(root, DRIVERS, noiommu=noiommu, iommufd=iommufd, changed=changed)
        self.core.load((VFIO,))

    def _build(self, *, groups: bool) -> None:
        tree = SysfsTree(self.root / "sys")
        for number, address in enumerate((GPU, OTHER)):
            tree.function(
                address,
                class_code=0x030200,
                vendor="10de",
                device="2330",
                driver="nvidia",
                iommu_group=GROUP + number if groups else None,
            )
        tree.function(NIC, iommu_group=NIC_GROUP if groups else None)
        if groups:
            tree.function(BRIDGE_ABOVE, class_code=BRIDGE, driver="pcieport", iommu_group=GROUP)

    def add_audio(self, driver: str) -> None:
        """Give the first GPU a second function, in the same group."""
        SysfsTree.at(self.root / "sys").function(
            AUDIO, class_code=0x040300, driver=driver, iommu_group=GROUP
        )

    def remove(self, address: str) -> None:
        """Pull a function out."""
        SysfsTree.at(self.root / "sys").remove(address)

    def folder(self, address: str) -> Path:
        """The folder of a function."""
        return SysfsTree.at(self.root / "sys").folder(address)

    @property
    def drivers(self) -> DriverFiles:
        """Where drivers are changed."""
        return DriverFiles(self.root / "sys", write=self.core.write)

    @property
    def files(self) -> VfioFiles:
        """What it shows of vfio-pci."""
        return VfioFiles(self.root)

    def state(self, address: str = GPU) -> tuple[str, str]:
        """Driver and override of a function."""
        return self.core.driver(address), self.core.override(address)


HOME = ("nvidia", "(null)")
AWAY = (VFIO, VFIO)
