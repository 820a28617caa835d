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

PATH_LIMIT: Final = 107
"""Longest path of a unix socket, in bytes: ``sun_path`` has 108 with the terminator."""

POLL_S: Final = 1.0
"""How often a path is looked at where the kernel cannot tell of changes, in seconds."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class SocketId:
    """Which socket file lies at a path: another one there has another inode.

    Attributes:
        device: Number of the file system.
        inode: Number in it.
    """

    device: int
    inode: int


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
    return SocketId(device=found.st_dev, inode=found.st_ino)


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


async def wait_socket(path: Path) -> SocketId:
    """Wait until a socket lies at the path, and say which; at once when it does."""
    with watch_inode(path) as changes:
        while (found := await changes.wait_next()) is None:
            pass
    return found


@contextlib.contextmanager
def watch_inode(path: Path) -> Iterator[InodeChanges]:
    """Watch which socket lies at a path while the block runs.

    Folders above it may be missing, come and go. The nearest folder that exists is watched, so
    waiting costs nothing; where the kernel has no inotify left, the path is looked at each
    `POLL_S`. A folder that is moved away together with one above it goes unseen.
    """
    changes = InodeChanges(path)
    try:
        yield changes
    finally:
        changes.close()


class InodeChanges:
    """Asynchronous iterator: the socket at a path now, then whenever it is another one or none.

    Made by `watch_inode`. A slow reader skips to the present state, which may be the one it knew.

    Args:
        path: Where to look.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: SocketId | None = None
        self._begun = False
        self._watch: int | None = None
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
        except HostError as error:
            _log.warning("a path is polled", path=path, period_s=POLL_S, reason=error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SocketId | None:
        return await self.wait_next()

    async def wait_next(self) -> SocketId | None:
        """Wait for the next change and say what lies there now; the first call does not wait."""
        await trio.lowlevel.checkpoint()
        folder = self._arm()
        found = find_socket(self._path)
        while self._begun and found == self._last:
            await self._wait_hint(folder)
            folder = self._arm()
            found = find_socket(self._path)
        self._begun = True
        self._last = found
        return found

    def close(self) -> None:
        """End the watch."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _arm(self) -> Path:
        """Watch the nearest folder that exists, and give it; what appears meanwhile is seen."""
        folder = _nearest_folder(self._path)
        if self._inotify is None:
            return folder
        while (watch := self._inotify.watch(folder)) is None or _nearest_folder(
            self._path
        ) != folder:
            folder = _nearest_folder(self._path)
        if self._watch is not None and self._watch != watch:
            self._inotify.unwatch(self._watch)
        self._watch = watch
        return folder

    async def _wait_hint(self, folder: Path) -> None:
        """Wait until something may have changed at the path."""
        if self._inotify is None:
            await trio.sleep(POLL_S)
            return
        name = self._path.relative_to(folder).parts[0]
        while True:
            notices = await self._inotify.wait_notices()
            if any(notice.name in {"", name} for notice in notices):
                return


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.is_dir())
