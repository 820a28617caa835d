"""Tells that names came or went where paths lead, awaited by trio without a thread or a timer.

Of each path the nearest folder that exists is watched, for the one name in it that leads on. Below
a folder whose name has wildcards nothing is watched: who needs that looks now and then. Folders are
looked at in trio's own thread, so none may lie on a file system that can hang.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from berth.model.pathglob import PathGlob, has_wildcards
from berth.runtime.inotify import Inotify, Subscription
from berth.runtime.notices import Names


@contextlib.contextmanager
def watch_paths(inotify: Inotify) -> Iterator[PathChanges]:
    """Watch what lies at paths while the block runs; `PathChanges.aim` says at which."""
    with inotify.subscribe() as subscription:
        yield PathChanges(subscription)


class PathChanges:
    """Waits for changes; made by `watch_paths`.

    Args:
        subscription: Of its own.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._ways: tuple[tuple[tuple[str, ...], bool], ...] = ()

    def aim(self, paths: Iterable[str], globs: Iterable[PathGlob] = ()) -> None:
        """Watch these from now on; what happened to others before may be told still.

        Args:
            paths: Absolute, taken as they stand.
            globs: They may have wildcards.

        Raises:
            HostError: The kernel has no watch left, or a folder cannot be read.
        """
        self._ways = (
            *((Path(path).parts[1:], False) for path in paths),
            *((glob.components, True) for glob in globs),
        )
        self._arm()

    def take_nowait(self) -> bool:
        """Whether something is known to have come or gone since the last time.

        Aim again in any case: folders may be others, and notices may have been lost.
        """
        return self._subscription.take_nowait()

    async def wait_told(self) -> None:
        """Wait until there is something to take."""
        await self._subscription.wait_told()

    async def wait_next(self) -> None:
        """Wait until something came or went since the last time; it may be none that is wanted.

        Raises:
            HostError: The kernel has no watch left, or a folder cannot be read.
        """
        await self.wait_told()
        self.take_nowait()
        self._arm()

    def _arm(self) -> None:
        """Watch the folders that there are; what is made meanwhile is seen."""
        while True:
            wanted = _folders(self._ways)
            there = self._subscription.aim(wanted)
            if there and _folders(self._ways).keys() == wanted.keys():
                break


def _folders(ways: Iterable[tuple[tuple[str, ...], bool]]) -> Mapping[Path, Names]:
    """Which folders are to be watched, and for which names; many may be of one folder."""
    found: dict[Path, tuple[set[str], set[str]]] = {}
    for components, is_glob in ways:
        folder, rest = Path("/"), list(components)
        while len(rest) > 1 and not (is_glob and has_wildcards(rest[0])):
            below = folder / rest[0]
            if not below.is_dir():
                break
            folder = below
            del rest[0]
        exact, patterns = found.setdefault(folder, (set(), set()))
        (patterns if is_glob and has_wildcards(rest[0]) else exact).add(rest[0])
    return {
        folder: Names(exact=frozenset(exact), patterns=frozenset(patterns))
        for folder, (exact, patterns) in found.items()
    }
