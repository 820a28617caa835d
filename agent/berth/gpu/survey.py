"""The peripherals that GPUs come to, with all that both doors, the ledger and CDI need of them.

Static MIG: what exists is offered, nothing is made, changed or taken away. While MIG mode is on the
whole GPU is offered to nobody. An odd part never hides its siblings.

Source: GH §1.2 to §1.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from berth.config.doors import Inject
from berth.config.gpu import GpuTable, Prefer
from berth.config.gpumatch import GpuType
from berth.gpu.attributes import TEXT_LIMIT, gpu_attributes, mig_attributes, vfio_attributes
from berth.gpu.counters import MIB, capacities, consumption, counter_set
from berth.gpu.edits import Draft, gpu_draft, mig_draft, monitor_nodes, vfio_draft
from berth.gpu.keys import gpu_keys, mig_keys, vfio_keys
from berth.gpu.naming import (
    gpu_identity,
    gpu_name,
    mig_identity,
    mig_names,
    profile_of,
    vfio_name,
)
from berth.gpu.selection import Features, Terms, terms_of
from berth.gpu.sharing import share_capacity, share_ids
from berth.gpu.toolkit import Toolkit, taken_over
from berth.gpu.witness import Form, Remembered, Sighting, is_usable_uuid, witness
from berth.host.nvidiafiles import FunctionFiles, NodeFacts
from berth.host.sysfs import PciFunction
from berth.model.device import Capacity, CounterSet, Exclusion
from berth.model.edits import DeviceNode, Edits
from berth.model.gpu import Driver, Gpu, MigDevice
from berth.model.peripheral import Door, Peripheral

NODES_MISSING: Final = "nodes-missing"

_RANKS: Final = ("gpu", "mig", "vfio")
_VFIO_DRIVERS: Final = ("vfio-pci", "")


@attrs.frozen(kw_only=True)
class GpuSurvey:
    """What the GPUs of a machine come to.

    Attributes:
        peripherals: Whole GPUs, then parts, then VFIO functions, by name; those that are not
            offered among them, with the reason.
        memory: For the next survey, also after a restart.
        swapped: Addresses whose health history is of another card.
        lost: Addresses of GPUs that are listed for what was known of them alone.
        missing: Nodes that the host lacks, by the name of the device that gets them all the same.
    """

    peripherals: tuple[Peripheral, ...]
    counter_sets: tuple[CounterSet, ...] = ()
    warnings: tuple[str, ...] = ()
    memory: tuple[Remembered, ...] = ()
    swapped: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def nodes(self) -> tuple[DeviceNode, ...]:
        """Nodes of the driver that are handed out with what is offered; those of VFIO are not."""
        offered = (one for one in self.peripherals if one.kind == "gpu" and one.exclusion is None)
        edits = (part for one in offered for part in (one.common, one.edits, one.admin))
        return tuple(dict.fromkeys(node for part in edits for node in part.nodes))


def survey(
    gpus: Iterable[Gpu],
    functions: Iterable[PciFunction],
    *,
    driver: Driver | None,
    state: str,
    table: GpuTable,
    memory: Iterable[Remembered],
    nodes: NodeFacts,
    auto: Door = Door.DRA,
    toolkit: Toolkit | None = None,
) -> GpuSurvey:
    """Look at the GPUs.

    Args:
        gpus: As NVML lists them; empty while its session is down.
        functions: GPUs of the PCI bus, and all functions of their IOMMU groups.
        state: Of the NVML session.
        memory: As the last survey gave it.
        nodes: Files of the machine.
        auto: What the door ``auto`` came to.
        toolkit: What nvidia-ctk says of the edits; ``None``: our own list.
    """
    functions = tuple(functions)
    seen = witness(
        gpus, functions, driver=driver, state=state, memory=memory, boot_id=nodes.boot_id
    )
    around = _Around(table=table, nodes=nodes, functions=functions, auto=auto, toolkit=toolkit)
    made = [each for sighting in seen.sightings for each in _forms(sighting, around)]
    made.sort(key=lambda each: (_RANKS.index(each.peripheral.type), each.peripheral.name))
    sets = {each.counters.name: each.counters for each in made if each.counters is not None}
    missing = {each.peripheral.name: each.draft.missing for each in made if each.draft.missing}
    warnings = (*seen.warnings, *_unfit(seen.sightings), *_missing(missing))
    return GpuSurvey(
        peripherals=tuple(each.peripheral for each in made),
        counter_sets=tuple(sets[name] for name in sorted(sets)),
        warnings=warnings,
        memory=seen.memory,
        swapped=seen.swapped,
        lost=tuple(one.address for one in seen.sightings if one.is_lost),
        missing=missing,
    )


@attrs.frozen(kw_only=True)
class _Around:
    """What the forms of all GPUs depend on."""

    table: GpuTable
    nodes: NodeFacts
    functions: Sequence[PciFunction]
    auto: Door
    toolkit: Toolkit | None

    def edited(self, uuid: str, draft: Draft, terms: Terms) -> Draft:
        """The draft with what nvidia-ctk says, unless a container may not be told that."""
        if self.toolkit is None or terms.inject is Inject.SPECS:
            return draft
        return taken_over(self.toolkit, uuid, draft)

    def terms(self, features: Features) -> Terms:
        return terms_of(features, self.table, auto=self.auto)


@attrs.frozen(kw_only=True)
class _Made:
    """One peripheral, and what else it came to."""

    peripheral: Peripheral
    draft: Draft = Draft()
    counters: CounterSet | None = None


def _forms(sighting: Sighting, around: _Around) -> Iterator[_Made]:
    if sighting.form is Form.VFIO and sighting.function is not None:
        yield _vfio(sighting, sighting.function, around)
        return
    yield _whole(sighting, around)
    gpu = sighting.gpu
    if gpu is None or not gpu.mig_current or sighting.exclusion is not None:
        return
    names, counters = mig_names(gpu), counter_set(gpu)
    for mig in gpu.mig_devices:
        yield _part(sighting, gpu, mig, around, name=names[mig.uuid], counters=counters)


def _whole(sighting: Sighting, around: _Around) -> _Made:
    gpu = sighting.gpu or Gpu(address=sighting.address)
    function = sighting.function or PciFunction(address=sighting.address)
    terms = around.terms(
        Features(
            type=GpuType.GPU,
            address=gpu.address,
            profile="full",
            products=(gpu.name,),
            uuids=(gpu.uuid,),
            numa=function.numa_node,
        )
    )
    exclusion = sighting.exclusion or _mode(gpu) or terms.exclusion
    draft = Draft()
    if sighting.gpu is not None:
        draft = gpu_draft(gpu, around.nodes, graphics=around.table.graphics)
        draft = around.edited(gpu.uuid, draft, terms)
    peripheral = Peripheral(
        identity=gpu_identity(gpu.address),
        name=gpu_name(gpu.address),
        kind="gpu",
        type="gpu",
        group=terms.group,
        keys=gpu_keys(gpu.address, gpu.uuid),
        attributes=gpu_attributes(gpu, function, sighting.driver, terms.group),
        capacity=_capacity(terms, gpu.memory_bytes),
        path=gpu.address,
        exclusion=exclusion,
    )
    draft = draft if exclusion is None else attrs.evolve(draft, missing=(), unknown=())
    monitor = monitor_nodes(around.nodes) if gpu.mig_current else ()
    offered = _offered(peripheral, gpu.uuid, terms, sighting, draft, monitor=monitor)
    return _Made(peripheral=offered, draft=draft)


def _part(
    sighting: Sighting,
    gpu: Gpu,
    mig: MigDevice,
    around: _Around,
    *,
    name: str,
    counters: CounterSet | None,
) -> _Made:
    function = sighting.function or PciFunction(address=gpu.address)
    profile = profile_of(mig, gpu)
    terms = around.terms(
        Features(
            type=GpuType.MIG,
            address=gpu.address,
            profile=profile,
            products=(gpu.name, mig.name),
            uuids=(gpu.uuid, mig.uuid),
            numa=function.numa_node,
        )
    )
    exclusion = terms.exclusion or _indistinct(gpu, mig)
    counters = counters if exclusion is None else None
    memory = mig.engines.memory_mib * MIB if mig.engines is not None else None
    capacity = dict(_capacity(terms, memory))
    if mig.engines is not None:
        found = capacities(mig.engines)
        capacity |= {key: Capacity(value=value) for key, value in found.items()}
    draft = mig_draft(gpu, mig, around.nodes, graphics=around.table.graphics)
    draft = around.edited(mig.uuid, draft, terms)
    peripheral = Peripheral(
        identity=mig_identity(gpu, mig),
        name=name,
        kind="gpu",
        type="mig",
        group=terms.group,
        keys=mig_keys(gpu, mig),
        attributes=mig_attributes(gpu, mig, function, sighting.driver, terms.group),
        capacity=capacity,
        consumes=(consumption(mig, counters),) if counters is not None else (),
        path=gpu.address,
        exclusion=exclusion,
    )
    return _Made(
        peripheral=_offered(
            peripheral, mig.uuid, terms, sighting, draft, monitor=monitor_nodes(around.nodes)
        ),
        draft=draft,
        counters=counters,
    )


def _vfio(sighting: Sighting, function: PciFunction, around: _Around) -> _Made:
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
    return _Made(peripheral=_offered(peripheral, function.address, terms, sighting, usable))


def _offered(
    peripheral: Peripheral,
    device_id: str,
    terms: Terms,
    sighting: Sighting,
    draft: Draft,
    *,
    monitor: Sequence[DeviceNode] = (),
) -> Peripheral:
    """The peripheral with what its terms and its nodes make of it.

    Args:
        monitor: Nodes that whoever only looks gets besides (GH §10.1); a VFIO form is no use to it.
    """
    admin = Edits()
    if peripheral.kind != "vfio" and draft.edits:
        admin = attrs.evolve(draft.edits, nodes=(*draft.edits.nodes, *monitor))
    ids = share_ids(device_id, terms.share.slots) if terms.door.opens_plugin else ()
    function = sighting.function or PciFunction(address="")
    return attrs.evolve(
        peripheral,
        door=terms.door,
        resource=terms.resource,
        ids=ids if peripheral.exclusion is None else (),
        slots=terms.share.slots,
        inject=terms.inject.value,
        many=terms.share.many,
        pack=terms.share.prefer is Prefer.PACK,
        numa=(function.numa_node,) if function.numa_node is not None else (),
        pcie_root=function.pcie_root,
        edits=draft.edits,
        admin=admin,
        common=draft.common,
        unhealthy=sighting.unhealthy or (NODES_MISSING if draft.unknown else ""),
        lacking=draft.unknown,
    )


def _capacity(terms: Terms, memory_bytes: int | None) -> Mapping[str, Capacity]:
    if terms.share.slots > 1:
        return share_capacity(terms.share, memory_bytes)
    return {"memory": Capacity(value=memory_bytes)} if memory_bytes else {}


def _mode(gpu: Gpu) -> Exclusion | None:
    """Why a whole GPU is not offered for its MIG mode."""
    if gpu.mig_current != gpu.mig_pending:
        wanted = "on" if gpu.mig_pending else "off"
        detail = f"MIG mode will be {wanted} after a reset"
        return Exclusion(reason="mig-mode-pending", detail=detail)
    if not gpu.mig_current:
        return None
    if not gpu.mig_devices:
        return Exclusion(reason="mig-empty", detail="MIG mode is on and there is no instance")
    return Exclusion(reason="mig-on", detail=f"its {len(gpu.mig_devices)} parts are offered")


def _indistinct(gpu: Gpu, mig: MigDevice) -> Exclusion | None:
    alike = sum(other.uuid == mig.uuid for other in gpu.mig_devices)
    if alike == 1 and is_usable_uuid(mig.uuid):
        return None
    return Exclusion(reason="identity", detail="it has no UUID of its own")


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


def _unfit(sightings: Iterable[Sighting]) -> Iterator[str]:
    """One warning for each text that was cut."""
    told: set[str] = set()
    for sighting in sightings:
        gpu = sighting.gpu
        for text in (gpu.name, gpu.brand, gpu.architecture) if gpu is not None else ():
            if len(text.encode(errors="ignore")) > TEXT_LIMIT and text not in told:
                told.add(text)
                yield f"GPU {sighting.address}: {text[:TEXT_LIMIT]!r}… is cut to {TEXT_LIMIT} bytes"


def _missing(missing: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if missing:
        paths = dict.fromkeys(path for each in missing.values() for path in each)
        yield (
            f"the host lacks {', '.join(paths)}; containers get these all the same, but pods with "
            "a user namespace do not: run nvidia-modprobe -u -c 0 (and -c <n> for /dev/nvidia<n>), "
            "or enable nvidia-persistenced"
        )
