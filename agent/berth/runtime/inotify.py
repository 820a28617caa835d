"""The process's one inotify descriptor, shared by all who watch folders, without thread or timer.

A user has 128 of them by the kernel's default, all of root's programs together, but thousands of
watches. A watch belongs to a folder, so the kernel gives the same number to all who watch it and it
ends with the last of them; `WatchTable` knows who they are.

What was told is kept as two bits for each of them: nobody who is slow makes anything grow.

Source: ``inotify(7)``; ``inotify_user_setup`` of Linux 6.12 for the default.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import trio

from berth.errors import HostError
from berth.runtime.files import host_error
from berth.runtime.notices import NAMES, OVERFLOW, Names, WatchTable, decode_notices

_BUFFER: Final = 64 * 1024


@contextlib.asynccontextmanager
async def open_inotify() -> AsyncIterator[Inotify]:
    """Tell of changes in folders while the block runs; one for the process is meant."""
    inotify = Inotify()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inotify.run)
            yield inotify
            nursery.cancel_scope.cancel()
    finally:
        inotify.close()


class Inotify:
    """One descriptor for many subscribers; made by `open_inotify`.

    It is opened by the first who watches. When the kernel has none left, the next one tries again.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._opened = trio.Event()
        self._table: WatchTable[Subscription] = WatchTable()

    @contextlib.contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """Be one of those who watch, while the block runs."""
        subscription = Subscription(self)
        try:
            yield subscription
        finally:
            subscription.aim({})

    async def run(self) -> None:
        """Tell subscribers until cancelled; `open_inotify` runs it."""
        await self._opened.wait()
        while True:
            await trio.lowlevel.wait_readable(self._descriptor)
            self.read_nowait()

    def aim(self, subscription: Subscription, folders: Mapping[Path, Names]) -> bool:
        """Watch these folders for a subscriber and no others; `Subscription.aim` calls it."""
        wanted: dict[int, Names] = {}
        complete = True
        try:
            for folder, names in folders.items():
                number = self._watch(folder)
                if number is None:
                    complete = False
                else:
                    # Two paths may lead to one folder.
                    wanted[number] = wanted.get(number, Names()) | names
        finally:
            for number in self._table.aim(subscription, wanted):
                # One that the kernel has ended already is no error.
                _libc().inotify_rm_watch(self._descriptor, number)
        return complete

    def read_nowait(self) -> None:
        """Tell subscribers what the kernel has to tell by now."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(BlockingIOError):
            for notice in decode_notices(os.read(self._descriptor, _BUFFER)):
                for subscription in self._table.concerned(notice):
                    subscription.tell(lost=bool(notice.mask & OVERFLOW))

    def close(self) -> None:
        """Give the descriptor back, after `run`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _watch(self, folder: Path) -> int | None:
        """Watch a folder; the number is the same for one that is watched already."""
        if self._descriptor < 0:
            descriptor: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if descriptor < 0:
                raise _refusal(Path("inotify"), "cannot watch folders")
            self._descriptor = descriptor
            self._opened.set()
        number: int = _libc().inotify_add_watch(self._descriptor, os.fsencode(folder), NAMES)
        if number >= 0:
            return number
        if ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR}:
            return None
        raise _refusal(folder, "cannot watch it")


class Subscription:
    """One who watches folders; made by `Inotify.subscribe`."""

    def __init__(self, inotify: Inotify) -> None:
        self._inotify = inotify
        self._told = trio.Event()
        self._happened = False

    def aim(self, folders: Mapping[Path, Names]) -> bool:
        """Watch these folders from now on, each for some names, and no others.

        Returns:
            False when one of them is not there; the others are watched.

        Raises:
            HostError: The kernel has no descriptor or no watch left, or a folder cannot be read;
                those before it are watched.
        """
        return self._inotify.aim(self, folders)

    def tell(self, *, lost: bool = False) -> None:
        """Something happened; `Inotify` calls it.

        Args:
            lost: It is not known what, nor whether it concerns this one.
        """
        self._told.set()
        self._happened |= not lost

    def take_nowait(self) -> bool:
        """Whether something is known to have happened since the last time.

        It may have ended a watch: aim again then. Notices that were lost wake who waits, and are
        none: all that can be done for them is to aim and look again.
        """
        self._inotify.read_nowait()
        if self._told.is_set():
            self._told = trio.Event()
        happened, self._happened = self._happened, False
        return happened

    async def wait_told(self) -> None:
        """Wait until there is something to take."""
        await self._told.wait()


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
