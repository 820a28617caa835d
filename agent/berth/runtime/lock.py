"""One instance per state folder: a lock that dies with its process and names its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.errors import HostError
from berth.runtime.files import FILE_MODE, host_error

NAME: Final = "lock"
"""Name of the lock file in the state folder; it stays there, only the lock comes and goes."""

_PID_LIMIT: Final = 32


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a state folder while the block runs.

    The kernel frees it when the process dies in whatever way. Child processes do not keep it.

    Raises:
        HostError: Another process holds it, named by its pid; or the folder cannot be used.
    """
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise host_error(error, path, "cannot open the lock") from error
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, _PID_LIMIT, 0).decode("ascii", "replace").strip()
        raise HostError(
            str(path),
            f"held by process {holder or 'unknown'}",
            rule="one daemon per state folder",
            mend="stop that one, or give this one another [node] state_dir",
        ) from error
    except OSError as error:
        raise host_error(error, path, "cannot lock it") from error
    # The number is told to whoever comes second; a full disk, which has none, keeps nobody out.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
