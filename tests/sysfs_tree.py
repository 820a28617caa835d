"""Builds sysfs trees of files: PCI and virtual functions, virtio, USB, RDMA, links, NUMA nodes.

Folders and links lie as the kernel lays them, so whatever reads the tree by its ways finds what it
would find on a machine; whatever is not asked for is absent, as with a driver that tells nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from berth.host.sysfs import Sysfs

ETHERNET = 0x020000
WIRELESS = 0x028000
INFINIBAND = 0x020700
BRIDGE = 0x060400


class SysfsTree:
    """A tree under a folder of its own.

    Args:
        root: The folder; it is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("bus/pci/devices", "class/net", "devices"):
            (root / folder).mkdir(parents=True)
        self.sysfs = Sysfs(root)

    @classmethod
    def at(cls, root: Path) -> SysfsTree:
        """A tree that was built before."""
        tree = cls.__new__(cls)
        tree.root, tree.sysfs = root, Sysfs(root)
        return tree

    def function(
        self,
        address: str,
        *,
        under: str = "pci0000:40",
        class_code: int = ETHERNET,
        vendor: str = "15b3",
        device: str = "1019",
        subsystem: tuple[str, str] = ("15b3", "0069"),
        driver: str = "mlx5_core",
        numa_node: int = -1,
        acpi_index: int | None = None,
        iommu_group: int | None = None,
        total_vfs: int = 0,
        rdma: Iterable[str] = (),
        ptp: bool = False,
    ) -> Path:
        """Add a PCI function.

        Args:
            under: Path below ``devices`` to the bridge or root that it hangs from.
            total_vfs: Makes it a PF, still without virtual functions.

        Returns:
            Its folder.
        """
        folder = self.root / "devices" / under / address
        folder.mkdir(parents=True)
        _write(folder / "class", f"{class_code:#08x}")
        _write(folder / "vendor", f"0x{vendor}")
        _write(folder / "device", f"0x{device}")
        _write(folder / "subsystem_vendor", f"0x{subsystem[0]}")
        _write(folder / "subsystem_device", f"0x{subsystem[1]}")
        _write(folder / "numa_node", numa_node)
        if acpi_index is not None:
            _write(folder / "acpi_index", acpi_index)
        if iommu_group is not None:
            group = self.root / "kernel/iommu_groups" / str(iommu_group)
            group.mkdir(parents=True, exist_ok=True)
            _link(folder / "iommu_group", group)
        if total_vfs:
            _write(folder / "sriov_totalvfs", total_vfs)
            _write(folder / "sriov_numvfs", 0)
        if ptp:
            (folder / "ptp/ptp0").mkdir(parents=True)
        self._enter("pci", folder, driver)
        for name in rdma:
            self.rdma(name, folder)
        return folder

    def vf(self, address: str, *, pf: str, number: int, **facts: object) -> Path:
        """Add a virtual function of a PF, with its links both ways."""
        parent = self.folder(pf)
        under = parent.parent.relative_to(self.root / "devices")
        folder = self.function(address, under=str(under), **facts)  # type: ignore[arg-type]  # the facts of a function, as they came
        _link(folder / "physfn", parent)
        _link(parent / f"virtfn{number}", folder)
        _write(parent / "sriov_numvfs", len([*parent.glob("virtfn*")]))
        return folder

    def virtio(self, name: str, *, on: str, driver: str = "virtio_net") -> Path:
        """Add the virtio device of a PCI function."""
        folder = self.folder(on) / name
        folder.mkdir()
        self._enter("virtio", folder, driver)
        return folder

    def subfunction(self, name: str, *, on: str) -> Path:
        """Add a sub-function on the auxiliary bus, such as ``mlx5_core.sf.4``."""
        folder = self.folder(on) / name
        folder.mkdir()
        self._enter("auxiliary", folder, "mlx5_core.sf")
        return folder

    def usb(
        self, ports: str, *, on: str = "pci0000:00/0000:00:14.0", bus: int = 1, product: str = ""
    ) -> Path:
        """Add a USB device with one interface, such as ``2.4`` for a port of a hub on port 2.

        Args:
            on: Path below ``devices`` to the controller.
        """
        folder = self.root / "devices" / on / f"usb{bus}"
        names = [f"{bus}-{ports[: end + 1]}" for end, sign in enumerate(ports) if sign != "."]
        folder = folder.joinpath(*names)
        interface = folder / f"{bus}-{ports}:1.0"
        interface.mkdir(parents=True)
        if product:
            _write(folder / "product", product)
        self._enter("usb", interface, "cdc_ncm")
        return interface

    def rdma(self, name: str, folder: Path) -> None:
        """Add an RDMA device to the device of a folder."""
        device = folder / "infiniband" / name
        device.mkdir(parents=True)
        entries = self.root / "class/infiniband"
        entries.mkdir(exist_ok=True)
        _link(entries / name, device)

    def port(self, device: str, number: int, state: str, *, on: str) -> None:
        """Set the state of a port of an RDMA device, such as ``4: ACTIVE``."""
        folder = self.folder(on) / "infiniband" / device / "ports" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "state", state)

    def errors(self, address: str, *, fatal: str, nonfatal: str) -> None:
        """Set what a function's link counts of uncorrectable errors, in the kernel's words."""
        folder = self.folder(address)
        (folder / "aer_dev_fatal").write_text(fatal)
        (folder / "aer_dev_nonfatal").write_text(nonfatal)

    def config(self, address: str, content: bytes) -> None:
        """Set a function's configuration space."""
        (self.folder(address) / "config").write_bytes(content)

    def power(self, address: str, status: str) -> None:
        """Set whether a function sleeps."""
        folder = self.folder(address) / "power"
        folder.mkdir(exist_ok=True)
        _write(folder / "runtime_status", status)

    def link(
        self,
        name: str,
        index: int,
        *,
        on: Path | None = None,
        dev_port: int = 0,
        speed: int | None = None,
        wireless: bool = False,
    ) -> Path:
        """Add what a link shows of itself.

        Args:
            on: Folder of the device that carries it; None for a virtual link.
        """
        parent = on if on is not None else self.root / "devices/virtual"
        folder = parent / "net" / name
        folder.mkdir(parents=True)
        _write(folder / "ifindex", index)
        _write(folder / "dev_port", dev_port)
        if speed is not None:
            _write(folder / "speed", speed)
        if wireless:
            (folder / "phy80211").mkdir()
        if on is not None:
            _link(folder / "device", on)
        _link(self.root / "class/net" / name, folder)
        return folder

    def numa_node(self, number: int, *, cpus: str = "", memory_kib: int = 0) -> None:
        """Add a NUMA node, with its CPUs as the kernel lists them."""
        folder = self.root / f"devices/system/node/node{number}"
        folder.mkdir(parents=True)
        _write(folder / "cpulist", cpus)
        _write(folder / "meminfo", f"Node {number} MemTotal:       {memory_kib} kB")

    def folder(self, address: str) -> Path:
        """The folder of a function."""
        return (self.root / "bus/pci/devices" / address).resolve()

    def remove(self, address: str) -> None:
        """Take a function away, as when it is unplugged.

        Its entry is kept aside, so that the next one has another inode, as in sysfs.
        """
        entry = self.root / "bus/pci/devices" / address
        shutil.rmtree(self.folder(address))
        aside = self.root / "removed"
        aside.mkdir(exist_ok=True)
        entry.rename(aside / f"{address}-{len([*aside.iterdir()])}")

    def _enter(self, bus: str, folder: Path, driver: str) -> None:
        entries = self.root / "bus" / bus / "devices"
        entries.mkdir(parents=True, exist_ok=True)
        _link(entries / folder.name, folder)
        if driver:
            self.bind(folder, driver, bus=bus)

    def bind(self, folder: Path, driver: str, *, bus: str = "pci") -> None:
        """Bind a driver to a device in the place of another."""
        entry = self.root / "bus" / bus / "drivers" / driver
        entry.mkdir(parents=True, exist_ok=True)
        (folder / "driver").unlink(missing_ok=True)
        _link(folder / "driver", entry)


def _write(path: Path, value: object) -> None:
    path.write_text(f"{value}\n")


def _link(path: Path, target: Path) -> None:
    """Link relatively, as sysfs does."""
    path.symlink_to(os.path.relpath(target, path.parent))
