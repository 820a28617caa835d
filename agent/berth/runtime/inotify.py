"""The kernel's notices about names in a folder, awaited by trio without a thread or a timer.

Source: ``inotify(7)``; constants from Linux ``include/uapi/linux/inotify.h``.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from pathlib import Path
from typing import Final

import attrs
import trio

from berth.errors import HostError
from berth.runtime.files import host_error

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
ONLYDIR: Final = 0x0100_0000

NAMES: Final = MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | ONLYDIR
"""What changes which names a folder holds, or takes the folder itself away."""

_HEADER: Final = struct.Struct("=iIII")
_BUFFER: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class Notice:
    """One notice of the kernel.

    Attributes:
        watch: Number of the watch it belongs to; -1 when notices were lost.
        mask: What happened.
        name: Which name in the folder; empty when it is about the folder itself.
    """

    watch: int
    mask: int
    name: str


def decode_notices(data: bytes) -> tuple[Notice, ...]:
    """Read what the kernel gives in one ``read``; a cut-off tail is left out."""
    notices = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        watch, mask, _cookie, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        if offset + length > len(data):
            break
        name = data[offset : offset + length].rstrip(b"\0")
        offset += length
        notices.append(Notice(watch=watch, mask=mask, name=os.fsdecode(name)))
    return tuple(notices)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _refusal(path: Path, doing: str) -> HostError:
    number = ctypes.get_errno()
    error = host_error(OSError(number, os.strerror(number)), path, doing)
    if number == errno.EMFILE:
        error.mend = "raise fs.inotify.max_user_instances by sysctl"
    elif number == errno.ENOSPC:
        error.mend = "raise fs.inotify.max_user_watches by sysctl"
    return error


class Inotify:
    """One inotify descriptor; `close` it.

    Raises:
        HostError: The kernel has none left for this user.
    """

    def __init__(self) -> None:
        self._descriptor: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _refusal(Path("inotify"), "cannot watch folders")

    def watch(self, folder: Path) -> int | None:
        """Watch the names in a folder; None when there is no such folder.

        Returns:
            Number of the watch, the same as before for a folder that is watched already.

        Raises:
            HostError: The kernel has no watch left, or the folder cannot be read.
        """
        number: int = _libc().inotify_add_watch(self._descriptor, os.fsencode(folder), NAMES)
        if number >= 0:
            return number
        if ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR}:
            return None
        raise _refusal(folder, "cannot watch it")

    def unwatch(self, number: int) -> None:
        """End a watch; one that the kernel has ended already is no error."""
        _libc().inotify_rm_watch(self._descriptor, number)

    async def wait_notices(self) -> tuple[Notice, ...]:
        """Wait until there is something to tell, and give all of it."""
        while not (notices := self.read_nowait()):
            await trio.lowlevel.wait_readable(self._descriptor)
        return notices

    def read_nowait(self) -> tuple[Notice, ...]:
        """Give what there is to tell by now, also when that is nothing."""
        try:
            return decode_notices(os.read(self._descriptor, _BUFFER))
        except BlockingIOError:
            return ()

    def close(self) -> None:
        """Give the descriptor back; who waits is woken by an error of trio's."""
        trio.lowlevel.notify_closing(self._descriptor)
        os.close(self._descriptor)
