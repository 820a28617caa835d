"""Listening to the machine: what happens when a socket breaks, or is not given at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from typing_extensions import Self

from berth.errors import BerthError, HostError, RemoteProtocolError
from berth.host.netlink import events
from berth.host.netlink.events import Changed, Event, Overflow
from berth.host.netlink.link import Link
from berth.host.uevents import Uevent
from berth.node.inventory import events as machinewatch
from berth.node.inventory.events import BUFFER_BYTES, watch_machine

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

LINK = Changed(value=Link(index=3, name="ens1f0"))
PLUGGED = Uevent(action="bind", subsystem="pci", path="/devices/a")


class Ear:
    """Gives what it is told to give, then nothing more.

    Args:
        told: Events that come together, or errors.
    """

    def __init__(self, *told: Any) -> None:
        self._told = list(told)
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    async def receive(self) -> tuple[Any, ...]:
        """Wait for events."""
        await trio.lowlevel.checkpoint()
        if not self._told:
            await trio.sleep_forever()
        told = self._told.pop(0)
        if isinstance(told, BerthError):
            raise told
        return (told,)


class World:
    """What is opened, and what is heard of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sockets: list[Any] = [Ear()]
        self.monitors: list[Any] = [Ear()]
        self.groups: list[Sequence[int]] = []
        self.heard: list[Event] = []
        self.plugged: list[Uevent] = []
        monkeypatch.setattr(machinewatch, "EventSocket", self._open_socket)
        monkeypatch.setattr(machinewatch, "UeventMonitor", self._open_monitor)

    async def watch(self, nursery: trio.Nursery) -> None:
        """Listen, in a task of the nursery."""
        await nursery.start(watch_machine, self.heard.extend, self.plugged.extend)

    def _open_socket(self, groups: Sequence[int], *, buffer_bytes: int) -> Any:
        assert buffer_bytes == BUFFER_BYTES
        self.groups.append(groups)
        return _opened(self.sockets)

    def _open_monitor(self) -> Any:
        return _opened(self.monitors)


def _opened(ears: list[Any]) -> Any:
    ear = ears.pop(0)
    if isinstance(ear, BerthError):
        raise ear
    return ear


@pytest.fixture(name="world")
def _world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_events_of_both_sorts_are_told(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Each to whom it concerns."""

    world.sockets, world.monitors = [Ear(LINK)], [Ear(PLUGGED)]
    await world.watch(nursery)
    await trio.sleep(1)

    assert (world.heard, world.plugged) == ([LINK], [PLUGGED])


async def test_everything_that_the_guard_depends_on_is_heard(
    world: World, nursery: trio.Nursery
) -> None:
    """NW §1.3: links, addresses, routes, rules and nexthop objects, and ends of namespaces."""

    await world.watch(nursery)

    assert {*world.groups[0]} == {
        events.GROUP_LINK,
        events.GROUP_IPV4_ADDRESS,
        events.GROUP_IPV6_ADDRESS,
        events.GROUP_IPV4_ROUTE,
        events.GROUP_IPV6_ROUTE,
        events.GROUP_IPV4_RULE,
        events.GROUP_IPV6_RULE,
        events.GROUP_NEXTHOP,
        events.GROUP_NSID,
    }


@pytest.mark.parametrize(
    "fault", [HostError("netlink events", "broken"), RemoteProtocolError("netlink", "cut")]
)
async def test_broken_socket_is_opened_anew_and_events_count_as_lost(
    world: World, nursery: trio.Nursery, autojump_clock: MockClock, fault: BerthError
) -> None:
    """Whatever happened in between is found by the look that follows."""

    broken = Ear(LINK, fault)
    world.sockets = [broken, Ear(LINK)]
    await world.watch(nursery)
    await trio.sleep(10)

    assert broken.closed
    assert world.heard == [LINK, Overflow(), LINK]


async def test_socket_that_is_never_given_ends_the_watch(
    world: World, autojump_clock: MockClock
) -> None:
    """Without netlink nothing would ever be noticed."""

    world.sockets = [HostError("netlink events", "Operation not permitted", errno=1)]
    with pytest.raises(ExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            await world.watch(nursery)

    assert caught.group_contains(HostError, match="Operation not permitted")


async def test_machine_without_device_events_is_watched_by_links(
    world: World,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once told, and no more."""

    world.sockets = [Ear(LINK)]
    world.monitors = [HostError("uevents", "there is no libudev", mend="install libudev1")]
    await world.watch(nursery)
    await trio.sleep(3600)

    assert world.heard == [LINK]
    assert [r.getMessage() for r in caplog.records] == [
        "no device events here, links alone are followed"
    ]


async def test_lost_device_events_do_not_end_the_watch(
    world: World,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Links are still followed."""

    world.monitors = [Ear(PLUGGED, HostError("uevents", "cannot be listened to"))]
    world.sockets = [Ear(LINK)]
    await world.watch(nursery)
    await trio.sleep(1)

    assert (world.plugged, world.heard) == ([PLUGGED], [LINK])
    assert [r.getMessage() for r in caplog.records] == [
        "device events lost, links alone are followed"
    ]
