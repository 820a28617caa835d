"""A file of the daemon's own without a disk, whose threads the clock of a test would not await."""

from __future__ import annotations

from typing import NoReturn, TypeVar

import trio

from berth.runtime.statefile import StateFile

T = TypeVar("T")


class MemoryFile(StateFile[T]):
    """The file.

    Attributes:
        value: What is in it; ``None`` before it is written.
    """

    def __init__(self, value: T | None = None) -> None:
        super().__init__(None, "", to_bytes=_never, from_bytes=_never, lost="", unwritten="")
        self.value = value

    async def read(self) -> T | None:
        """What is in it."""
        await trio.lowlevel.checkpoint()
        return self.value

    async def write(self, value: T) -> None:
        """Replace it."""
        await trio.lowlevel.checkpoint()
        self.value = value


def _never(_: object, /, *, where: str = "") -> NoReturn:
    raise AssertionError(where)
