"""What a slice says of a GPU, a part of one, or a VFIO function.

Every own attribute of a type stands on all devices of that type, neutral where it is unknown: a
selector that reads a key which one device lacks stops the allocation of every pod. Only those that
drivers have in common are left out, since two unknowns must not match each other.

Source: GH §1.3; KC §4.7; NW §2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from berth.gpu.naming import profile_of
from berth.gpu.versions import compute_capability, cuda_version, driver_version
from berth.host.hardware import NVIDIA, PciFunction
from berth.model.device import Attribute
from berth.model.gpu import Driver, Gpu, MigDevice

STANDARD: Final = "resource.kubernetes.io"
"""Domain of the attributes that drivers have in common."""

TEXT_LIMIT: Final = 64
"""Longest string attribute, in bytes. Source: ``resource.k8s.io/v1`` DeviceAttribute."""

Attributes: TypeAlias = Mapping[str, Attribute]


def gpu_attributes(
    gpu: Gpu, function: PciFunction, driver: Driver | None, group: str
) -> Attributes:
    """Attributes of a whole GPU."""
    return {
        "type": "gpu",
        "uuid": gpu.uuid,
        "profile": "full",
        **_described(gpu, function, driver, group),
    }


def mig_attributes(
    gpu: Gpu, mig: MigDevice, function: PciFunction, driver: Driver | None, group: str
) -> Attributes:
    """Attributes of a part; where it is, and what it is a part of, are its GPU's."""
    return {
        "type": "mig",
        "uuid": mig.uuid,
        "parentUUID": gpu.uuid,
        "profile": profile_of(mig, gpu),
        **_described(gpu, function, driver, group),
    }


def vfio_attributes(
    function: PciFunction, *, product: str, iommufd: bool, group: str
) -> Attributes:
    """Attributes of a GPU that is bound to vfio-pci.

    Args:
        product: What the driver called it when it last had it; empty when that is not remembered.
        iommufd: Whether it can be handed out by its own node.
    """
    return {
        "type": "vfio",
        "profile": "vfio",
        "productName": fitting(product),
        "vendorID": function.vendor,
        "deviceID": function.device,
        "group": group,
        "iommuGroup": -1 if function.iommu_group is None else function.iommu_group,
        "iommufd": iommufd,
        **standard(function),
    }


def standard(function: PciFunction) -> Attributes:
    """The attributes that drivers have in common, as far as they are known."""
    values: dict[str, Attribute] = {}
    if function.is_standard:
        values[f"{STANDARD}/pciBusID"] = function.address
        if function.pcie_root:
            values[f"{STANDARD}/pcieRoot"] = function.pcie_root
    if function.numa_node is not None:
        values[f"{STANDARD}/numaNode"] = function.numa_node
    return values


def fitting(text: str) -> str:
    """Text as an attribute holds it: cut at a character, without bytes that were no text."""
    plain = text.encode(errors="ignore")[:TEXT_LIMIT]
    return plain.decode(errors="ignore")


def _described(
    gpu: Gpu, function: PciFunction, driver: Driver | None, group: str
) -> dict[str, Attribute]:
    return {
        "productName": fitting(gpu.name),
        "brand": fitting(gpu.brand),
        "architecture": fitting(gpu.architecture),
        "addressingMode": fitting(gpu.addressing_mode),
        "cudaComputeCapability": compute_capability(gpu.compute_capability),
        "cudaDriverVersion": cuda_version(driver.cuda if driver is not None else None),
        "driverVersion": driver_version(driver.version if driver is not None else ""),
        "vendorID": function.vendor or NVIDIA,
        "deviceID": fitting(gpu.device_id or function.device),
        "group": group,
        **standard(function),
    }
