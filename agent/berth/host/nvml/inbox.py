"""A bounded queue of events, from the thread that hears them to the task that reads them."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from berth.host.nvml.values import EventKind, NvmlEvent

BOUND: Final = 256


class Inbox:
    """Keeps the first `BOUND` events that nobody has read; those beyond become one overflow."""

    def __init__(self) -> None:
        self._events: deque[NvmlEvent] = deque()
        self._overflowed = False
        self._lot = trio.lowlevel.ParkingLot()
        self.heard = 0
        self.dropped = 0

    def put_nowait(self, event: NvmlEvent) -> None:
        """Add an event; in the trio thread."""
        self.heard += 1
        if len(self._events) < BOUND:
            self._events.append(event)
        else:
            self.dropped += 1
            self._overflowed = True
        self._lot.unpark()

    async def receive(self) -> NvmlEvent:
        """Wait for the next event; an overflow comes after those that were kept."""
        await trio.lowlevel.checkpoint()
        while not self._events and not self._overflowed:
            await self._lot.park()
        if self._events:
            return self._events.popleft()
        self._overflowed = False
        return NvmlEvent(kind=EventKind.OVERFLOW)
