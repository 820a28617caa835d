"""Tells that names came or went where paths lead, awaited by trio without a thread or a timer.

Of each path the nearest folder that exists is watched, for the one name in it that leads on. Below
a folder whose name has wildcards nothing is watched: who needs that looks now and then. Folders are
looked at in trio's own thread, so none may lie on a file system that can hang.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
import trio

from berth.model.pathglob import PathGlob, component_fits, has_wildcards
from berth.runtime.inotify import Inotify, Notice


@attrs.frozen
class _Names:
    """Which names in a folder matter.

    Attributes:
        exact: Names.
        patterns: Components with wildcards.
    """

    exact: set[str] = attrs.field(factory=set)
    patterns: set[str] = attrs.field(factory=set)

    def fits(self, name: str) -> bool:
        """Whether a name is one of them; without one it is the folder itself."""
        return (
            name == ""
            or name in self.exact
            or any(component_fits(each, name) is not None for each in self.patterns)
        )


@contextlib.contextmanager
def watch_paths() -> Iterator[PathChanges]:
    """Watch what lies at paths while the block runs; `PathChanges.aim` says at which.

    Raises:
        HostError: The kernel has no inotify left.
    """
    inotify = Inotify()
    try:
        yield PathChanges(inotify)
    finally:
        inotify.close()


class PathChanges:
    """Waits for changes; made by `watch_paths`.

    Args:
        inotify: Of its own.
    """

    def __init__(self, inotify: Inotify) -> None:
        self._inotify = inotify
        self._ways: tuple[tuple[tuple[str, ...], bool], ...] = ()
        self._watched: dict[int, _Names] = {}

    def aim(self, paths: Iterable[str], globs: Iterable[PathGlob]) -> None:
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

    async def wait_next(self) -> None:
        """Wait until something came or went since the last time; it may be none that is wanted.

        Raises:
            HostError: The kernel has no watch left, or a folder cannot be read.
        """
        await trio.lowlevel.checkpoint()
        while not any(map(self._concerns, await self._inotify.wait_notices())):
            pass
        self._arm()

    def _concerns(self, notice: Notice) -> bool:
        names = self._watched.get(notice.watch)
        # Of a watch that ended something may be told still; -1 says that notices were lost.
        return notice.watch == -1 if names is None else names.fits(notice.name)

    def _arm(self) -> None:
        """Watch the folders that there are; what is made meanwhile is seen."""
        while True:
            wanted = _folders(self._ways)
            watched = {self._inotify.watch(folder): names for folder, names in wanted.items()}
            if None not in watched and _folders(self._ways).keys() == wanted.keys():
                break
        for number in self._watched.keys() - watched.keys():
            self._inotify.unwatch(number)
        self._watched = {number: names for number, names in watched.items() if number is not None}


def _folders(ways: Iterable[tuple[tuple[str, ...], bool]]) -> Mapping[Path, _Names]:
    """Which folders are to be watched, and for which names."""
    found: dict[Path, _Names] = {}
    for components, is_glob in ways:
        folder, rest = Path("/"), list(components)
        while len(rest) > 1 and not (is_glob and has_wildcards(rest[0])):
            below = folder / rest[0]
            if not below.is_dir():
                break
            folder = below
            del rest[0]
        names = found.setdefault(folder, _Names())
        (names.patterns if is_glob and has_wildcards(rest[0]) else names.exact).add(rest[0])
    return found
