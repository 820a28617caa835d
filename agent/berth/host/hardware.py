"""PCI functions, and what carries links, as values.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-pci``, ``sysfs-class-net``.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

NETWORK_CLASS: Final = 0x02
"""Base class of network controllers, the top byte of the class code."""

NVIDIA: Final = "10de"
"""PCI vendor id of NVIDIA."""

_GPU_CLASSES: Final = (0x0300, 0x0302)
_BRIDGE_CLASS: Final = 0x06

STANDARD_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""An address whose domain has four digits."""


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
        iommu_group: ``None`` when it is in none.
        noiommu: Its group is one without an IOMMU, which lasts while vfio-pci has it.
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
    noiommu: bool = False
    rdma: tuple[str, ...] = ()

    @property
    def is_network(self) -> bool:
        """Whether its class says that it is a network controller."""
        return self.class_code >> 16 == NETWORK_CLASS

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is a GPU of the vendor whose driver NVML belongs to (VGA or 3D controller)."""
        return self.vendor == NVIDIA and self.class_code >> 8 in _GPU_CLASSES

    @property
    def is_bridge(self) -> bool:
        """Whether its class says that it leads to other functions."""
        return self.class_code >> 16 == _BRIDGE_CLASS

    @property
    def is_standard(self) -> bool:
        """Whether its domain fits the standard attributes' four digits."""
        return STANDARD_ADDRESS.fullmatch(self.address) is not None

    @property
    def model(self) -> str:
        """What it is a copy of: vendor, device and both subsystem ids."""
        ids = (self.vendor, self.device, self.subsystem_vendor, self.subsystem_device)
        return ":".join(ids)


@attrs.frozen(kw_only=True)
class Bearer:
    """The device that carries a link.

    Attributes:
        function: Address of the PCI function that is the NIC, also through virtio; empty for
            others.
        below: Address of the nearest PCI function under it, also where that is not the NIC itself,
            as for a sub-function; empty for USB and where there is none.
        usb_path: Where it is plugged in, in the form of udev's ``ID_PATH``; empty for others.
        product: What a USB device calls itself; empty for others.
        driver: Its kernel driver, where it is not the function itself.
    """

    function: str = ""
    below: str = ""
    usb_path: str = ""
    product: str = ""
    driver: str = ""


@attrs.frozen(kw_only=True)
class Port:
    """What a link's own folder says, for as long as the link exists.

    Attributes:
        dev_port: Which of its device's ports it is.
        wireless: It is a radio.
        ptp: Its device keeps a precise clock.
    """

    dev_port: int = 0
    wireless: bool = False
    ptp: bool = False
