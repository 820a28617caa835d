"""Hears of links and addresses, at home and in pods, for as long as any NIC is watched.

One socket at home hears all namespaces that have a number there; it keeps none of them alive. What
breaks is opened anew, and whoever listens is told that events were lost.

Source: network.md §6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Final

import trio

from berth.errors import BerthError, HostError
from berth.host.netlink.events import (
    GROUP_IPV4_ADDRESS,
    GROUP_IPV6_ADDRESS,
    GROUP_LINK,
    Event,
    EventSocket,
    Overflow,
)
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log

BUFFER_BYTES: Final = 1024 * 1024
"""Room for events while the loop is busy."""

_GROUPS: Final = (GROUP_LINK, GROUP_IPV4_ADDRESS, GROUP_IPV6_ADDRESS)
_log = get_log(__name__)


async def hear_links(wanted: trio.Event, heard: Callable[[Iterable[Event]], None]) -> None:
    """Call back with what happens to links, until cancelled.

    Args:
        wanted: Set once there is anything to hear of.
        heard: Takes events, in their order; it does not block.
    """
    backoff = BackOff(first_s=1.0, most_s=60.0)
    await wanted.wait()
    while True:
        try:
            with _open() as events:
                # What happened before was heard by nobody.
                heard((Overflow(),))
                while True:
                    heard(await events.receive())
        except BerthError as error:
            backoff, delay_s = backoff.next_delay()
            _log.warning("links' events lost, listening anew", reason=error, in_s=delay_s)
            await trio.sleep(delay_s)


def _open() -> EventSocket:
    """Hear home and pods; home alone where other namespaces may not be heard."""
    try:
        return EventSocket(_GROUPS, all_nsids=True, buffer_bytes=BUFFER_BYTES)
    except HostError as error:
        if error.errno != errno.EPERM:
            raise
        _log.warning(
            "NICs in pods are looked at in turn only, since their events may not be heard",
            reason=error,
            mend="let the unit have CAP_NET_BROADCAST",
        )
        return EventSocket(_GROUPS, buffer_bytes=BUFFER_BYTES)
