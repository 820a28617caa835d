"""Mounts of the rehearsal's own: made in its mount namespace, gone with it.

Source: ``mount(2)``, ``umount2(2)``; called through the C library, which Python does not wrap.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from berth.errors import HostError

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000

_MNT_DETACH: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: Path, *, flags: int = 0, options: str = "") -> None:
    """Mount a file system of a kind (``tmpfs``, ``proc``, ``sysfs``) at a folder.

    Args:
        options: As for mount(8), such as ``size=1m``.

    Raises:
        HostError: The kernel refused.
    """
    _mount(kind, target, kind=kind, flags=flags, options=options)


def bind(source: Path, target: Path, *, read_only: bool = False, whole: bool = False) -> None:
    """Show a file or folder at a second place; the target exists, and is of the same sort.

    Args:
        whole: With what is mounted below it.

    Raises:
        HostError: The kernel refused.
    """
    _mount(str(source), target, flags=MS_BIND | (MS_REC if whole else 0))
    if read_only:
        set_read_only(target, True)


def set_read_only(target: Path, read_only: bool) -> None:
    """Let nobody write through a bind mount, or let everybody again.

    Raises:
        HostError: The kernel refused.
    """
    _mount("none", target, flags=MS_REMOUNT | MS_BIND | (MS_RDONLY if read_only else 0))


def unmount(target: Path) -> None:
    """Take a mount away at once; who has files open in it keeps them.

    Raises:
        HostError: There is none, or the kernel refused.
    """
    if _libc.umount2(os.fsencode(target), _MNT_DETACH) != 0:
        raise _refused(target, "cannot be unmounted")


def _mount(source: str, target: Path, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (os.fsencode(part) for part in (source, target, kind))
    if _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode()) != 0:
        raise _refused(target, f"cannot mount {source} there")


def _refused(target: Path, found: str) -> HostError:
    number = ctypes.get_errno()
    return HostError(str(target), f"{found}: {os.strerror(number)}", errno=number)
