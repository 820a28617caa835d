"""What this machine has beside NICs: device nodes that groups select, and GPUs.

Source: gpu-and-health.md §1.1, §3.2, §4.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.outlook import outlook
from berth.cli.wording import counted, tallied
from berth.config.generic import GenericGroup
from berth.model.peripheral import Peripheral

TOPIC: Final = "device nodes"
GPUS: Final = "GPUs"

_CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")


def check_nodes(machine: Machine) -> Iterator[Line]:
    """How many devices each group takes, and what is not offered of them."""
    groups = machine.config.generic
    if not groups:
        return
    if machine.gear is None:
        yield Line(topic=TOPIC, level=Level.WARNING, text=f"not looked at: {machine.gear_fault}")
        return
    view = outlook(machine.config, machine.gear)
    for number, group in enumerate(groups, start=1):
        found = [
            one for one in view.peripherals if (one.type, one.group) == ("generic", group.name)
        ]
        # Of a group without any the survey itself warns, and shows what it looks for.
        if found:
            yield _group_line(number, group, found)
            yield from _check_command(machine, number, group)
    yield from (Line(topic=TOPIC, level=Level.WARNING, text=text) for text in view.remarks)


def _check_command(machine: Machine, number: int, group: GenericGroup) -> Iterator[Line]:
    """Whether the program is there that a group's devices are asked by."""
    if not group.health.command:
        return
    program = group.health.command[0].text
    path = machine.at(program)
    if not (path.is_file() and os.access(path, os.X_OK)):
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f'[[generic]] {number} "{group.name}" asks {program}, which is no program here: '
            "all its devices are unhealthy",
            mend="install it, so that root may run it, or drop health.command",
        )


def check_gpus(machine: Machine) -> Iterator[Line]:
    """Which GPUs the bus has, and what is bound to them; drivers are asked by the daemon alone."""
    if machine.gear is None:
        return
    gpus = [function for function in machine.gear.functions if function.is_nvidia_gpu]
    for driver in sorted({function.driver for function in gpus}):
        bound = [function.address for function in gpus if function.driver == driver]
        text = f"{counted(len(bound), 'GPU')} ({', '.join(bound)})"
        if driver in {"nvidia", "vfio-pci"}:
            yield Line(topic=GPUS, level=Level.OK, text=f"{text} bound to {driver}")
        else:
            yield Line(
                topic=GPUS,
                level=Level.WARNING,
                text=f"{text} bound to {driver or 'no driver'}: not offered",
                mend="install NVIDIA's driver, or bind it to vfio-pci",
            )
    if gpus:
        yield from map(_foreign_line, _foreign_files(machine))
    wanting = [group.name for group in machine.config.gpu.groups if group.vfio.rebind]
    bare = [function.address for function in gpus if function.iommu_group is None]
    if wanting and bare:
        yield Line(
            topic=GPUS,
            level=Level.WARNING,
            text=f"{', '.join(bare)} in no IOMMU group: not offered to virtual machines",
            mend="switch the IOMMU on, in the firmware and on the kernel's command line",
        )


def _foreign_files(machine: Machine) -> Iterator[str]:
    """CDI files in which another tool describes GPUs, under the name that NVIDIA's gives them."""
    for folder in _CDI_FOLDERS:
        for path in sorted(machine.at(folder).glob("nvidia*")):
            if path.suffix in {".yaml", ".json"}:
                yield f"{folder}/{path.name}"


def _foreign_line(path: str) -> Line:
    text = f"{path} is another tool's: berthd does not use it, and it may be of another boot"
    mend = "remove it, unless containers are given GPUs by the names in it"
    return Line(topic=GPUS, level=Level.NOTE, text=text, mend=mend)


def _group_line(number: int, group: GenericGroup, found: Sequence[Peripheral]) -> Line:
    excluded = dict(Counter(one.exclusion.reason for one in found if one.exclusion))
    offered = len(found) - sum(excluded.values())
    rest = f"; not offered: {tallied(excluded)}" if excluded else ""
    place = f'[[generic]] {number} "{group.name}"'
    return Line(
        topic=TOPIC,
        level=Level.OK if offered else Level.WARNING,
        text=f"{place} selects {counted(len(found), 'device')}, {offered} to offer{rest}",
        mend="" if offered else "`berth devices` tells the reason of each",
    )
