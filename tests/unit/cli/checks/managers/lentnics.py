"""A machine with an uplink, two NICs that berth lends out and one that it shares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from berth.cli.checks.machine import Machine
from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.config.schema import Config
from berth.model.device import NicMode
from tests.unit.cli.checks.tree import plant
from tests.unit.nic.machine import Machine as Host
from tests.unit.nic.machine import group

FAST = group("fast", name=("ens1f0", "ens1f1", "eth0"))
LAN = group("lan", name=("ens2f0",), mode=NicMode.SHARED)
MARKS = "/run/berth-nics"


def lending(root: Path, files: Mapping[str, str], *groups: NicGroup, **facts: Any) -> Machine:
    """The machine, with files; ``INDEX`` in a path is the index of the first NIC's link."""
    host = Host(root / "host")
    host.nic("eth0", "0000:01:00.0")
    host.nic("ens1f0", "0000:41:00.0")
    host.nic("ens1f1", "0000:41:00.1")
    host.nic("ens2f0", "0000:42:00.0")
    host.route("0.0.0.0/0", "eth0", via="192.0.2.1")
    index = str(host.links["ens1f0"].index)
    machine = Machine(
        config=Config(nic=NicTable(groups=groups or (FAST, LAN))),
        scan=host.scan(),
        root=plant(root / "root", {k.replace("INDEX", index): v for k, v in files.items()}),
    )
    return attrs.evolve(machine, **facts)
