"""What an event message means."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from berth.host.netlink.events import Changed, Removed, parse_event
from berth.host.netlink.link import parse_link
from berth.host.netlink.message import Message
from berth.host.netlink.neighbor import Neighbor, delete_neighbor, new_neighbor
from berth.host.netlink.nsid import Nsid, new_nsid
from tests.unit.host.netlink.capture import load
from tests.unit.host.netlink.strategies import received

TABLES = load()


@pytest.mark.parametrize(
    "table", ["link", "address", "route", "rule", "neighbor", "nexthop", "nsid"]
)
def test_new_and_gone_entries_of_each_table_are_events(table: str) -> None:
    """The odd message type behind the new one is the same entry's end."""

    message = TABLES[table][0]
    gone = Message(type=message.type + 1, body=message.body)
    new, removed = parse_event(message), parse_event(gone, 4)

    assert isinstance(new, Changed)
    assert isinstance(removed, Removed)
    assert new.value == removed.value
    assert (new.nsid, removed.nsid) == (None, 4)


def test_link_event_carries_the_link() -> None:
    """An event's link is decoded as a dumped one."""

    message = TABLES["link"][1]

    assert parse_event(message, 0) == Changed(value=parse_link(message), nsid=0)


def test_bridge_that_lets_a_port_go_removes_no_link() -> None:
    """The same message type in the same group, but of the bridge family: the link lives on."""

    body = b"\x07" + TABLES["link"][1].body[1:]

    assert parse_event(Message(type=17, body=body)) is None


def test_namespace_that_ends_is_removed() -> None:
    """RTM_DELNSID tells which id is free again."""

    body = received(new_nsid(3, number=6)).body

    assert parse_event(Message(type=89, body=body)) == Removed(value=Nsid(number=6))


def test_neighbor_of_a_bridge_is_no_event() -> None:
    """Forwarding entries share the neighbor messages."""

    neighbor = Neighbor(index=3, ip=IPv4Address("192.0.2.9"))
    message = received(new_neighbor(neighbor))
    foreign = Message(type=message.type, body=b"\x07" + message.body[1:])

    assert parse_event(foreign) is None
    assert parse_event(received(delete_neighbor(neighbor))) == Removed(value=neighbor)


def test_unknown_message_is_no_event() -> None:
    """Another group's message is passed over."""

    assert parse_event(Message(type=80, body=b"")) is None
