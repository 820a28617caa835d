"""CDI, by which a runtime gives containers their device nodes and files, and who depends on it.

What a claim hands out is always named by CDI; of the device plugin's, what says so or has hooks.

Source: gpu-and-health.md §3.3, §5.1 (``inject``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.runtime import RuntimeSettings
from berth.config.doors import Door, Inject
from berth.config.generic import GenericGroup
from berth.config.gpu import CdiSource, GpuTable
from berth.host.nvidiactk import PATH, PROGRAMS

TOPIC: Final = "CDI"

OUR_FOLDER: Final = "/var/run/cdi"
"""Where our CDI files are written."""


def cdi_lines(settings: RuntimeSettings, machine: Machine) -> Iterator[Line]:
    """What one runtime's configuration says of CDI; a fault where a device depends on it."""
    users = ", ".join(_users(machine))
    level = Level.FAULT if users else Level.NOTE
    cdi, folders = settings.cdi, settings.cdi_folders
    if cdi.value is False:
        how = "is false" if cdi.written else "is not written, and off by default"
        meaning = (
            f"containers start without the devices of {users}"
            if users
            else "no device that is configured needs it"
        )
        mend = f"{settings.switch_cdi}; {settings.restart}" if users else ""
        yield Line(topic=TOPIC, level=level, text=f"{cdi.place} {how}: {meaning}", mend=mend)
    elif cdi.value is None:
        text = f"{cdi.place} is not written: CDI is off in containerd 1.7, on from 2.0"
        yield Line(topic=TOPIC, level=Level.NOTE, text=text)
    known = folders.value if isinstance(folders.value, list) else []
    if not any(_same_folder(machine, str(folder), OUR_FOLDER) for folder in known):
        whose = f"the files for {users} are written" if users else "berthd writes its files"
        yield Line(
            topic=TOPIC,
            level=level,
            text=f"{folders.place} lacks {OUR_FOLDER}, where {whose}",
            mend=f'add "{OUR_FOLDER}"; {settings.restart}' if users else "",
        )
    elif cdi.value:
        text = f"{settings.runtime} reads {OUR_FOLDER}"
        yield Line(topic=TOPIC, level=Level.OK, text=text)


def _same_folder(machine: Machine, one: str, other: str) -> bool:
    """Whether two paths are one folder, as ``/run`` and ``/var/run`` are."""
    return machine.at(Path(one)).resolve() == machine.at(Path(other)).resolve()


def _users(machine: Machine) -> Iterator[str]:
    """Tables whose devices come into containers by CDI."""
    config, claims = machine.config, machine.config.dra.enabled
    if claims and config.nic.groups:
        yield "[[nic.group]]"
    if _has_gpus(machine) and _gpus_need(machine, config.gpu):
        yield "[gpu]"
    for number, group in enumerate(config.generic, start=1):
        if _needs(group, claims=claims):
            yield f'[[generic]] {number} "{group.name}"'


def _has_gpus(machine: Machine) -> bool:
    """Whether there are GPUs to offer; where nobody could look there may be."""
    gear = machine.gear
    seen = gear is None or any(function.is_nvidia_gpu for function in gear.functions)
    return machine.config.gpu.enabled and seen


def _gpus_need(machine: Machine, table: GpuTable) -> bool:
    """Whether GPUs come by CDI at any door; what no group says is as the table says."""
    ways = [(table.door, Inject.AUTO)]
    ways += [(group.door or table.door, group.inject) for group in table.groups]
    if machine.config.dra.enabled and any(door is not Door.PLUGIN for door, _ in ways):
        return True
    by_plugin = {inject for door, inject in ways if door is not Door.DRA}
    # What nvidia-ctk says has hooks, which the device plugin's answer has no place for.
    hooks = table.cdi.source is not CdiSource.BUILTIN and _has_tool(machine)
    return Inject.CDI in by_plugin or (hooks and Inject.AUTO in by_plugin)


def _has_tool(machine: Machine) -> bool:
    return any(machine.at(f"{folder}/{PROGRAMS[0]}").exists() for folder in PATH.split(":"))


def _needs(group: GenericGroup, *, claims: bool) -> bool:
    by_claim = claims and group.door is not Door.PLUGIN
    return by_claim or (group.door is not Door.DRA and group.inject is Inject.CDI)
