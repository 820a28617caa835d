"""What a machine is judged by without a daemon: its settings, device nodes and GPUs. Pure."""

from __future__ import annotations

from typing import Final

import attrs

from berth.config.schema import Config
from berth.generic import survey as generic
from berth.gpu import survey as gpu
from berth.host.hardware import PciFunction
from berth.host.nodefacts import NodeScan
from berth.host.nvidiafiles import NodeFacts
from berth.node.inventory.sighting import Outlook

NOT_ASKED: Final = "not-asked"
"""Reason of GPUs that only a running daemon asks the driver of."""


@attrs.frozen(kw_only=True)
class Gear:
    """What lies beside NICs on one machine.

    Attributes:
        nodes: Device nodes, as far as ``[[generic]]`` groups mean them.
        functions: GPUs on the PCI bus, and what shares an IOMMU group with one.
        files: What the machine has of the GPUs' driver.
    """

    nodes: NodeScan = attrs.field(factory=NodeScan)
    functions: tuple[PciFunction, ...] = ()
    files: NodeFacts = attrs.field(factory=NodeFacts)


def outlook(config: Config, gear: Gear) -> Outlook:
    """The settings, and what they select of the machine; nothing is held, no driver asked."""
    nodes = generic.survey(gear.nodes, config.generic, driver=config.dra.driver)
    gpus = gpu.survey(
        (),
        gear.functions,
        driver=None,
        state=NOT_ASKED,
        table=config.gpu,
        memory=(),
        nodes=gear.files,
    )
    return Outlook(
        table=config.nic,
        driver=config.dra.driver,
        peripherals=(*nodes.peripherals, *gpus.peripherals),
        remarks=(*nodes.warnings, *gpus.warnings),
    )
