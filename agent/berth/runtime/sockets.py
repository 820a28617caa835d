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
from berth.runtime.inotify import Inotify, Notice
from berth.runtime.logs import get_log

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

    Made by `watch_inode`. A slow reader skips to the present state. A change that happens in the
    very moment of a look may be told twice; none is missed.

    Args:
        path: Where to look.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: SocketId | None = None
        self._begun = False
        self._watch: int | None = None
        self._inotify: Inotify | None = None
        self._notices: tuple[Notice, ...] = ()
        try:
            self._inotify = Inotify()
        except HostError as error:
            self._poll_instead(error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SocketId | None:
        return await self.wait_next()

    async def wait_next(self) -> SocketId | None:
        """Wait for the next change and say what lies there now; the first call does not wait."""
        await trio.lowlevel.checkpoint()
        while True:
            folder, touched = self._arm()
            found = find_socket(self._path)
            # Made anew within a millisecond with the same inode, it looks the same.
            if not self._begun or found != self._last or (touched and found is not None):
                break
            await self._wait_hint(folder)
        self._begun = True
        self._last = found
        return found

    def close(self) -> None:
        """End the watch."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _arm(self) -> tuple[Path, bool]:
        """Watch the nearest folder that exists, so that what appears from now on is seen.

        Returns:
            The folder, and whether the name of the socket was made, moved or removed in it.
        """
        if self._inotify is None:
            return _nearest_folder(self._path), False
        try:
            folder = self._watch_nearest(self._inotify)
        except HostError as error:
            self._poll_instead(error)
            return _nearest_folder(self._path), False
        self._notices += self._inotify.read_nowait()
        names = {notice.name for notice in self._notices}
        self._notices = ()
        return folder, folder == self._path.parent and self._path.name in names

    def _watch_nearest(self, inotify: Inotify) -> Path:
        while True:
            folder = _nearest_folder(self._path)
            watch = inotify.watch(folder)
            # What was made between the two looks would go unseen from a folder further up.
            if watch is not None and _nearest_folder(self._path) == folder:
                break
        if self._watch is not None and self._watch != watch:
            inotify.unwatch(self._watch)
        self._watch = watch
        return folder

    def _poll_instead(self, reason: HostError) -> None:
        _log.warning("a path is polled", path=self._path, period_s=POLL_S, reason=reason)
        self.close()

    async def _wait_hint(self, folder: Path) -> None:
        """Wait until something may have changed at the path."""
        if self._inotify is None:
            await trio.sleep(POLL_S)
            return
        name = self._path.relative_to(folder).parts[0]
        while not any(notice.name in {"", name} for notice in self._notices):
            self._notices = await self._inotify.wait_notices()


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.is_dir())
