"""The container runtime: NRI, by which NICs come into pods, and CDI, by which devices do.

What a socket says goes over what a file says: a file may have been changed since the runtime read
it, or may be another's.

Source: cases.md 16; nri-contracts.md §7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.cli.checks.cdi import cdi_lines
from berth.cli.checks.containerd import FILES, find_containerd
from berth.cli.checks.crio import FILE, find_crio
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.runtime import RuntimeSettings, Setting, seconds
from berth.config.doors import Door
from berth.config.nicgroup import Attach
from berth.errors import BerthError, HostError
from berth.model.device import NicMode
from berth.runtime.listeners import Occupant, probe_path

TOPIC: Final = "NRI"

ANNOTATION: Final = "required-plugins.noderesource.dev: '[\"berth\"]'"
"""Of a pod that is to have no container without our plugin; nri-contracts.md §8.3."""

_MEND: Final = "the runtime must be up, with NRI switched on"


def check_socket(machine: Machine) -> Iterator[Line]:
    """Whether the runtime is connected, or could be; a fault where a NIC is moved by its hooks."""
    socket = machine.config.nri.socket
    level = Level.FAULT if _is_needed(machine) else Level.NOTE
    mend = _MEND if _is_needed(machine) else ""
    rest = "" if _is_needed(machine) else "; no device that is configured needs NRI"
    if machine.nri:
        if machine.nri["synchronized"]:
            text = f"connected: {machine.nri['runtime']} at {machine.nri['socket']}"
            yield Line(topic=TOPIC, level=Level.OK, text=text)
        else:
            text = f"the daemon is not connected: {machine.nri['reason']}{rest}"
            yield Line(topic=TOPIC, level=level, text=text, mend=mend)
        return
    try:
        occupant = probe_path(machine.at(socket))
    except HostError as error:
        yield Line(topic=TOPIC, level=Level.WARNING, text=f"{socket}: {error.found}")
        return
    found = {
        Occupant.NOTHING: "there is no socket",
        Occupant.DEAD: "the socket refuses connections",
        Occupant.OTHER: f"there is {Occupant.OTHER.value}",
    }.get(occupant)
    if found is None:
        yield Line(topic=TOPIC, level=Level.OK, text=f"the runtime listens at {socket}")
    else:
        yield Line(topic=TOPIC, level=level, text=f"{socket}: {found}{rest}", mend=mend)


def check_runtime(machine: Machine) -> Iterator[Line]:
    """What the runtimes' own configurations say."""
    found = []
    for find in (find_containerd, find_crio):
        try:
            settings = find(machine)
        except BerthError as error:
            yield Line(topic=TOPIC, level=Level.WARNING, text=str(error))
            continue
        if settings is not None:
            found.append(settings)
    for settings in found:
        yield from _nri_lines(settings, machine)
        yield from cdi_lines(settings, machine)
    if not found:
        places = ", ".join((*FILES, FILE))
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text=f"no configuration of a runtime was found (looked for {places}); "
            "containerd 1.7 has NRI and CDI off by default, later ones and CRI-O have them on",
        )


def _nri_lines(settings: RuntimeSettings, machine: Machine) -> Iterator[Line]:
    for setting, switch in (
        (settings.nri, settings.switch_nri),
        (settings.connections, "drop that line"),
    ):
        if setting.value is False:
            yield _off(setting, switch, settings, machine)
    if settings.nri.value is None:
        yield Line(
            topic=TOPIC,
            level=Level.NOTE,
            text=f"{settings.nri.place} is not written: NRI is off in containerd 1.7, on from 2.0",
        )
    socket = settings.socket
    if socket.value != str(machine.config.nri.socket):
        yield Line(
            topic=TOPIC,
            level=Level.FAULT if _is_needed(machine) else Level.NOTE,
            text=f"{socket.place} is {socket.value}, [nri] socket is {machine.config.nri.socket}",
            mend=f'write [nri] socket = "{socket.value}"',
        )
    yield from _time_line(settings, machine)
    yield from _validator_line(settings, machine)


def _is_needed(machine: Machine) -> bool:
    """Whether a hook of the runtime moves a NIC: not what is bound, nor what a CNI plugin moves."""
    if not machine.config.nic.enabled:
        return False
    return any(
        group.mode is not NicMode.VFIO
        and (group.door is not Door.PLUGIN or group.attach is Attach.NRI)
        for group in machine.config.nic.groups
    )


def _off(setting: Setting, switch: str, settings: RuntimeSettings, machine: Machine) -> Line:
    how = "says that it is off" if setting.written else "is not written, and it is off by default"
    connected = machine.nri.get("synchronized")
    return Line(
        topic=TOPIC,
        level=Level.WARNING if connected else Level.FAULT if _is_needed(machine) else Level.NOTE,
        text=f"{setting.place} {how}"
        + (": it is on now, and not any more when the runtime restarts" if connected else ""),
        mend=f"{switch}; {settings.restart}",
    )


def _time_line(settings: RuntimeSettings, machine: Machine) -> Iterator[Line]:
    """The runtime must wait for a hook longer than the hook may take."""
    given_s, ours_s = seconds(settings.timeout_s.value), machine.config.nri.timeout_s
    if given_s is None or given_s - 0.5 >= ours_s:
        return
    yield Line(
        topic=TOPIC,
        level=Level.WARNING,
        text=f"{settings.timeout_s.place} is {settings.timeout_s.value}: a hook gets "
        f"{max(given_s - 0.5, 0):g} s of [nri] timeout_s = {ours_s:g}",
        mend=f"give the runtime {ours_s + 0.5:g} s or more; {settings.restart}",
    )


def _validator_line(settings: RuntimeSettings, machine: Machine) -> Iterator[Line]:
    """A pod can ask the runtime to wait for the daemon, where the runtime listens to that."""
    validator = settings.validator
    if validator is None or validator.value is True or not _is_needed(machine):
        return
    yield Line(
        topic=TOPIC,
        level=Level.NOTE,
        text=f"{validator.place} is off: no pod can ask to wait for berthd, and one that starts "
        "while it is away gets its NICs late",
        mend=f"write it as true, and give such pods the annotation {ANNOTATION}; "
        f"{settings.restart}",
    )
