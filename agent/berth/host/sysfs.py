"""What sysfs says of PCI functions, network devices and RDMA devices, under a given root.

Everything is read with plain file reads and resolved links; nothing is written and no device is
opened. What cannot be read is unknown, never a guess: a value that is missing here must not match
a value that is missing elsewhere.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci``, ``sysfs-class-net``;
``deviceattribute/pci_linux.go`` of Kubernetes 1.37 for the PCIe root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

NETWORK_CLASS: Final = 0x02
"""Base class of network controllers, the top byte of the class code."""

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_STANDARD: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@attrs.frozen(kw_only=True)
class PciFunction:
    """One function of the PCI bus.

    Attributes:
        address: ``dddd:bb:dd.f``, lower case; a domain above ``ffff`` keeps all its digits.
        class_code: Base class, subclass and interface, as one number of 24 bits.
        subsystem_vendor: Four hex digits, as the other ids.
        driver: Empty when no driver is bound.
        numa_node: ``None`` when the firmware tells none.
        pcie_root: ``pci<domain>:<bus>``; empty when the path has another form.
        total_vfs: Virtual functions that it could have; 0 for anything but a PF.
        num_vfs: Virtual functions that it has.
        physfn: Address of the PF that it is a VF of; empty for others.
        vf_index: Its number among the PF's VFs; ``None`` for others.
        acpi_index: The firmware's index for the onboard device; ``None`` when it tells none.
        iommu_group: ``None`` without an IOMMU.
        rdma: Names of RDMA devices on it.
    """

    address: str
    class_code: int = 0
    vendor: str = ""
    device: str = ""
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    driver: str = ""
    numa_node: int | None = None
    pcie_root: str = ""
    total_vfs: int = 0
    num_vfs: int = 0
    physfn: str = ""
    vf_index: int | None = None
    acpi_index: int | None = None
    iommu_group: int | None = None
    rdma: tuple[str, ...] = ()

    @property
    def is_network(self) -> bool:
        """Whether its class says that it is a network controller."""
        return self.class_code >> 16 == NETWORK_CLASS

    @property
    def is_standard(self) -> bool:
        """Whether its domain fits the standard attributes' four digits."""
        return _STANDARD.fullmatch(self.address) is not None


@attrs.frozen(kw_only=True)
class NetDevice:
    """What sysfs adds to a link of this namespace.

    Attributes:
        function: Address of the PCI function under it, also through virtio; empty when none.
        dev_port: Which of the function's ports it is.
        usb_path: Path of the USB interface under it below ``/sys/devices``; empty when none.
        wireless: The link is a radio.
        speed_mbps: ``None`` when unknown, as without carrier.
    """

    name: str
    index: int
    function: str = ""
    dev_port: int = 0
    usb_path: str = ""
    wireless: bool = False
    speed_mbps: int | None = None


class Sysfs:
    """Reads one sysfs tree.

    Args:
        root: Where it is mounted; tests give a tree of files.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._root = root

    def functions(self) -> tuple[PciFunction, ...]:
        """Every PCI function, by address; one that vanishes while it is read is left out."""
        folder = self._root / "bus/pci/devices"
        names = sorted(name for name in _names(folder) if _ADDRESS.fullmatch(name))
        found = (self._function(name) for name in names)
        return tuple(function for function in found if function is not None)

    def has_function(self, address: str) -> bool:
        """Whether the function is in the machine now."""
        return (self._root / "bus/pci/devices" / address).exists()

    def net_devices(self) -> tuple[NetDevice, ...]:
        """Every network device of the namespace that this tree shows."""
        folder = self._root / "class/net"
        found = (self._net_device(folder / name) for name in sorted(_names(folder)))
        return tuple(device for device in found if device is not None)

    def _function(self, address: str) -> PciFunction | None:
        folder = self._root / "bus/pci/devices" / address
        class_code = _number(folder / "class")
        if class_code is None:
            return None
        numa = _number(folder / "numa_node")
        physfn = _link_name(folder / "physfn")
        group = _link_name(folder / "iommu_group")
        return PciFunction(
            address=address,
            class_code=class_code,
            vendor=_id(folder / "vendor"),
            device=_id(folder / "device"),
            subsystem_vendor=_id(folder / "subsystem_vendor"),
            subsystem_device=_id(folder / "subsystem_device"),
            driver=_link_name(folder / "driver"),
            numa_node=numa if numa is not None and numa >= 0 else None,
            pcie_root=self._pcie_root(address),
            total_vfs=_number(folder / "sriov_totalvfs") or 0,
            num_vfs=_number(folder / "sriov_numvfs") or 0,
            physfn=physfn,
            vf_index=self._vf_index(address, physfn) if physfn else None,
            acpi_index=_number(folder / "acpi_index"),
            iommu_group=int(group) if group.isdigit() else None,
            rdma=tuple(sorted(_names(folder / "infiniband"))),
        )

    def _pcie_root(self, address: str) -> str:
        if not _STANDARD.fullmatch(address):
            return ""
        link = self._root / "bus/pci/devices" / address
        try:
            target = os.path.normpath(link.parent / link.readlink())
        except OSError:
            return ""
        parts = Path(target).relative_to(self._root).parts if self._within(target) else ()
        good = len(parts) > 2 and parts[0] == "devices" and parts[1].startswith("pci")
        return parts[1] if good and parts[-1] == address else ""

    def _within(self, path: str) -> bool:
        return Path(path).is_relative_to(self._root)

    def _vf_index(self, address: str, physfn: str) -> int | None:
        folder = self._root / "bus/pci/devices" / physfn
        for name in _names(folder):
            number = name.removeprefix("virtfn")
            if number.isdigit() and _link_name(folder / name) == address:
                return int(number)
        return None

    def _net_device(self, folder: Path) -> NetDevice | None:
        index = _number(folder / "ifindex")
        if index is None:
            return None
        way = self._device_path(folder / "device")
        functions = [part for part in way.parts if _ADDRESS.fullmatch(part)]
        usb = any(re.fullmatch(r"usb\d+", part) for part in way.parts)
        speed = _number(folder / "speed")
        return NetDevice(
            name=folder.name,
            index=index,
            function=functions[-1] if functions and not usb else "",
            dev_port=_number(folder / "dev_port") or 0,
            usb_path=str(way.relative_to(self._root / "devices")) if usb else "",
            wireless=(folder / "wireless").exists() or (folder / "phy80211").exists(),
            speed_mbps=speed if speed is not None and speed > 0 else None,
        )

    def _device_path(self, link: Path) -> Path:
        try:
            return Path(os.path.normpath(link.parent.resolve() / link.readlink()))
        except OSError:
            return Path()


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from (path.name for path in folder.iterdir())
    except OSError:
        return


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path), 0)
    except ValueError:
        return None


def _id(path: Path) -> str:
    return _text(path).removeprefix("0x").lower()


def _link_name(path: Path) -> str:
    try:
        return path.readlink().name
    except OSError:
        return ""
