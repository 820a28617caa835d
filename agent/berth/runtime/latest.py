"""State travels as its newest value: many readers, none of whom can hold up the writer.

A queue of states makes a slow reader work through values that no longer hold. Here a reader skips
to the newest, and a value that equals the one before wakes nobody.

Everything happens in the trio thread; a foreign thread comes in by ``run_sync_soon``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
import trio
from typing_extensions import Self

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class LatestStatistics:
    """What can be seen of a `Latest` from outside.

    Attributes:
        version: Number of different values set since the first.
        readers: Tasks that wait for the next value now.
    """

    version: int
    readers: int


class Latest(Generic[T]):
    """The newest value of something, to many readers.

    Args:
        value: The value until the first `set`; usually ``None`` for "not known yet".
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._version = 0
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def version(self) -> int:
        """Which value `get` gives now; read it beside `get`, without an ``await`` between."""
        return self._version

    def get(self) -> T:
        """Give the newest value."""
        return self._value

    def set(self, value: T) -> bool:
        """Put a new value in the place of the last.

        Never blocks; without readers it costs a comparison.

        Returns:
            Whether the value differs from the one before; readers are woken only then.
        """
        if value is self._value or value == self._value:
            return False
        self._value = value
        self._version += 1
        self._lot.unpark_all()
        return True

    async def wait_changed(self, since: int) -> int:
        """Wait until the value is another than the one of version ``since``.

        Returns:
            The version that `get` gives now; values between are skipped.
        """
        if self._version != since:
            await trio.lowlevel.checkpoint()
        while self._version == since:
            await self._lot.park()
        return self._version

    async def wait_value(self, condition: Callable[[T], bool]) -> T:
        """Wait until a value meets the condition, and give it.

        A value that holds only between two turns of the reader may be missed, as with any skip.
        """
        version = self._version
        await trio.lowlevel.checkpoint()
        while not condition(value := self._value):
            version = await self.wait_changed(version)
        return value

    def changes(self) -> Changes[T]:
        """Give an iterator: the value of now first, then each newer one when it is asked for."""
        return Changes(self)

    def statistics(self) -> LatestStatistics:
        """Give figures for tests and for the operator."""
        return LatestStatistics(version=self._version, readers=len(self._lot))


class Changes(Generic[T]):
    """Asynchronous iterator over a `Latest`; it never ends by itself.

    Args:
        latest: Whose values to give.
    """

    def __init__(self, latest: Latest[T]) -> None:
        self._latest = latest
        self._seen: int | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._seen is None:
            await trio.lowlevel.checkpoint()
            self._seen = self._latest.version
        else:
            self._seen = await self._latest.wait_changed(self._seen)
        return self._latest.get()
