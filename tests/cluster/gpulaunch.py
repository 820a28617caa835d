"""Starts a program that sees another machine's GPUs: its own mounts over a few places, then it.

Run in a node's box, by its path and without our packages: `gpulaunch.py TREE PROGRAM ARGUMENT…`.
A place that the tree has not is this machine's, and so is an empty folder of its devices.
What the runtime mounts later is still seen, since mounts come in and do not go out.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

DEVICES = "sys/devices"
PLACES = (
    *("sys/bus/pci/devices", "sys/bus/pci/drivers", DEVICES),
    *("proc/devices", "proc/driver", "dev"),
)
_CLONE_NEWNS = 0x20000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 1 << 19
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def main() -> None:
    """Show the tree, and become the program."""
    tree, *program = sys.argv[1:]
    if _libc.unshare(_CLONE_NEWNS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "unshare")
    _mount("none", "/", _MS_REC | _MS_SLAVE)
    for folder in Path(tree, DEVICES).glob("*"):
        if not any(folder.iterdir()):
            _mount(f"/{DEVICES}/{folder.name}", str(folder), _MS_BIND)
    for place in PLACES:
        if Path(tree, place).exists():
            _mount(str(Path(tree, place)), f"/{place}", _MS_BIND | _MS_REC)
    os.execv(program[0], program)  # noqa: S606 - no shell is what is wanted


if __name__ == "__main__":
    main()
