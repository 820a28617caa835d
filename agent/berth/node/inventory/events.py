"""Listens to the machine: netlink's events and udev's, for as long as it is asked to.

What breaks is opened anew, and whoever listens is told that events were lost, so that nothing is
missed for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from berth.errors import BerthError, HostError
from berth.host.netlink.events import (
    GROUP_IPV4_ADDRESS,
    GROUP_IPV4_ROUTE,
    GROUP_IPV4_RULE,
    GROUP_IPV6_ADDRESS,
    GROUP_IPV6_ROUTE,
    GROUP_IPV6_RULE,
    GROUP_LINK,
    GROUP_NEXTHOP,
    GROUP_NSID,
    Event,
    EventSocket,
    Overflow,
)
from berth.host.uevents import Uevent, UeventMonitor
from berth.runtime.backoff import BackOff
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

GROUPS: Final = (
    GROUP_LINK,
    GROUP_IPV4_ADDRESS,
    GROUP_IPV6_ADDRESS,
    GROUP_IPV4_ROUTE,
    GROUP_IPV6_ROUTE,
    GROUP_IPV4_RULE,
    GROUP_IPV6_RULE,
    GROUP_NEXTHOP,
    GROUP_NSID,
)
"""What is heard: all that the uplink guard depends on, and the ends of namespaces."""

BUFFER_BYTES: Final = 2 * 1024 * 1024
"""Room for events while the loop is busy: a hundred pods at once bring a thousand."""

_log = get_log(__name__)


class Watch(Protocol):
    """Calls back with what happens on the machine, until cancelled; started when it listens."""

    async def __call__(
        self,
        heard: Callable[[Sequence[Event]], None],
        plugged: Callable[[Sequence[Uevent]], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen.

        Args:
            heard: Takes events of the kernel's network tables, in their order.
            plugged: Takes events of devices.
        """


async def watch_machine(
    heard: Callable[[Sequence[Event]], None],
    plugged: Callable[[Sequence[Uevent]], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen to this machine, in the namespace of the trio thread.

    Raises:
        HostError: Netlink cannot be listened to at all.
    """
    async with trio.open_nursery() as nursery:
        await nursery.start(_follow_netlink, heard)
        monitor = await _open_monitor()
        if monitor is not None:
            nursery.start_soon(_follow_uevents, monitor, plugged)
        task_status.started()


async def _follow_netlink(
    heard: Callable[[Sequence[Event]], None], *, task_status: trio.TaskStatus[None]
) -> None:
    events = EventSocket(GROUPS, buffer_bytes=BUFFER_BYTES)
    task_status.started()
    backoff = BackOff(most_s=30.0)
    while True:
        try:
            with events:
                while True:
                    heard(await events.receive())
        except BerthError as error:
            backoff, delay_s = backoff.next_delay()
            _log.warning("netlink events lost, listening anew", reason=error, in_s=delay_s)
        await trio.sleep(delay_s)
        events = EventSocket(GROUPS, buffer_bytes=BUFFER_BYTES)
        heard((Overflow(),))


async def _open_monitor() -> UeventMonitor | None:
    try:
        return await run_in_thread("discovery", UeventMonitor)
    except HostError as error:
        _log.warning("no device events here, links alone are followed", reason=error)
        return None


async def _follow_uevents(
    monitor: UeventMonitor, plugged: Callable[[Sequence[Uevent]], None]
) -> None:
    try:
        while True:
            plugged(await monitor.receive())
    except HostError as error:
        _log.warning("device events lost, links alone are followed", reason=error)
