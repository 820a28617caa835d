"""What the configuration says of single devices, and the devices that there are."""

from __future__ import annotations

from pathlib import Path

import attrs

from berth.cli.checks.machine import Machine
from berth.cli.checks.watched import check_watched
from berth.cli.outlook import Gear
from berth.config.health import DeviceTimes, HealthTable
from berth.config.schema import Config
from berth.host.nodefacts import NodeScan
from tests.unit.cli.checks.test_gear import gpu
from tests.unit.cli.checks.tree import told
from tests.unit.generic.nodes import MODEM, tty
from tests.unit.nic.machine import Machine as Host


def test_names_that_no_device_has_are_warned_of(tmp_path: Path) -> None:
    """NICs, device nodes and GPUs are known; of parts of a GPU that is here nothing is said."""

    host = Host(tmp_path)
    host.nic("ens1f0", "0000:41:00.0")
    part = "gpu-0000-01-00-0-mig-1g10gb-0"
    here = ("nic-0000-41-00-0", "modem-usb-0403-6001-a5-00-ttyusb", "gpu-0000-01-00-0", part)
    names = (*here, "nic-0000-41-00-1", part.replace("-01-", "-09-"))
    health = HealthTable(devices=tuple(DeviceTimes(name=name) for name in names))
    machine = Machine(
        config=Config(generic=(MODEM,), health=health),
        scan=host.scan(),
        gear=Gear(nodes=NodeScan(nodes=(tty(0),), udev=True), functions=(gpu(1, "nvidia"),)),
    )

    warned = [text for level, text in told(check_watched(machine)) if level == "warning"]
    assert warned == [
        f"[[health.device]] names {name}, and no device here is so called; do you mean {near}?"
        for name, near in (
            ("nic-0000-41-00-1", "nic-0000-41-00-0"),
            (part.replace("-01-", "-09-"), part),
        )
    ]
    assert told(check_watched(attrs.evolve(machine, scan=None))) == []
