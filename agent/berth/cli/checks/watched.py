"""Whether what the configuration says of single devices is of devices that this machine has.

Source: gpu-and-health.md §6.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.outlook import outlook
from berth.gpu.naming import gpu_name
from berth.health.watching import Watching

TOPIC: Final = "health"


def check_watched(machine: Machine) -> Iterator[Line]:
    """Whether each [[health.device]] names a device; of the parts of a GPU its driver knows."""
    if machine.scan is None or machine.gear is None:
        return
    others = outlook(machine.config, machine.gear).peripherals
    gpus = {gpu_name(each.address) for each in machine.gear.functions if each.is_nvidia_gpu}
    names = {one.name for one in machine.inventory.nics} | {one.name for one in others} | gpus
    watching = Watching.of(machine.config)
    names |= {name for name in watching.devices if name.partition("-mig-")[0] in gpus}
    for text in watching.remarks(names):
        mend = "`berth devices` shows what each is called"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)
