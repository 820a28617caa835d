"""Calls that look at NICs and may hang, in threads; and whom to blame for it: not the next in turn.

Source: network.md §6.1, §7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import trio

from berth.errors import BerthError
from berth.host.netlink.rtnl import Rtnl
from berth.node.health.rounds import Unanswerable
from berth.runtime.threads import thread_limiter

OPEN_S: Final = 0.5
"""For so long an answer says that the kernel answers: many NICs are looked at in a row."""

THREADS: Final = 1024
"""More than can be out: two for each NIC. One that hangs takes the place of nobody's work."""

T = TypeVar("T")


class Aside(Protocol):
    """Runs what blocks; a cancel leaves it behind."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Run it, and give what it gives."""
        ...


async def in_thread(work: Callable[[], T], /) -> T:
    """Run blocking work in a thread that nobody waits for once it is cancelled."""
    limiter = thread_limiter("nic-looks", total=THREADS)
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)


def ask_kernel() -> None:
    """Ask the kernel's network tables for what no NIC has a part in; blocks."""
    with Rtnl.home() as tables:
        tables.link(index=1)


class Calls:
    """Makes the calls of one sort.

    Args:
        aside: Runs what blocks.
        first: What must have answered before any NIC is asked: whoever holds the kernel's lock
            holds up all looks, and the NIC that would be next is not to blame. At most one such
            call is out.
    """

    def __init__(self, aside: Aside, *, first: Callable[[], None] | None = None) -> None:
        self._aside = aside
        self._first = first
        self._out: set[object] = set()
        self._open_s = -math.inf

    async def make(self, look: Callable[[], T], *, patience_s: float) -> T | Unanswerable:
        """Look at a NIC.

        Args:
            patience_s: How long to wait for what must answer first; less than the look's deadline.
        """
        try:
            if not await self._is_open(patience_s):
                return Unanswerable(why="the kernel's network tables do not answer")
            return await self._aside(look)
        except BerthError as error:
            return Unanswerable(why=str(error))

    async def _is_open(self, patience_s: float) -> bool:
        first = self._first
        if first is None or trio.current_time() - self._open_s < OPEN_S:
            return True
        if self._out:
            return False

        asked, begun = object(), False

        def ask() -> None:
            nonlocal begun
            begun = True
            try:
                first()
            finally:
                self._out.discard(asked)

        self._out.add(asked)
        try:
            with trio.move_on_after(patience_s):
                await self._aside(ask)
                self._open_s = trio.current_time()
        except BaseException:
            if not begun:
                # No thread was to be had, or nobody waits any more: nothing is out.
                self._out.discard(asked)
            raise
        return not self._out
