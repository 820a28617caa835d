"""Events of real namespaces, as a trio task hears them."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from berth.errors import HostError
from berth.host.netlink import events
from berth.host.netlink.address import Address, new_address
from berth.host.netlink.events import Changed, Event, EventSocket, Overflow, Removed
from berth.host.netlink.link import Link
from berth.host.netlink.linkrequest import (
    UP,
    LinkChange,
    delete_link,
    dump_links,
    new_link,
    set_link,
)
from berth.host.netlink.message import encode_message
from berth.host.netlink.namespace import run_in_netns
from berth.host.netlink.nsid import Nsid
from berth.host.netlink.route import RT_SCOPE_LINK, Hop, Route, new_route
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.rule import Rule, new_rule
from berth.host.netlink.socket import open_in
from tests.netns import need_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.netns import ScratchNetns

pytestmark = pytest.mark.root

PATIENCE_S = 10
"""Only a test that fails waits so long: an event comes within milliseconds."""

LINKS = (events.GROUP_LINK,)


def _listen(
    namespace: ScratchNetns, groups: tuple[int, ...] = LINKS, *, all_nsids: bool = False
) -> EventSocket:
    return run_in_netns(namespace.path, partial(EventSocket, groups, all_nsids=all_nsids))


async def _wait(listener: EventSocket, wanted: Callable[[Event], bool]) -> Event:
    """Give the first event that is wanted."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for event in await listener.receive():
                if wanted(event):
                    return event


def _is_link(event: Event, name: str, kind: type[Changed | Removed]) -> bool:
    return isinstance(event, kind) and isinstance(event.value, Link) and event.value.name == name


async def test_link_that_comes_and_goes_is_heard(home: ScratchNetns, host_tables: Rtnl) -> None:
    """A waiting task wakes with the link, and again with its end."""

    with _listen(home) as listener:
        await trio.to_thread.run_sync(host_tables.apply, new_link("c0", "veth"))
        came = await _wait(listener, lambda event: _is_link(event, "c0", Changed))
        assert isinstance(came, Changed)
        assert isinstance(came.value, Link)
        await trio.to_thread.run_sync(host_tables.apply, delete_link(came.value.index))
        gone = await _wait(listener, lambda event: _is_link(event, "c0", Removed))

    assert came.nsid is None
    assert isinstance(gone, Removed)


async def test_moved_link_is_removed_at_home_under_its_old_name(
    home: ScratchNetns, host_tables: Rtnl, pod: ScratchNetns
) -> None:
    """NW §4.3: the host hears of the end alone, and of no name but its own."""

    link = host_tables.link(name="v0")
    assert link is not None
    with _listen(home) as listener:
        change = LinkChange(netns_fd=pod.fd, name="net1")
        await trio.to_thread.run_sync(host_tables.apply, set_link(link.index, change))
        heard = listener.receive_nowait()

    links = [event.value for event in heard if isinstance(event, (Changed, Removed))]
    names = {value.name for value in links if isinstance(value, Link) and value.mac == link.mac}
    assert any(_is_link(event, "v0", Removed) for event in heard)
    assert names == {"v0"}


async def test_tables_of_ip_are_heard(home: ScratchNetns, host_tables: Rtnl) -> None:
    """Addresses, routes and rules, each in the group of its family."""

    for end in host_tables.links():
        host_tables.apply(set_link(end.index, UP))
    link = host_tables.link(name="v0")
    assert link is not None
    address = Address(index=link.index, ip=IPv4Interface("192.0.2.1/24"), label="v0")
    destination = IPv4Network("203.0.113.0/24")
    route = Route(destination=destination, hops=(Hop(index=link.index),), scope=RT_SCOPE_LINK)
    rule = Rule(priority=100, table=1000)
    groups = (events.GROUP_IPV4_ADDRESS, events.GROUP_IPV4_ROUTE, events.GROUP_IPV4_RULE)
    with _listen(home, groups) as listener:
        for request in (new_address(address), new_route(route), new_rule(rule)):
            await trio.to_thread.run_sync(host_tables.apply, request)
        heard = listener.receive_nowait()

    values = [event.value for event in heard if isinstance(event, Changed)]
    assert address.ip in {value.ip for value in values if isinstance(value, Address)}
    assert route in values
    assert rule in values


async def test_port_that_leaves_its_bridge_is_not_removed(
    home: ScratchNetns, host_tables: Rtnl
) -> None:
    """The bridge's own message about it would look like the link's end."""

    need_kind("bridge")
    host_tables.apply(new_link("br0", "bridge"))
    link, bridge = host_tables.link(name="v0"), host_tables.link(name="br0")
    assert link is not None
    assert bridge is not None
    with _listen(home) as listener:
        for master in (bridge.index, 0):
            change = LinkChange(master=master)
            await trio.to_thread.run_sync(host_tables.apply, set_link(link.index, change))
        heard = listener.receive_nowait()

    changed = [event.value for event in heard if isinstance(event, Changed)]
    changes = [value for value in changed if getattr(value, "name", "") == "v0"]
    assert [event for event in heard if isinstance(event, Removed)] == []
    assert {getattr(value, "master", None) for value in changes} == {bridge.index, 0}


async def test_links_of_a_pod_are_heard_from_home_by_its_id(
    home: ScratchNetns, host_tables: Rtnl, pod: ScratchNetns, pod_tables: Rtnl
) -> None:
    """One socket at home hears each namespace that has an id, and says which it was."""

    with _listen(home, all_nsids=True) as listener:
        nsid = await trio.to_thread.run_sync(host_tables.ensure_nsid, pod.path)
        await trio.to_thread.run_sync(pod_tables.apply, new_link("p0", "veth"))
        heard = await _wait(listener, lambda event: _is_link(event, "p0", Changed))

    assert isinstance(heard, Changed)
    assert heard.nsid == nsid


async def test_end_of_a_pod_is_heard_by_its_id(
    home: ScratchNetns, host_tables: Rtnl, pod: ScratchNetns
) -> None:
    """Neither the id nor the listening keeps the namespace; its end is an event."""

    groups = (events.GROUP_LINK, events.GROUP_NSID)
    with _listen(home, groups, all_nsids=True) as listener:
        nsid = await trio.to_thread.run_sync(host_tables.ensure_nsid, pod.path)
        made = await _wait(listener, lambda event: getattr(event, "value", 0) == Nsid(number=nsid))
        pod.end()
        ended = await _wait(listener, lambda event: event == Removed(value=Nsid(number=nsid)))

    assert made == Changed(value=Nsid(number=nsid))
    assert isinstance(ended, Removed)


async def test_lost_events_are_told_once(home: ScratchNetns, host_tables: Rtnl) -> None:
    """A slow reader hears of an overflow once, then of what happens later."""

    link = host_tables.link(name="v0")
    assert link is not None
    small = partial(EventSocket, LINKS, buffer_bytes=4096)
    with run_in_netns(home.path, small) as listener:
        for number in range(60):
            change = LinkChange(mtu=1300 + number)
            await trio.to_thread.run_sync(host_tables.apply, set_link(link.index, change))
        heard: list[Event] = []
        while more := listener.receive_nowait():
            heard.extend(more)
        await trio.to_thread.run_sync(host_tables.apply, new_link("c0", "veth"))
        later = await _wait(listener, lambda event: _is_link(event, "c0", Changed))

    assert heard.count(Overflow()) == 1
    assert len(heard) < 60
    assert isinstance(later, Changed)


async def test_waiting_task_is_told_when_the_socket_closes(home: ScratchNetns) -> None:
    """Closing wakes the reader, and may be done twice."""

    listener = _listen(home)
    woken = trio.Event()

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await listener.receive()
        woken.set()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            listener.close()
    listener.close()
    assert woken.is_set()


def test_unknown_group_is_refused(home: ScratchNetns) -> None:
    """The kernel's number comes with the error, and nothing stays open."""

    with pytest.raises(HostError, match="netlink events: Invalid argument"):
        EventSocket([100000])


async def test_closed_socket_is_told_to_who_reads_it(home: ScratchNetns) -> None:
    """Reading after the end is a fault with the kernel's number."""

    listener = _listen(home)
    listener.close()

    with pytest.raises(HostError, match="netlink events: Bad file descriptor"):
        listener.receive_nowait()


async def test_event_that_the_kernel_did_not_send_is_ignored(
    home: ScratchNetns, host_tables: Rtnl
) -> None:
    """A process that sends a forged event to our port is not listened to."""

    link = host_tables.netlink.dump(dump_links())[0]
    with _listen(home) as listener, open_in(home.path) as stranger:
        port = listener._sock.getsockname()[0]
        stranger._sock.sendto(encode_message(link), (port, 0))
        assert listener.receive_nowait() == ()
        await trio.to_thread.run_sync(host_tables.apply, new_link("c0", "veth"))
        heard = await _wait(listener, lambda event: _is_link(event, "c0", Changed))

    assert isinstance(heard, Changed)
