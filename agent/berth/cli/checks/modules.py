"""What the running kernel has of its modules, by the lists that it and its package keep.

Source: modprobe.d(5), modules.dep(5), modules-load.d(5); kernel ``Documentation/kbuild/kbuild.rst``
(``modules.builtin``).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from berth.cli.checks.machine import Machine

LOAD_FOLDERS: Final = ("/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d")
"""Whose files name modules that are loaded at boot."""


class Module(Enum):
    """How a module stands."""

    LOADED = "loaded"
    BUILT_IN = "built in"
    LOADABLE = "there to be loaded"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """Nothing says what the kernel has; that it lacks something would be a guess."""


def module(machine: Machine, name: str) -> Module:
    """How a module stands; ``-`` and ``_`` in its name are one, as for modprobe."""
    name = plain(name)
    folder = f"/lib/modules/{machine.kernel}"
    built_in = machine.read(f"{folder}/modules.builtin")
    if _lists(built_in, name):
        return Module.BUILT_IN
    loaded = machine.read("/proc/modules") or ""
    if any(line.split(" ", 1)[0] == name for line in loaded.splitlines()):
        return Module.LOADED
    signs = (f"/sys/module/{name}", f"/sys/bus/pci/drivers/{name.replace('_', '-')}")
    if any(machine.at(sign).exists() for sign in signs):
        # Neither in the list of loaded ones nor in that of the package: the kernel has it built in.
        return Module.BUILT_IN
    loadable = machine.read(f"{folder}/modules.dep")
    if _lists(loadable, name):
        return Module.LOADABLE
    return Module.UNKNOWN if built_in is None and loadable is None else Module.ABSENT


def names_at_boot(machine: Machine) -> frozenset[str]:
    """The modules that some file has loaded at boot, with ``_`` in their names."""
    files = [path for folder in LOAD_FOLDERS for path in machine.files(folder, "*.conf")]
    texts = [machine.read(path) or "" for path in ("/etc/modules", *files)]
    lines = (line.strip() for text in texts for line in text.splitlines())
    return frozenset(plain(line.split()[0]) for line in lines if line and line[0] not in "#;")


def _lists(text: str | None, name: str) -> bool:
    """Whether a list of the kernel's package names a module's file, packed or not."""
    files = re.findall(r"^\S*?([^/\s]+)\.ko(?:\.(?:gz|xz|zst))?\b", text or "", re.MULTILINE)
    return name in map(plain, files)


def plain(name: str) -> str:
    """A module's name as the kernel shows it, whichever way it is written."""
    return name.replace("-", "_")
