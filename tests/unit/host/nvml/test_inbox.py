"""The bounded queue of events."""

from __future__ import annotations

import trio

from berth.host.nvml.inbox import BOUND, Inbox
from berth.host.nvml.values import EventKind, NvmlEvent


def xid(number: int) -> NvmlEvent:
    """Give an event."""
    return NvmlEvent(kind=EventKind.XID, data=number)


async def test_events_come_in_their_order() -> None:
    """Also to a reader who was there first."""

    inbox, seen = Inbox(), []

    async def read() -> None:
        seen.extend([await inbox.receive(), await inbox.receive()])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        inbox.put_nowait(xid(1))
        inbox.put_nowait(xid(2))

    assert seen == [xid(1), xid(2)]


async def test_overflow_is_one_event_after_what_was_kept() -> None:
    """What was dropped is counted."""

    inbox = Inbox()
    for number in range(BOUND + 3):
        inbox.put_nowait(xid(number))
    seen = [await inbox.receive() for _ in range(BOUND + 1)]
    inbox.put_nowait(xid(9))

    assert seen[:-1] == [xid(number) for number in range(BOUND)]
    assert seen[-1].kind is EventKind.OVERFLOW
    assert (inbox.heard, inbox.dropped) == (BOUND + 4, 3)
    assert await inbox.receive() == xid(9)
