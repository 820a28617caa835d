"""Unix sockets by path: their limits, connecting, and waiting until one appears or is made anew."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import trio
from typing_extensions import Self

from berth.errors import HostError
from berth.runtime.files import host_error
from berth.runtime.inotify import Inotify
from berth.runtime.logs import get_log
from berth.runtime.pathwatch import PathChanges, watch_paths

PATH_LIMIT: Final = 107
"""Longest path of a unix socket, in bytes: ``sun_path`` has 108 with the terminator."""

POLL_S: Final = 1.0
"""How often a path is looked at where the kernel cannot tell of changes, in seconds."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class SocketId:
    """Which socket file lies at a path.

    The inode alone does not say: ext4 gives the next file the number that has just become free
    (seen). The time at which a socket was made tells those apart, and chmod does not change it.

    Attributes:
        device: Number of the file system.
        inode: Number in it.
        made_ns: When it was made, as good as the file system knows (milliseconds).
    """

    device: int
    inode: int
    made_ns: int


def check_path(path: Path) -> Path:
    """Give the path back when a unix socket can have it.

    Raises:
        HostError: It is longer than `PATH_LIMIT`.
    """
    length = len(os.fsencode(path))
    if length > PATH_LIMIT:
        raise HostError(
            str(path),
            f"the path of this socket has {length} bytes",
            rule=f"the kernel takes at most {PATH_LIMIT}",
            mend="choose a shorter folder or name",
        )
    return path


def find_socket(path: Path) -> SocketId | None:
    """Say which socket lies at the path; None when there is none, or something else.

    Raises:
        HostError: The path cannot be looked at.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise host_error(error, path, "cannot look at it") from error
    if not stat.S_ISSOCK(found.st_mode):
        return None
    return SocketId(device=found.st_dev, inode=found.st_ino, made_ns=found.st_mtime_ns)


async def connect_unix(path: Path) -> trio.SocketStream:
    """Connect to a unix stream socket.

    Raises:
        HostError: Nobody listens there, or the path is too long.
    """
    check_path(path)
    connection = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        await connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise host_error(error, path, "cannot connect") from error
    except BaseException:
        connection.close()
        raise
    return trio.SocketStream(connection)


async def wait_socket(inotify: Inotify, path: Path) -> SocketId:
    """Wait until a socket lies at the path, and say which; at once when it does."""
    with watch_inode(inotify, path) as changes:
        while (found := await changes.wait_next()) is None:
            pass
    return found


@contextlib.contextmanager
def watch_inode(inotify: Inotify, path: Path) -> Iterator[InodeChanges]:
    """Watch which socket lies at a path while the block runs.

    Folders above it may be missing, come and go. The nearest folder that exists is watched, so
    waiting costs nothing; while the kernel has no inotify left, the path is looked at each
    `POLL_S`. A folder that is moved away together with one above it goes unseen.
    """
    with watch_paths(inotify) as changes:
        yield InodeChanges(path, changes)


class InodeChanges:
    """Asynchronous iterator: the socket at a path now, then whenever it is another one or none.

    Made by `watch_inode`. A slow reader skips to the present state. A change that happens in the
    very moment of a look may be told twice; none is missed.

    Args:
        path: Where to look.
        changes: Of its own.
    """

    def __init__(self, path: Path, changes: PathChanges) -> None:
        self._path = path
        self._changes = changes
        self._last: SocketId | None = None
        self._begun = False
        self._polled = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SocketId | None:
        return await self.wait_next()

    async def wait_next(self) -> SocketId | None:
        """Wait for the next change and say what lies there now; the first call does not wait."""
        await trio.lowlevel.checkpoint()
        while True:
            touched = self._arm()
            found = find_socket(self._path)
            # Made anew within a millisecond with the same inode, it looks the same.
            if not self._begun or found != self._last or (touched and found is not None):
                break
            await self._wait_hint()
        self._begun = True
        self._last = found
        return found

    def _arm(self) -> bool:
        """See what happens at the path from now on; gives whether something did before."""
        touched = self._changes.take_nowait()
        try:
            self._changes.aim([str(self._path)])
        except HostError as error:
            if not self._polled:
                _log.warning("a path is polled", path=self._path, period_s=POLL_S, reason=error)
            self._polled = True
        else:
            self._polled = False
        return touched

    async def _wait_hint(self) -> None:
        """Wait until something may have changed at the path."""
        if self._polled:
            await trio.sleep(POLL_S)
        else:
            await self._changes.wait_told()
