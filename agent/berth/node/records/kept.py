"""One value that the node learns as it goes, in memory and in one file of the state folder.

To learn goes on without the disk: what cannot be read is learnt anew, what cannot be written is
told. What an operator asks for is on disk before it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from berth.runtime.statefile import StateFile

T = TypeVar("T")


class Kept(Generic[T]):
    """The value.

    Args:
        value: Before anything was learnt.
        file: Where a restart finds it.

    Attributes:
        value: As it is known now.
    """

    def __init__(self, value: T, file: StateFile[T]) -> None:
        self.value = value
        self._file = file
        self._writing = trio.Lock()

    async def recall(self) -> None:
        """Take what the life before left."""
        found = await self._file.read()
        if found is not None:
            self.value = found

    async def keep(self, value: T) -> None:
        """It is this from now on; a disk that refuses is told."""
        if value == self.value:
            return
        self.value = value
        async with self._writing:
            # Whoever waited here may be behind: what is known now is written.
            await self._file.write_or_note(self.value)

    async def change(self, changed: Callable[[T], T]) -> None:
        """Change it on disk, and then in memory; what is learnt in between stays.

        A cancel is served before or after, never between.

        Raises:
            HostError: The disk refused; nothing has changed.
        """
        async with self._writing:
            with trio.CancelScope(shield=True):
                await self._file.write(changed(self.value))
            self.value = changed(self.value)
