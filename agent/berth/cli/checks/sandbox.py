"""systemd's units of berth: whether they are started, and whether their sandbox fits the settings.

Source: packaging.md §2; systemd.exec(5). Nothing is said where the units are not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.unitfile import Unit, is_enabled, read_unit
from berth.config.doors import Door
from berth.config.nicgroup import Attach
from berth.node.nics.nicmarks import FOLDER as MARKS

TOPIC: Final = "units"

SERVICE: Final = "berthd.service"
SOCKET: Final = "berthd.socket"

_STATE: Final = Path("/var/lib")
_CDI: Final = Path("/run/cdi")
_SYSCTLS: Final = Path("/proc/sys/net")
_FUNCTIONS: Final = (Path("/sys/devices"), Path("/sys/bus"))
_HOMES: Final = tuple(map(Path, ("/home", "/root", "/run/user")))
_ROOTS: Final = {"/var/run": "/run"}
# What is a link to another folder on every machine of today.


def check_started(machine: Machine) -> Iterator[Line]:
    """Whether both units are started at boot."""
    losses = {
        SERVICE: (Level.FAULT, "nobody starts berthd"),
        SOCKET: (Level.WARNING, "kubelet finds no socket while berthd is away"),
    }
    for name, (level, loss) in losses.items():
        unit = read_unit(machine, name)
        if unit is None:
            continue
        if unit.masked:
            text = f"{name} is masked by {unit.path}: {loss}"
            mend = f"systemctl unmask {name}, then systemctl enable --now {name}"
            yield Line(topic=TOPIC, level=level, text=text, mend=mend)
        elif is_enabled(machine, name):
            yield Line(topic=TOPIC, level=Level.OK, text=f"{name} is started at boot")
        else:
            text = f"{name} is not enabled: after the next boot {loss}"
            mend = f"systemctl enable --now {name}"
            yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def check_sandbox(machine: Machine) -> Iterator[Line]:
    """Whether the service may write, read and see what these settings need."""
    unit = read_unit(machine, SERVICE)
    if unit is None or unit.masked:
        return
    lacking = [path for path in _written(machine) if not _may_write(unit, path)]
    if lacking:
        paths = " ".join(map(str, lacking))
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"{SERVICE} may not write {' and '.join(map(str, lacking))}: ReadWritePaths= of "
            f"{unit.path} and its drop-ins lacks {'it' if len(lacking) == 1 else 'them'}",
            mend=f"systemctl edit berthd: under [Service] ReadWritePaths={paths}; the folders must "
            "be there; then systemctl restart berthd",
        )
    if hidden := [path for path in _read(machine) if _is_hidden(unit, path)]:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"{SERVICE} does not see {' and '.join(map(str, hidden))}: ProtectHome= is "
            f"{unit.value('Service', 'ProtectHome')}",
            mend="put it elsewhere, such as in /etc/berth, or write ProtectHome=no by "
            "systemctl edit berthd",
        )
    if unit.value("Service", "MountFlags") == "private":
        text = f"{SERVICE} has MountFlags=private: it sees no pod's network namespace"
        mend = "drop that line by systemctl edit berthd; then systemctl restart berthd"
        yield Line(topic=TOPIC, level=Level.FAULT, text=text, mend=mend)
    if not lacking and not hidden:
        text = f"the sandbox of {SERVICE} lets through what these settings need"
        yield Line(topic=TOPIC, level=Level.OK, text=text)


def _written(machine: Machine) -> Iterator[Path]:
    """Folders that the daemon writes by these settings, each once."""
    config = machine.config
    yield config.kubelet.root
    yield config.node.state_dir
    yield _CDI
    if config.nic.groups:
        yield MARKS
        yield _SYSCTLS
        yield from _FUNCTIONS
    doors = [
        config.gpu.door,
        *(g.door for g in config.generic),
        *(g.door for g in config.nic.groups),
    ]
    if any(door is not Door.DRA for door in doors):
        yield config.plugin.folder
    if any(g.door is not Door.DRA and g.attach is Attach.CNI for g in config.nic.groups):
        yield config.plugin.device_info
    if config.metrics.textfile is not None:
        yield config.metrics.textfile.parent


def _read(machine: Machine) -> Iterator[Path]:
    """Files that these settings name."""
    table = machine.config.kubernetes
    yield from (path for path in (table.kubeconfig, table.token_file, table.ca_file) if path)
    for group in machine.config.generic:
        if group.health.command:
            yield Path(group.health.command[0].text)


def _may_write(unit: Unit, path: Path) -> bool:
    """Whether the innermost line about a folder lets it be written."""
    if unit.value("Service", "ProtectSystem") != "strict":
        return True
    open_ = [_STATE / word for word in unit.words("Service", "StateDirectory")]
    open_ += [Path("/run") / word for word in unit.words("Service", "RuntimeDirectory")]
    open_ += _paths(unit, "ReadWritePaths")
    shut = _paths(unit, "ReadOnlyPaths")
    return _depth(path, open_) > _depth(path, shut)


def _paths(unit: Unit, key: str) -> list[Path]:
    return [_plain(Path(word.lstrip("-+"))) for word in unit.words("Service", key)]


def _depth(path: Path, folders: list[Path]) -> int:
    """How much of a path the innermost of some folders is; 0 when it lies in none."""
    path = _plain(path)
    return max((len(f.parts) for f in folders if path.is_relative_to(f)), default=0)


def _is_hidden(unit: Unit, path: Path) -> bool:
    protected = unit.value("Service", "ProtectHome") in {"yes", "true", "on", "1", "tmpfs"}
    return protected and any(path.is_relative_to(home) for home in _HOMES)


def _plain(path: Path) -> Path:
    text = str(PurePosixPath(path))
    for link, target in _ROOTS.items():
        if text == link or text.startswith(f"{link}/"):
            return Path(target + text[len(link) :])
    return Path(text)
