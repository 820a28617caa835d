"""The peripherals that GPUs come to, with all that both doors, the ledger and CDI need of them.

Static MIG: what exists is offered, nothing is made, changed or taken away. While MIG mode is on the
whole GPU is offered to nobody. An odd part never hides its siblings.

A GPU that claims may have bound to vfio-pci is offered in both forms; counters keep the scheduler
from giving both, and keys in the ledger the node.

Source: GH §1.2 to §1.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from berth.config.gpu import GpuTable
from berth.gpu.attributes import TEXT_LIMIT
from berth.gpu.counters import counter_set
from berth.gpu.forms import Around, Made, part_form, whole_form
from berth.gpu.layout import Layout, layouts
from berth.gpu.naming import mig_names
from berth.gpu.toolkit import Toolkit
from berth.gpu.vfioform import rebound_form, told_apart, vfio_form
from berth.gpu.witness import Form, Remembered, Sighting, witness
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import NodeFacts
from berth.model.device import CounterSet
from berth.model.edits import DeviceNode
from berth.model.gpu import Driver, Gpu
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Door, Peripheral

_RANKS: Final = ("gpu", "mig", "vfio")


@attrs.frozen(kw_only=True)
class GpuSurvey:
    """What the GPUs of a machine come to.

    Attributes:
        peripherals: Whole GPUs, then parts, then VFIO functions, by name; those that are not
            offered among them, with the reason.
        memory: For the next survey, also after a restart.
        swapped: Addresses whose health history is of another card.
        lost: Addresses of GPUs that are listed for what was known of them alone.
        layouts: GPUs of the driver, with their parts.
        missing: Nodes that the host lacks, by the name of the device that gets them all the same.
        costs: What a device costs the node of its own resources, by identity, where it costs any.
    """

    peripherals: tuple[Peripheral, ...]
    counter_sets: tuple[CounterSet, ...] = ()
    warnings: tuple[str, ...] = ()
    memory: tuple[Remembered, ...] = ()
    swapped: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    costs: Mapping[str, NodeCosts] = attrs.field(factory=dict)

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
    lent: Mapping[str, str] = MappingProxyType({}),
    mute: bool = False,
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
        lent: Functions that berth bound to vfio-pci, each with why it is unhealthy; empty when it
            is well.
        mute: NVML lists a GPU that does not even tell its address.
    """
    functions = tuple(functions)
    seen = witness(
        gpus,
        functions,
        driver=driver,
        state=state,
        memory=memory,
        boot_id=nodes.boot_id,
        lent=lent,
        mute=mute,
    )
    around = Around(
        table=table, nodes=nodes, functions=functions, auto=auto, toolkit=toolkit, seen=seen
    )
    made = [each for sighting in seen.sightings for each in _forms(sighting, around)]
    made.sort(key=lambda each: (_RANKS.index(each.peripheral.type), each.peripheral.name))
    sets = {each.counters.name: each.counters for each in made if each.counters is not None}
    costs = {group.name: group.node_cost for group in table.groups}
    missing = {each.peripheral.name: each.draft.missing for each in made if each.draft.missing}
    warnings = (*seen.warnings, *_unfit(seen.sightings), *_missing(missing))
    return GpuSurvey(
        peripherals=tuple(each.peripheral for each in made),
        counter_sets=tuple(sets[name] for name in sorted(sets)),
        warnings=warnings,
        memory=seen.memory,
        swapped=seen.swapped,
        lost=tuple(one.address for one in seen.sightings if one.is_lost),
        layouts=layouts(seen.sightings),
        missing=missing,
        costs={
            each.peripheral.identity: cost
            for each in made
            if (cost := costs.get(each.peripheral.group))
        },
    )


def _forms(sighting: Sighting, around: Around) -> Iterator[Made]:
    if sighting.form is Form.VFIO and sighting.function is not None:
        yield vfio_form(sighting, sighting.function, around)
        return
    gpu, whole = sighting.gpu, whole_form(sighting, around)
    other = rebound_form(sighting, around)
    if other is not None:
        yield from told_apart(whole, other, gpu)
        return
    yield whole
    if gpu is None or not gpu.mig_current or sighting.exclusion is not None:
        return
    names, counters = mig_names(gpu), counter_set(gpu)
    for mig in gpu.mig_devices:
        yield part_form(sighting, gpu, mig, around, name=names[mig.uuid], counters=counters)


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
