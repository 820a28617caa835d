"""Calls of one moment, which one thread makes in turn.

Eight GPUs are due together, and a thread for each would wake this process some fifty times. A call
that hangs holds up those behind it for `SHARED_S`; then each of these gets a thread of its own.
What has come back is told when the last one has, or at that time.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

import trio

SHARED_S: Final = 0.1
"""Longest that calls wait for one of their thread."""

ItemT = TypeVar("ItemT", bound="Made")


class Made(Protocol):
    """A call that keeps how it ended."""

    def make(self) -> None:
        """Make it; blocks, and raises nothing."""
        ...

    def fail(self, error: Exception) -> None:
        """It could not be made."""
        ...


class Convoy(Generic[ItemT]):
    """The calls, from the first one's coming until all were told; used in one trio run.

    Args:
        name: Of its threads.
        returned: Told of each call in the trio thread, when it was made or could not be.
    """

    def __init__(self, name: str, returned: Callable[[ItemT], None]) -> None:
        self._name = name
        self._returned = returned
        self._token = trio.lowlevel.current_trio_token()
        # Both are taken from by this thread and by the other: what a deque gives, it gives once.
        self._ahead: deque[ItemT] = deque()
        self._made: deque[ItemT] = deque()

    def add(self, call: ItemT) -> None:
        """Let a call come along; before it departs."""
        self._ahead.append(call)

    def depart(self) -> None:
        """Begin to make the calls."""
        self._start(self._ahead)

    def disband(self) -> None:
        """Wait for its thread no more: tell what was made, and make the others by themselves."""
        self._tell()
        for call in _taken(self._ahead):
            self._start(deque((call,)))

    def _start(self, calls: deque[ItemT]) -> None:
        def work() -> None:
            for call in _taken(calls):
                call.make()
                self._made.append(call)
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._tell)

        # A machine may have no thread for us; then nothing is out, and the next may ask.
        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError as error:
            for call in _taken(calls):
                call.fail(error)
                self._returned(call)

    def _tell(self) -> None:
        for call in _taken(self._made):
            self._returned(call)


def _taken(calls: deque[ItemT]) -> Iterator[ItemT]:
    with contextlib.suppress(IndexError):
        while True:
            yield calls.popleft()
