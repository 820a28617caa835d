"""What a GPU and its parts are offered as: whole, and as the MIG devices that exist.

Source: GH §1.2 to §1.5, §1.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from berth.config.doors import Inject
from berth.config.gpu import GpuTable, Prefer
from berth.config.gpumatch import GpuType
from berth.gpu.attributes import gpu_attributes, mig_attributes
from berth.gpu.counters import MIB, capacities, consumption
from berth.gpu.edits import Draft, gpu_draft, mig_draft, monitor_nodes
from berth.gpu.keys import gpu_keys, mig_keys
from berth.gpu.naming import gpu_identity, gpu_name, mig_identity, profile_of
from berth.gpu.selection import Features, Terms, terms_of
from berth.gpu.sharing import share_capacity, share_ids
from berth.gpu.toolkit import Toolkit, taken_over
from berth.gpu.witness import Sighting, Witnessed
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import NodeFacts
from berth.model.device import Capacity, CounterSet, Exclusion
from berth.model.edits import DeviceNode, Edits
from berth.model.gpu import Gpu, MigDevice
from berth.model.peripheral import Door, Peripheral

NODES_MISSING: Final = "nodes-missing"


@attrs.frozen(kw_only=True)
class Around:
    """What the forms of all GPUs depend on."""

    table: GpuTable
    nodes: NodeFacts
    functions: Sequence[PciFunction]
    auto: Door
    toolkit: Toolkit | None
    seen: Witnessed

    def edited(self, uuid: str, draft: Draft, terms: Terms) -> Draft:
        """The draft with what nvidia-ctk says, unless a container may not be told that."""
        if self.toolkit is None or terms.inject is Inject.SPECS:
            return draft
        return taken_over(self.toolkit, uuid, draft)

    def terms(self, features: Features) -> Terms:
        """How a device of these features is offered."""
        return terms_of(features, self.table, auto=self.auto)


@attrs.frozen(kw_only=True)
class Made:
    """One peripheral, and what else it came to."""

    peripheral: Peripheral
    draft: Draft = Draft()
    counters: CounterSet | None = None


def whole_form(sighting: Sighting, around: Around) -> Made:
    """The GPU as a whole."""
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
    made = offered(peripheral, gpu.uuid, terms, sighting, draft, monitor=monitor)
    return Made(peripheral=made, draft=draft)


def part_form(
    sighting: Sighting,
    gpu: Gpu,
    mig: MigDevice,
    around: Around,
    *,
    name: str,
    counters: CounterSet | None,
) -> Made:
    """A MIG device of the GPU."""
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
    exclusion = terms.exclusion or around.seen.indistinct(gpu, mig)
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
    return Made(
        peripheral=offered(
            peripheral, mig.uuid, terms, sighting, draft, monitor=monitor_nodes(around.nodes)
        ),
        draft=draft,
        counters=counters,
    )


def offered(
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
