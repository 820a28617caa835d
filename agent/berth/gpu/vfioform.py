"""What a GPU is offered as for a virtual machine: a PCI function that vfio-pci has.

Source: GH §1.6, §3.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from berth.config.gpumatch import GpuType
from berth.gpu.attributes import vfio_attributes
from berth.gpu.edits import vfio_draft
from berth.gpu.forms import Around, Made, offered
from berth.gpu.keys import vfio_keys
from berth.gpu.naming import gpu_identity, vfio_name
from berth.gpu.selection import Features
from berth.gpu.witness import Sighting
from berth.host.nvidiafiles import FunctionFiles
from berth.host.sysfs import PciFunction
from berth.model.device import Capacity, Exclusion
from berth.model.peripheral import Peripheral

_VFIO_DRIVERS: Final = ("vfio-pci", "")


def vfio_form(sighting: Sighting, function: PciFunction, around: Around) -> Made:
    """The function, with all that its group asks for."""
    last = sighting.gpu
    product = last.name if last is not None else ""
    terms = around.terms(
        Features(
            type=GpuType.VFIO,
            address=function.address,
            profile="vfio",
            products=(product,) if product else (),
            uuids=(last.uuid,) if last is not None else (),
            numa=function.numa_node,
        )
    )
    files = around.nodes.functions.get(function.address, FunctionFiles())
    members = [each for each in around.functions if _is_member(each, function)]
    by_device = not vfio_draft(function, around.nodes, iommufd=True).unknown
    draft = vfio_draft(function, around.nodes)
    group = -1 if function.iommu_group is None else function.iommu_group
    peripheral = Peripheral(
        identity=gpu_identity(function.address),
        name=vfio_name(function.address),
        kind="vfio",
        type="vfio",
        group=terms.group,
        keys=vfio_keys(
            {function.address, *(each.address for each in members)},
            group,
            last.uuid if last is not None else "",
        ),
        attributes=vfio_attributes(function, product=product, iommufd=by_device, group=terms.group),
        capacity={"barMemory": Capacity(value=files.bar_bytes)} if files.bar_bytes else {},
        path=function.address,
        exclusion=_isolation(function, members) or terms.exclusion,
    )
    # Either way in will do; which one, a claim says.
    usable = attrs.evolve(draft, unknown=()) if by_device else draft
    return Made(peripheral=offered(peripheral, function.address, terms, sighting, usable))


def _is_member(other: PciFunction, function: PciFunction) -> bool:
    """Whether two functions cannot be kept apart by the IOMMU; bridges use no memory themselves."""
    same = other.iommu_group is not None and other.iommu_group == function.iommu_group
    return same and other.address != function.address and not other.is_bridge


def _isolation(function: PciFunction, members: Iterable[PciFunction]) -> Exclusion | None:
    """Why a function may not be given to a machine: something of its group is in use elsewhere."""
    if function.iommu_group is None:
        return Exclusion(reason="iommu-group", detail="it is in no IOMMU group")
    for member in members:
        if member.driver not in _VFIO_DRIVERS:
            detail = f"{member.address} of the same group is bound to {member.driver}"
            return Exclusion(reason="iommu-group", detail=detail)
    return None
