"""Kubelet: its root directory, and whether the sockets are where it looks.

Source: KC §1.2, §1.8; cases.md 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.cli.checks.kubeletsettings import command_line, option
from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.unitfile import read_unit

TOPIC: Final = "kubelet"

_UNIT: Final = "berthd.socket"


def check_root(machine: Machine) -> Iterator[Line]:
    """Whether kubelet's root directory is there, and is the one that kubelet uses."""
    root = machine.config.kubelet.root
    used = kubelet_root(machine)
    if used is not None and used != root:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"kubelet runs with --root-dir {used}, [kubelet] root is {root}",
            mend=f'write [kubelet] root = "{used}"',
        )
    elif machine.at(root).is_dir():
        yield Line(topic=TOPIC, level=Level.OK, text=f"root directory {root}")
    else:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"[kubelet] root is {root}: there is no such directory; it is never made here",
            mend="install kubelet, or write what its --root-dir says",
        )


def check_registration(machine: Machine) -> Iterator[Line]:
    """What the running daemon says of kubelet."""
    kubelet = (machine.status or {}).get("kubelet")
    if kubelet:
        level = Level.OK if kubelet["registered"] else Level.FAULT
        mend = "" if kubelet["registered"] else "see that kubelet runs: systemctl status kubelet"
        yield Line(topic=TOPIC, level=level, text=kubelet["state"], mend=mend)


def check_units(machine: Machine) -> Iterator[Line]:
    """Whether systemd keeps the very sockets that this configuration needs."""
    paths = listened(machine)
    if paths is None:
        return
    kubelet, driver = machine.config.kubelet.root, machine.config.dra.driver
    wanted = (
        kubelet / "plugins" / driver / "dra.sock",
        kubelet / "plugins_registry" / f"{driver}-reg.sock",
    )
    missing = [path for path in wanted if path not in paths]
    if missing:
        listens = " and ".join(f"ListenStream={path}" for path in wanted)
        yield Line(
            topic=TOPIC,
            level=Level.WARNING,
            text=f"{_UNIT} does not keep {' and '.join(map(str, missing))}: "
            "the daemon makes them itself, and kubelet sees each restart",
            mend=f"systemctl edit {_UNIT}: under [Socket] an empty ListenStream=, then {listens}",
        )
    yield Line(
        topic=TOPIC,
        level=Level.NOTE,
        text="stop the daemon with systemctl stop berthd.socket berthd: "
        "a service stopped alone is started by kubelet's next call",
    )


def kubelet_root(machine: Machine) -> Path | None:
    """The root directory on the running kubelet's command line; ``None`` when it says none."""
    found = option(command_line(machine), "root-dir")
    return Path(found) if found.startswith("/") else None


def listened(machine: Machine) -> frozenset[Path] | None:
    """The paths that systemd's socket unit listens on; ``None`` when it is not installed."""
    unit = read_unit(machine, _UNIT)
    if unit is None or unit.masked:
        return None
    return frozenset(map(Path, unit.values("Socket", "ListenStream")))
