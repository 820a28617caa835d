"""Whose turn it is to be looked at: one thread at a time, and each blamed for its own silence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import trio

from berth.errors import BerthError
from berth.host.netlink.rtnl import Rtnl
from berth.node.rounds import Unanswerable

OPEN_S: Final = 0.5
"""For so long an answer says that the kernel answers: many NICs are looked at in a row."""

T = TypeVar("T")


class Aside(Protocol):
    """Runs what blocks; a cancel leaves it behind."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Run it, and give what it gives."""
        ...


async def in_thread(work: Callable[[], T], /) -> T:
    """Run blocking work in a thread that nobody waits for once it is cancelled."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def ask_kernel() -> None:
    """Ask the kernel's network tables for what no NIC has a part in; blocks."""
    with Rtnl.home() as tables:
        tables.link(index=1)


class Turn:
    """One thread at a time for one sort of look, less those that are long out.

    Args:
        aside: Runs what blocks.
        first: What must have answered before any NIC is asked: whoever holds the kernel's lock
            holds up all looks, and the NIC that would be next is not to blame.
    """

    def __init__(self, aside: Aside, *, first: Callable[[], None] | None = None) -> None:
        self._aside = aside
        self._first = first
        self._place = trio.CapacityLimiter(1)
        self._out = 0
        self._open_s = -math.inf

    async def take(
        self, identity: str, look: Callable[[], T], *, patience_s: float
    ) -> T | Unanswerable:
        """Look at a NIC when it is one's turn.

        Args:
            patience_s: How long to wait until it can begin. A look that takes half as long gives
                its place to the next one, and goes on beside it.
        """
        until_s = trio.current_time() + patience_s
        with trio.move_on_at(until_s) as waiting:
            await self._place.acquire_on_behalf_of(identity)
        if waiting.cancelled_caught:
            return Unanswerable(why="looks at other NICs have not come back in time")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leave, identity, patience_s / 2)
            answer = await self._look(look, until_s)
            nursery.cancel_scope.cancel()
        return answer

    async def _look(self, look: Callable[[], T], until_s: float) -> T | Unanswerable:
        try:
            if not await self._is_open(until_s):
                return Unanswerable(why="the kernel's network tables do not answer")
            return await self._aside(look)
        except BerthError as error:
            return Unanswerable(why=str(error))

    async def _leave(self, identity: str, after_s: float) -> None:
        """Leave the place to others after that time, or when it is not needed any more."""
        try:
            await trio.sleep(after_s)
        finally:
            self._place.release_on_behalf_of(identity)

    async def _is_open(self, until_s: float) -> bool:
        """Whether what is asked first answers; while it is asked nobody asks it again."""
        first = self._first
        if first is None or trio.current_time() - self._open_s < OPEN_S:
            return True
        if self._out:
            return False

        def ask() -> None:
            try:
                first()
            finally:
                self._out -= 1

        self._out += 1
        with trio.move_on_at(until_s):
            await self._aside(ask)
            self._open_s = trio.current_time()
        return not self._out
