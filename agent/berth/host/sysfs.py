"""What sysfs says of PCI functions and of what carries links, under a given root.

Everything is read with plain file reads and resolved links; nothing is written and no device is
opened. What cannot be read is unknown, never a guess: a value that is missing here must not match
a value that is missing elsewhere.

What a function is for as long as it exists is read once: a node may have thousands of functions,
and they are looked at whenever something changes. That it is still the same one its entry's inode
tells, which the kernel gives anew with each appearance.

Only ``class/net`` shows one network namespace, that of the mount; all else is the machine's.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci``, ``sysfs-class-net``, ``fs/kernfs`` (inode
numbers), ``drivers/vfio/group.c`` (its name for a group without an IOMMU);
``deviceattribute/pci_linux.go`` of Kubernetes 1.37 for the PCIe root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs

from berth.host.hardware import STANDARD_ADDRESS, Bearer, PciFunction, Port
from berth.host.sysfiles import link_name, names, natural, number, text

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VIRTFN: Final = re.compile(r"virtfn(\d+)")
_NOIOMMU: Final = "vfio-noiommu"


class Sysfs:
    """Reads one sysfs tree; for one thread at a time.

    Args:
        root: Where it is mounted; tests give a tree of files.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._root = root.resolve()
        self._pci = self._root / "bus/pci/devices"
        self._functions: dict[str, tuple[int, PciFunction | None]] = {}
        self._vf_numbers: dict[str, dict[str, int]] = {}

    def functions(self, also: Collection[str] = ()) -> tuple[PciFunction, ...]:
        """Network controllers and functions with RDMA devices, by address.

        One that vanishes while it is read is left out.

        Args:
            also: Addresses of functions that carry links, whatever their class says.
        """
        rdma = self._rdma_devices()
        found = [
            self._passing(function, rdma.get(function.address, ()))
            for function in self._every()
            if function.is_network or function.address in rdma or function.address in also
        ]
        return tuple(sorted(found, key=lambda function: function.address))

    def chosen(self, choose: Callable[[PciFunction], bool]) -> tuple[PciFunction, ...]:
        """Functions of a choice, and all that share an IOMMU group with one of them, by address."""
        every = tuple(self._every())
        first = {function.address for function in every if choose(function)}
        groups = {function.iommu_group for function in every if function.address in first} - {None}
        found = [
            self._passing(function, ())
            for function in every
            if function.address in first or function.iommu_group in groups
        ]
        return tuple(sorted(found, key=lambda function: function.address))

    def sharing(self, functions: Iterable[PciFunction]) -> tuple[PciFunction, ...]:
        """The functions, and all others that share an IOMMU group with one of them, by address.

        Args:
            functions: Of the last call that looked at all.
        """
        known = {function.address: function for function in functions}
        groups = {function.iommu_group for function in known.values()} - {None}
        for address, (_, function) in self._functions.items() if groups else ():
            if function is not None and address not in known and function.iommu_group in groups:
                known[address] = self._passing(function, ())
        return tuple(known[address] for address in sorted(known))

    def function(self, address: str) -> PciFunction | None:
        """One function, whatever its class says; ``None`` when it is not there.

        RDMA devices are not looked for.
        """
        lasting = self._lasting(address)
        return None if lasting is None else self._passing(lasting, ())

    def has_function(self, address: str) -> bool:
        """Whether the function is in the machine now."""
        return (self._pci / address).exists()

    def bearer(self, bus: str, device: str) -> Bearer:
        """What is known of a device by the words in which netlink tells a link's parent.

        Args:
            bus: Such as ``pci``.
            device: Its name on that bus, such as ``0000:41:00.0``.
        """
        if bus == "pci":
            return Bearer(function=device, below=device)
        entry = self._root / "bus" / bus / "devices" / device
        driver = link_name(entry / "driver")
        way = self._way(entry)
        if bus == "usb":
            # The entry is of one of its interfaces; the device itself is the folder around it.
            product = text(self._root.joinpath(*way[:-1], "product")) if way else ""
            return Bearer(usb_path=_usb_path(way), product=product, driver=driver)
        functions = [part for part in way if _ADDRESS.fullmatch(part)]
        below = functions[-1] if functions else ""
        return Bearer(function=below if bus == "virtio" else "", below=below, driver=driver)

    def port(self, name: str, index: int) -> Port | None:
        """What a link's folder says; ``None`` when it is not the folder of that link."""
        folder = self._root / "class/net" / name
        if number(folder / "ifindex") != index:
            return None
        return Port(
            dev_port=number(folder / "dev_port") or 0,
            wireless=any((folder / sign).exists() for sign in ("phy80211", "wireless")),
            ptp=(folder / "device/ptp").exists(),
        )

    def speed_mbps(self, name: str) -> int | None:
        """Speed of a link with carrier; ``None`` when its driver tells none.

        The kernel asks the driver under rtnl; without carrier there is nothing to ask.
        """
        speed = number(self._root / "class/net" / name / "speed")
        return speed if speed is not None and speed > 0 else None

    def _addresses(self) -> Iterator[tuple[str, int]]:
        """Every function's address, and the inode of its entry."""
        try:
            with os.scandir(self._pci) as entries:
                for entry in entries:
                    if _ADDRESS.fullmatch(entry.name):
                        yield entry.name, entry.inode()
        except OSError:
            return

    def _every(self) -> Iterator[PciFunction]:
        """All functions, by what lasts of them; those that are gone are forgotten."""
        self._vf_numbers.clear()
        lasting: dict[str, tuple[int, PciFunction | None]] = {}
        for address, inode in self._addresses():
            known = self._functions.get(address)
            if known is None or known[0] != inode:
                known = inode, self._lasting(address)
            lasting[address] = known
        self._functions = lasting
        return (function for _, function in lasting.values() if function is not None)

    def _lasting(self, address: str) -> PciFunction | None:
        """What stays as it is while the function is there; ``None`` when it is gone already."""
        folder = self._pci / address
        class_code = number(folder / "class")
        if class_code is None:
            return None
        physfn = link_name(folder / "physfn")
        return PciFunction(
            address=address,
            class_code=class_code,
            vendor=_id(folder / "vendor"),
            device=_id(folder / "device"),
            subsystem_vendor=_id(folder / "subsystem_vendor"),
            subsystem_device=_id(folder / "subsystem_device"),
            numa_node=natural(folder / "numa_node"),
            pcie_root=self._pcie_root(address),
            physfn=physfn,
            vf_index=self._vf_index(address, physfn) if physfn else None,
            acpi_index=number(folder / "acpi_index"),
            iommu_group=self._group(address),
        )

    def _passing(self, function: PciFunction, rdma: Collection[str]) -> PciFunction:
        """The function with what drivers and operators change; only a PF has numbers of VFs."""
        folder = self._pci / function.address
        total_vfs = 0 if function.physfn else number(folder / "sriov_totalvfs") or 0
        driver, group = link_name(folder / "driver"), self._group(function.address)
        return attrs.evolve(
            function,
            driver=driver,
            iommu_group=group,
            noiommu="vfio" in driver and group is not None and self._is_noiommu(group),
            total_vfs=total_vfs,
            num_vfs=(number(folder / "sriov_numvfs") or 0) if total_vfs else 0,
            rdma=tuple(sorted(rdma)),
        )

    def _group(self, address: str) -> int | None:
        name = link_name(self._pci / address / "iommu_group")
        return int(name) if name.isdigit() else None

    def _is_noiommu(self, group: int) -> bool:
        return text(self._root / f"kernel/iommu_groups/{group}/name") == _NOIOMMU

    def _rdma_devices(self) -> dict[str, list[str]]:
        """Names of RDMA devices by the function that they are on; soft ones are on none."""
        devices: dict[str, list[str]] = {}
        folder = self._root / "class/infiniband"
        for name in names(folder):
            way = self._way(folder / name)
            address = next((part for part in reversed(way) if _ADDRESS.fullmatch(part)), "")
            devices.setdefault(address, []).append(name)
        devices.pop("", None)
        return devices

    def soft_rdma(self) -> dict[str, tuple[str, ...]]:
        """Names of RDMA devices that software makes of a link, by the link's name."""
        devices: dict[str, tuple[str, ...]] = {}
        folder = self._root / "class/infiniband"
        for name in sorted(names(folder)):
            parent = text(folder / name / "parent")
            if parent:
                devices[parent] = (*devices.get(parent, ()), name)
        return devices

    def _pcie_root(self, address: str) -> str:
        if not STANDARD_ADDRESS.fullmatch(address):
            return ""
        way = self._way(self._pci / address)
        good = len(way) > 2 and way[0] == "devices" and way[1].startswith("pci")
        return way[1] if good and way[-1] == address else ""

    def _way(self, link: Path) -> tuple[str, ...]:
        """Where a link leads, as the names below the root; only the link itself is followed."""
        try:
            target = Path(os.path.normpath(link.parent / link.readlink()))
        except OSError:
            return ()
        return target.relative_to(self._root).parts if target.is_relative_to(self._root) else ()

    def _vf_index(self, address: str, physfn: str) -> int | None:
        """Number of a VF, by the links that its PF's folder has to each of its VFs."""
        if physfn not in self._vf_numbers:
            folder = self._pci / physfn
            matches = [match for name in names(folder) if (match := _VIRTFN.fullmatch(name))]
            self._vf_numbers[physfn] = {
                link_name(folder / match[0]): int(match[1]) for match in matches
            }
        return self._vf_numbers[physfn].get(address)


def _usb_path(way: tuple[str, ...]) -> str:
    """The path in the form of udev's ``path_id``: the host's place, then the ports.

    The number of the USB bus is left out, since it depends on who was first at boot.
    """
    parts = list(way[1:])
    buses = [n for n, part in enumerate(parts) if re.fullmatch(r"usb\d+", part)]
    if not buses:
        return ""
    host = parts[buses[0] - 1] if buses[0] else ""
    place = f"pci-{host}" if _ADDRESS.fullmatch(host) else f"platform-{host}"
    return f"{place}-usb-0:{parts[-1].partition('-')[2]}"


def _id(path: Path) -> str:
    return text(path).removeprefix("0x").lower()
