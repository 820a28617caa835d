"""One small file of the daemon's own: read at start, and written when what it tells changes.

Nothing may stop for it. What cannot be used is set aside, whether it is damaged or of a newer
program, so that whoever wants to know can look; the next write does not run over it. What the disk
does not give or take is told.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from berth.errors import BerthError, HostError
from berth.runtime.files import Folder
from berth.runtime.logs import get_log

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

_log = get_log(__name__)


class Writes(Protocol[T_contra]):
    """Turns a value into the bytes of its file."""

    def __call__(self, value: T_contra, /) -> bytes:
        """The file."""
        ...


class Reads(Protocol[T_co]):
    """Turns the bytes of a file into its value."""

    def __call__(self, content: bytes, /, *, where: str) -> T_co:
        """The value.

        Raises:
            StateError: It is no file of this program's.
        """
        ...


class StateFile(Generic[T]):
    """The file.

    Args:
        folder: Where it is, made when it is first written; ``None`` keeps nothing.
        name: Of the file.
        to_bytes: What is in it for a value.
        from_bytes: The value of what is in it.
        lost: What the journal says when what was written is not to be had.
        unwritten: What the journal says when the disk refuses, once until it takes a write again:
            each is of the whole value.
    """

    def __init__(
        self,
        folder: Folder | None,
        name: str,
        *,
        to_bytes: Writes[T],
        from_bytes: Reads[T],
        lost: str,
        unwritten: str,
    ) -> None:
        self._folder = folder
        self._name = name
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes
        self._lost = lost
        self._unwritten = unwritten
        self._refused = False

    async def read(self) -> T | None:
        """Give what was written last; ``None`` when there is no file, or none that can be used."""
        if self._folder is None:
            return None
        try:
            content = await self._folder.read(self._name)
        except HostError as error:
            _log.warning(self._lost, reason=error)
            return None
        if content is None:
            return None
        try:
            return self._from_bytes(content, where=str(self._folder.path / self._name))
        except BerthError as error:
            aside = await self._folder.set_aside(self._name)
            _log.warning(self._lost, reason=error, file=aside)
            return None

    async def write(self, value: T) -> None:
        """Put this in the place of what is there, on the disk when it returns.

        Raises:
            HostError: The disk refused; what is there stays.
        """
        if self._folder is not None:
            await self._folder.make()
            await self._folder.write(self._name, self._to_bytes(value))
        self._refused = False

    async def write_or_note(self, value: T) -> None:
        """As `write`; a disk that refuses is told."""
        try:
            await self.write(value)
        except HostError as error:
            self.note(error)

    def note(self, error: HostError) -> None:
        """Tell that a write was refused, unless that was told and none has succeeded since."""
        if not self._refused:
            _log.warning(self._unwritten, reason=error)
        self._refused = True
