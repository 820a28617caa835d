"""Kubelet: its root directory, and whether the sockets are where it looks.

Source: KC §1.2, §1.8; cases.md 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine

TOPIC: Final = "kubelet"

_UNIT_FOLDERS: Final = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")
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
    for folder in sorted(machine.at("/proc").glob("[0-9]*")):
        text = machine.read(Path("/proc") / folder.name / "cmdline") or ""
        words = text.split("\0")
        if Path(words[0]).name != "kubelet":
            continue
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, mark, value = word.partition("=")
            if name in {"--root-dir", "-root-dir"}:
                found = value if mark else following
                return Path(found) if found.startswith("/") else None
    return None


def listened(machine: Machine) -> frozenset[Path] | None:
    """The paths that systemd's socket unit listens on; ``None`` when it is not installed."""
    unit = next(
        (text for folder in _UNIT_FOLDERS if (text := machine.read(f"{folder}/{_UNIT}"))), None
    )
    if unit is None:
        return None
    dropins = {
        path.name: path
        for folder in reversed(_UNIT_FOLDERS)
        for path in machine.at(f"{folder}/{_UNIT}.d").glob("*.conf")
    }
    texts = [unit, *(dropins[name].read_text(errors="replace") for name in sorted(dropins))]
    paths: list[Path] = []
    for line in "\n".join(texts).splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if name == "ListenStream":
            paths = [*paths, Path(value)] if value else []
    return frozenset(paths)
