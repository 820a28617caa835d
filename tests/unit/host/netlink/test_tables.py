"""Addresses, routes, rules, neighbors and namespace ids: what is asked for is what was meant."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address

import pytest
from hypothesis import given

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.address import (
    IFA_F_NODAD,
    Address,
    delete_address,
    dump_addresses,
    new_address,
    parse_address,
)
from berth.host.netlink.ip import any_address, parse_interface, parse_ip, parse_network
from berth.host.netlink.message import Message
from berth.host.netlink.neighbor import (
    Neighbor,
    delete_neighbor,
    dump_neighbors,
    new_neighbor,
    parse_neighbor,
)
from berth.host.netlink.nexthop import dump_next_hops, parse_next_hop
from berth.host.netlink.nsid import dump_nsids, get_nsid, new_nsid, parse_nsid
from berth.host.netlink.route import (
    Hop,
    Route,
    delete_route,
    dump_routes,
    get_route,
    mtu_metric,
    new_route,
    parse_route,
)
from berth.host.netlink.rule import Rule, delete_rule, dump_rules, new_rule, parse_rule
from tests.unit.host.netlink.strategies import (
    FUZZ,
    NEIGHBORS,
    addresses,
    received,
    routes,
    rules,
)

CREATE_EXCL = 0x600


@FUZZ
@given(addresses())
def test_address_arrives_as_it_was_meant(address: Address) -> None:
    """What the request says is the value, whatever its family, peer and lifetime."""

    assert parse_address(received(new_address(address))) == address


@FUZZ
@given(routes())
def test_route_arrives_as_it_was_meant(route: Route) -> None:
    """What the request says is the value, with one hop, several, none or an object."""

    assert parse_route(received(new_route(route))) == route


@FUZZ
@given(rules())
def test_rule_arrives_as_it_was_meant(rule: Rule) -> None:
    """What the request says is the value, with any of its selectors."""

    assert parse_rule(received(new_rule(rule))) == rule


@FUZZ
@given(NEIGHBORS)
def test_neighbor_arrives_as_it_was_meant(neighbor: Neighbor) -> None:
    """What the request says is the value."""

    assert parse_neighbor(received(new_neighbor(neighbor))) == neighbor


ADDRESS = Address(index=3, ip=IPv4Interface("192.0.2.1/24"), flags=IFA_F_NODAD)
ROUTE = Route(
    destination=IPv4Network("0.0.0.0/0"), hops=(Hop(index=3, gateway=IPv4Address("192.0.2.254")),)
)
NEIGHBOR = Neighbor(index=3, ip=IPv4Address("192.0.2.254"), mac="02:00:00:00:00:fe")


def test_new_entries_never_replace() -> None:
    """Each is made with CREATE and EXCL: REPLACE would take another link's route away."""

    made = (new_address(ADDRESS), new_route(ROUTE), new_rule(Rule()), new_neighbor(NEIGHBOR))

    assert [request.flags for request in made] == [CREATE_EXCL] * 4


def test_requests_are_called_by_the_kernels_word_and_their_object() -> None:
    """An error that begins with the label says what was tried."""

    made = [
        new_address(ADDRESS),
        delete_address(ADDRESS),
        new_route(ROUTE),
        delete_route(ROUTE),
        new_rule(Rule(priority=100)),
        delete_rule(Rule(priority=100)),
        new_neighbor(NEIGHBOR),
        delete_neighbor(NEIGHBOR),
        get_route(IPv4Address("192.0.2.9"), index=3),
        new_nsid(5),
    ]

    assert [(request.type, request.label) for request in made] == [
        (20, "RTM_NEWADDR 192.0.2.1/24"),
        (21, "RTM_DELADDR 192.0.2.1/24"),
        (24, "RTM_NEWROUTE 0.0.0.0/0"),
        (25, "RTM_DELROUTE 0.0.0.0/0"),
        (32, "RTM_NEWRULE 100"),
        (33, "RTM_DELRULE 100"),
        (28, "RTM_NEWNEIGH 192.0.2.254"),
        (29, "RTM_DELNEIGH 192.0.2.254"),
        (26, "RTM_GETROUTE 192.0.2.9"),
        (88, "RTM_NEWNSID"),
    ]


def test_deletion_names_the_same_entry() -> None:
    """A delete request identifies exactly what the new request made."""

    assert parse_route(received(delete_route(ROUTE))) == ROUTE
    assert parse_address(received(delete_address(ADDRESS))).ip == ADDRESS.ip
    removed = parse_neighbor(received(delete_neighbor(NEIGHBOR)))
    assert removed is not None
    assert (removed.index, removed.ip) == (3, NEIGHBOR.ip)


def test_dumps_carry_only_what_strict_checking_allows() -> None:
    """The heads are zero but for the family and, for addresses, the link."""

    assert dump_addresses(index=3).body == b"\0\0\0\0\x03\0\0\0"
    assert dump_neighbors().body == bytes(12)
    assert dump_neighbors(index=3).body == bytes(12) + nla.u32(8, 3)
    assert dump_routes(2).body == b"\x02" + bytes(11)
    assert dump_routes(2, table=5, index=3).body[12:] == nla.u32(15, 5) + nla.u32(4, 3)
    assert dump_rules(10).body == b"\x0a" + bytes(11)
    assert dump_next_hops().body == bytes(8)
    assert dump_nsids().body == bytes(4)


def test_namespace_id_is_asked_for_and_made_by_descriptor() -> None:
    """A descriptor names the namespace; -1 lets the kernel choose the number."""

    assert get_nsid(5).body == bytes(4) + nla.u32(3, 5)
    assert new_nsid(5).body == bytes(4) + nla.s32(1, -1) + nla.u32(3, 5)
    assert parse_nsid(received(new_nsid(5, number=12))).number == 12


def test_path_mtu_is_a_metric_or_none() -> None:
    """0 sets no metric at all."""

    assert mtu_metric(1400) == ((2, 1400),)
    assert mtu_metric(0) == ()
    assert ROUTE.mtu == 0


@pytest.mark.parametrize("family", [7, 28, 128])
def test_entries_of_other_families_are_passed_over(family: int) -> None:
    """A bridge's or MPLS's entries share the message types and are no IP entries."""

    body = bytes([family]) + bytes(11)

    assert parse_route(Message(type=24, body=body)) is None
    assert parse_rule(Message(type=32, body=body)) is None
    assert parse_neighbor(Message(type=28, body=body)) is None


V4_ROUTE_HEAD = b"\x02" + bytes(11)


@pytest.mark.parametrize(
    ("hops", "told"),
    [
        (b"\x08\x00\x00", "3 bytes left over after the last next hop"),
        (b"\x07\x00" + bytes(6), "a next hop claims 7 bytes of 8"),
        (b"\x09\x00" + bytes(6), "a next hop claims 9 bytes of 8"),
        (b"\x00\x00" + bytes(6), "a next hop claims 0 bytes of 8"),
    ],
)
def test_lying_next_hop_is_refused(hops: bytes, told: str) -> None:
    """The list of hops has lengths of its own, proven like any other."""

    message = Message(type=24, body=V4_ROUTE_HEAD + nla.attribute(9, hops))
    with pytest.raises(RemoteProtocolError, match=told):
        parse_route(message)


def test_malformed_values_are_the_kernels_fault() -> None:
    """Each table refuses a value of an impossible length and says which."""

    with pytest.raises(RemoteProtocolError, match="an IP address of 5 bytes"):
        parse_ip(bytes(5))
    with pytest.raises(RemoteProtocolError, match=r"a prefix 0.0.0.0/33"):
        parse_network(b"", 33, 2)
    with pytest.raises(RemoteProtocolError, match="a prefix ::/8 in family 2"):
        parse_network(IPv6Address(0).packed, 8, 2)
    with pytest.raises(RemoteProtocolError, match="family 7"):
        any_address(7)
    with pytest.raises(RemoteProtocolError, match=r"a prefix 0.0.0.0/33"):
        parse_interface(bytes(4), 33)
    with pytest.raises(RemoteProtocolError, match="address lifetimes of 4 bytes"):
        parse_address(
            Message(type=20, body=b"\2" + bytes(7) + nla.u32(2, 0) + nla.u32(6, 0)),
        )
    with pytest.raises(RemoteProtocolError, match="a range of 2 bytes in a rule"):
        parse_rule(Message(type=32, body=V4_ROUTE_HEAD + nla.u16(20, 0)))
    with pytest.raises(RemoteProtocolError, match="a nexthop group of 4 bytes"):
        parse_next_hop(Message(type=104, body=bytes(8) + nla.u32(2, 0)))
    with pytest.raises(RemoteProtocolError, match="without an id"):
        parse_nsid(Message(type=88, body=bytes(4)))


@pytest.mark.parametrize(
    ("parse", "told"),
    [
        (parse_address, "an address message of 3 bytes"),
        (parse_route, "a route message of 3 bytes"),
        (parse_rule, "a rule message of 3 bytes"),
        (parse_neighbor, "a neighbor message of 3 bytes"),
        (parse_next_hop, "a nexthop message of 3 bytes"),
        (parse_nsid, "a namespace id message of 3 bytes"),
    ],
)
def test_message_shorter_than_its_head_is_refused(parse: object, told: str) -> None:
    """The fixed head is proven before it is read."""

    assert callable(parse)
    with pytest.raises(RemoteProtocolError, match=told):
        parse(Message(type=0, body=bytes(3)))
