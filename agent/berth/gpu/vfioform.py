"""What a GPU is offered as for a virtual machine: a PCI function that vfio-pci has, or will have.

One that vfio-pci has already is offered as that alone. Where a group lets claims have it bound,
a GPU that its own driver has is offered in both forms; which one is taken, the claim says.

Source: GH §1.5, §1.6, §3.4.
"""

from __future__ import annotations

import attrs

from berth.config.gpumatch import GpuType
from berth.gpu.attributes import vfio_attributes
from berth.gpu.counters import capacities, everything, whole_set
from berth.gpu.edits import vfio_draft
from berth.gpu.forms import Around, Made, offered
from berth.gpu.keys import vfio_keys
from berth.gpu.naming import vfio_identity, vfio_name
from berth.gpu.selection import Features, Terms
from berth.gpu.witness import Sighting
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import FunctionFiles
from berth.model.device import Capacity, Exclusion
from berth.model.gpu import Gpu
from berth.model.peripheral import Door, Peripheral
from berth.vfio.binding import VFIO
from berth.vfio.group import REASON, hindrance, members
from berth.vfio.wayin import IOMMUFD, WayIn


def vfio_form(sighting: Sighting, function: PciFunction, around: Around) -> Made:
    """The form of a function that vfio-pci has already."""
    terms = _terms(sighting, function, around)
    by_device = not vfio_draft(function, around.nodes, WayIn(iommufd=True)).unknown
    draft = vfio_draft(function, around.nodes, WayIn(iommufd=terms.iommufd))
    peripheral = _peripheral(sighting, function, around, terms, iommufd=by_device)
    # Either way in will do for a claim, which says which one; a resource has that of its group.
    # What is unhealthy is so at both doors, so that of a resource counts where both are open.
    either = by_device and not terms.door.opens_plugin
    usable = attrs.evolve(draft, unknown=()) if either else draft
    return Made(peripheral=offered(peripheral, function.address, terms, sighting, usable))


def rebound_form(sighting: Sighting, around: Around) -> Made | None:
    """The form of a GPU that its own driver has, or berth lent; ``None`` where there is none."""
    function, gpu = sighting.function, sighting.gpu
    if function is None:
        return None
    terms = _terms(sighting, function, around)
    if not sighting.lent and (not terms.rebind or gpu is None or sighting.exclusion is not None):
        return None
    if gpu is not None and (gpu.mig_current or gpu.mig_pending):
        return None
    draft = vfio_draft(function, around.nodes, WayIn())
    by_device = IOMMUFD in around.nodes.nodes and (
        function.driver != VFIO
        or not vfio_draft(function, around.nodes, WayIn(iommufd=True)).unknown
    )
    peripheral = _peripheral(sighting, function, around, terms, iommufd=by_device)
    # Its own node is there once it is bound, and the claim's record has it then.
    unbound = attrs.evolve(draft, unknown=(), missing=())
    claimed = attrs.evolve(terms, door=Door.DRA, resource="")
    made = offered(peripheral, function.address, claimed, sighting, unbound)
    closed = None if terms.door.opens_dra else _only_claims(terms)
    return Made(
        peripheral=attrs.evolve(made, exclusion=made.exclusion or closed, only_counted=True)
    )


def told_apart(whole: Made, other: Made, gpu: Gpu | None) -> tuple[Made, Made]:
    """Both forms of a GPU, with the counters that let the scheduler give one of them alone.

    Args:
        gpu: ``None`` when nobody remembers it: then the whole is not offered.
    """
    if gpu is None:
        return whole, other
    counters = whole_set(gpu)
    engines = capacities(gpu.engines) if gpu.engines is not None else {}
    found = {name: Capacity(value=value) for name, value in engines.items()}
    one, two = (
        attrs.evolve(each.peripheral, consumes=(everything(counters),)) for each in (whole, other)
    )
    if one.slots > 1:
        shared = Exclusion(reason="shared", detail=f"{one.name} is offered in {one.slots} shares")
        two = attrs.evolve(two, exclusion=two.exclusion or shared)
    else:
        one = attrs.evolve(one, capacity={**one.capacity, **found})
    return (
        attrs.evolve(whole, peripheral=one, counters=counters),
        attrs.evolve(other, peripheral=two, counters=counters),
    )


def _terms(sighting: Sighting, function: PciFunction, around: Around) -> Terms:
    last = sighting.gpu
    return around.terms(
        Features(
            type=GpuType.VFIO,
            address=function.address,
            profile="vfio",
            products=(last.name,) if last is not None and last.name else (),
            uuids=(last.uuid,) if last is not None else (),
            numa=function.numa_node,
        )
    )


def _peripheral(
    sighting: Sighting, function: PciFunction, around: Around, terms: Terms, *, iommufd: bool
) -> Peripheral:
    last = sighting.gpu
    files = around.nodes.functions.get(function.address, FunctionFiles())
    others = members(function, around.functions)
    group = -1 if function.iommu_group is None else function.iommu_group
    hindered = hindrance(function, others)
    product = last.name if last is not None else ""
    return Peripheral(
        identity=vfio_identity(function.address),
        name=vfio_name(function.address),
        kind="vfio",
        type="vfio",
        group=terms.group,
        keys=vfio_keys(
            {function.address, *(each.address for each in others)},
            group,
            last.uuid if last is not None else "",
        ),
        attributes=vfio_attributes(function, product=product, iommufd=iommufd, group=terms.group),
        capacity={"barMemory": Capacity(value=files.bar_bytes)} if files.bar_bytes else {},
        path=function.address,
        exclusion=Exclusion(reason=REASON, detail=hindered) if hindered else terms.exclusion,
    )


def _only_claims(terms: Terms) -> Exclusion:
    detail = f"its door is {terms.door.value}, and only a claim has it bound to {VFIO}"
    return Exclusion(reason="door", detail=detail)
