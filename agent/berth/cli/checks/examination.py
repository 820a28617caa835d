"""One examination: the file, and if it is good the machine, by every check there is."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from berth.cli.apiaccess import credential_settings
from berth.cli.asking import ask
from berth.cli.checks import (
    apirights,
    apiserver,
    credentials,
    drivers,
    features,
    gates,
    gear,
    kernel,
    kubelet,
    nri,
    programs,
    rights,
    sandbox,
    selection,
    sriov,
    watched,
)
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers import ifupdown, linkfiles, networkd, networkmanager, udev
from berth.cli.looking import check_config, read_gear, scan_machine
from berth.config.schema import Config
from berth.errors import BerthError
from berth.node.views import features_view

Check: TypeAlias = "Callable[[Machine], Iterable[Line]]"

CHECKS: Final[tuple[Check, ...]] = (
    kernel.check_release,
    kernel.check_cgroups,
    kernel.check_modules,
    kernel.check_iommu,
    rights.check_capabilities,
    rights.check_state,
    sandbox.check_started,
    sandbox.check_sandbox,
    kubelet.check_root,
    kubelet.check_registration,
    kubelet.check_units,
    gates.check_kubelet_version,
    credentials.check_credentials,
    apiserver.check_api,
    apirights.check_rights,
    gates.check_gates,
    features.check_features,
    features.check_skips,
    nri.check_socket,
    nri.check_runtime,
    selection.check_selection,
    selection.check_shared,
    sriov.check_functions,
    udev.check_marks,
    udev.check_hotplug,
    networkd.check_networkd,
    networkmanager.check_networkmanager,
    ifupdown.check_ifupdown,
    ifupdown.check_dhcpcd,
    linkfiles.check_link_files,
    gear.check_nodes,
    gear.check_gpus,
    drivers.check_nvidia,
    drivers.check_nics,
    watched.check_watched,
)
"""Every check of a machine, in the order in which they are told."""

TOPIC: Final = "configuration"


@attrs.frozen(kw_only=True)
class Examination:
    """What was found.

    Attributes:
        refused: The configuration has faults, so the machine was not looked at.
        groups: For programs: what each group takes.
        features: For programs: how far the cluster has each feature.
    """

    lines: tuple[Line, ...]
    refused: bool = False
    groups: tuple[Mapping[str, Any], ...] = ()
    features: tuple[Mapping[str, Any], ...] = ()

    def count(self, level: Level) -> int:
        """How many lines are of one level."""
        return sum(line.level is level for line in self.lines)


def examine(path: Path, *, runtime_dir: Path) -> Examination:
    """Check a configuration, and this machine for it. Blocks."""
    report = check_config(path)
    if report.config is None:
        faults = (Line(topic=TOPIC, level=Level.FAULT, text=str(f)) for f in report.faults)
        return Examination(lines=tuple(faults), refused=True)
    lines = [Line(topic=TOPIC, level=Level.OK, text=str(path))]
    lines += [Line(topic=TOPIC, level=Level.WARNING, text=text) for text in report.warnings]
    machine = this_machine(report.config, runtime_dir=runtime_dir)
    lines += check_machine(machine)
    return Examination(
        lines=tuple(lines),
        groups=tuple(selection.groups_summary(machine)),
        features=tuple(features_view(features.cluster_features(machine))),
    )


def check_machine(machine: Machine) -> list[Line]:
    """What all checks say of a machine."""
    return [line for check in CHECKS for line in _lines(check, machine)]


def _lines(check: Check, machine: Machine) -> list[Line]:
    """What one check says; one that may not look says so, and keeps no other from looking."""
    try:
        return list(check(machine))
    except OSError as error:
        text = f"not looked at: {error.filename}: {error.strerror}"
        return [Line(topic=TOPIC, level=Level.WARNING, text=text, mend="run this as root")]


def this_machine(config: Config, *, runtime_dir: Path) -> Machine:
    """This machine as it is now, and what its daemon says if one runs. Blocks."""
    settings, host_name = credential_settings(config), socket.gethostname()
    machine = Machine(
        config=config,
        credentials=settings,
        api=apiserver.look_api(
            settings,
            configured=config.node.name,
            host_name=host_name,
            driver=config.dra.driver,
        ),
        status=_status(runtime_dir),
        runtime_version=programs.containerd_version(),
        kubelet_version=programs.kubelet_version(),
        network_manager=programs.network_manager(),
        host_name=host_name,
        kernel=platform.release(),
        user_id=os.geteuid(),
    )
    try:
        machine = attrs.evolve(machine, scan=scan_machine(config))
    except BerthError as error:
        machine = attrs.evolve(machine, scan_fault=str(error))
    try:
        return attrs.evolve(machine, gear=read_gear(config))
    except BerthError as error:
        return attrs.evolve(machine, gear_fault=str(error))


def _status(runtime_dir: Path) -> Mapping[str, Any] | None:
    try:
        return ask(runtime_dir, "status")
    except BerthError:
        return None
