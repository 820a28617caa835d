"""What a machine is judged by when there is no daemon: its settings and its device nodes. Pure."""

from __future__ import annotations

from berth.config.schema import Config
from berth.generic.survey import survey
from berth.host.nodefacts import NodeScan
from berth.node.sighting import Outlook


def outlook(config: Config, nodes: NodeScan) -> Outlook:
    """The settings, and what they select of the device nodes; nothing is held."""
    found = survey(nodes, config.generic, driver=config.dra.driver)
    return Outlook(
        table=config.nic,
        driver=config.dra.driver,
        peripherals=found.peripherals,
        remarks=found.warnings,
    )
