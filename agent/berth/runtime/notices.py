"""What the kernel tells of names in folders, and which of those who watch it concerns.

Source: ``inotify(7)``; constants from Linux ``include/uapi/linux/inotify.h``.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

import attrs

from berth.model.pathglob import component_fits

S = TypeVar("S", bound=Hashable)

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
ONLYDIR: Final = 0x0100_0000

NAMES: Final = MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | ONLYDIR
"""What changes which names a folder holds, or takes the folder itself away.

Everybody asks for this: a folder has one mask for all who watch it, and the last one set counts.
"""

_HEADER: Final = struct.Struct("=iIII")


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
    name: str = ""


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
        notices.append(Notice(watch=watch, mask=mask, name=_decode(name)))
    return tuple(notices)


def _decode(name: bytes) -> str:
    """As `os.fsdecode` does, so that names are those of paths."""
    return name.decode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


@attrs.frozen(kw_only=True)
class Names:
    """Which names in a folder matter.

    Attributes:
        exact: Names.
        patterns: Components with wildcards.
    """

    exact: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()

    def __or__(self, other: Names) -> Names:
        return Names(exact=self.exact | other.exact, patterns=self.patterns | other.patterns)

    def fits(self, name: str) -> bool:
        """Whether a name is one of them; without one it is the folder itself."""
        return (
            name == ""
            or name in self.exact
            or any(component_fits(each, name) is not None for each in self.patterns)
        )


class WatchTable(Generic[S]):
    """Who watches what, by the kernel's numbers: a folder has one, however many watch it."""

    def __init__(self) -> None:
        self._watched: dict[int, dict[S, Names]] = {}

    def aim(self, subscriber: S, wanted: Mapping[int, Names]) -> tuple[int, ...]:
        """Let a subscriber watch these and nothing else.

        Returns:
            Watches that nobody wants any more.
        """
        for number, names in wanted.items():
            self._watched.setdefault(number, {})[subscriber] = names
        for number in self._watched.keys() - wanted.keys():
            self._watched[number].pop(subscriber, None)
        ended = tuple(number for number, names in self._watched.items() if not names)
        for number in ended:
            del self._watched[number]
        return ended

    def concerned(self, notice: Notice) -> frozenset[S]:
        """Who is to look: by name, everybody of a folder that is gone, all when some were lost.

        A watch that the kernel has ended is forgotten; who had it aims anew. Of one that was ended
        here something may be told still, which concerns nobody.
        """
        if notice.mask & OVERFLOW:
            return frozenset(one for names in self._watched.values() for one in names)
        watched = self._watched.get(notice.watch, {})
        if notice.mask & IGNORED:
            self._watched.pop(notice.watch, None)
        return frozenset(one for one, names in watched.items() if names.fits(notice.name))
