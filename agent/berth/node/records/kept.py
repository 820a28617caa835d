"""One value that the node learns as it goes, in memory and in one file of the state folder.

To learn goes on without the disk: what cannot be read is learnt anew, what cannot be written is
told. What an operator asks for is on disk before it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import trio

from berth.errors import BerthError, HostError
from berth.runtime.files import Folder
from berth.runtime.logs import get_log

T = TypeVar("T")

_log = get_log(__name__)


class Kept(Generic[T]):
    """The value.

    Args:
        value: Before anything was learnt.
        folder: Where its file is; ``None`` to keep nothing over a restart.
        name: Of the file.
        what: What it tells, for the journal.
        to_bytes: Its file.
        from_bytes: The value of a file, given the file's name for errors.

    Attributes:
        value: As it is known now.
    """

    def __init__(
        self,
        value: T,
        *,
        folder: Path | None,
        name: str,
        what: str,
        to_bytes: Callable[[T], bytes],
        from_bytes: Callable[[bytes, str], T],
    ) -> None:
        self.value = value
        self._folder = Folder(folder) if folder is not None else None
        self._name = name
        self._what = what
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes
        self._writing = trio.Lock()

    async def recall(self) -> None:
        """Take what the life before left; what cannot be read is told, and nothing is known."""
        if self._folder is None:
            return
        try:
            content = await self._folder.read(self._name)
            if content is not None:
                self.value = self._from_bytes(content, self._name)
        except BerthError as error:
            _log.warning("what was known is lost", of=self._what, reason=error)

    async def keep(self, value: T) -> None:
        """It is this from now on; a disk that refuses is told."""
        if value == self.value:
            return
        self.value = value
        try:
            async with self._writing:
                # Whoever waited here may be behind: what is known now is written.
                await self._write(self.value)
        except HostError as error:
            _log.warning("what is known is not noted down", of=self._what, reason=error)

    async def change(self, changed: Callable[[T], T]) -> None:
        """Change it on disk, and then in memory; what is learnt in between stays.

        A cancel is served before or after, never between.

        Raises:
            HostError: The disk refused; nothing has changed.
        """
        async with self._writing:
            with trio.CancelScope(shield=True):
                await self._write(changed(self.value))
            self.value = changed(self.value)

    async def _write(self, value: T) -> None:
        if self._folder is not None:
            await self._folder.make()
            await self._folder.write(self._name, self._to_bytes(value))
