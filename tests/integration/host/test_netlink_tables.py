"""Addresses, routes, rules and neighbors of a real kernel, through our own requests."""

from __future__ import annotations

import errno
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import TYPE_CHECKING

import pytest

from berth.errors import HostError
from berth.host.netlink.address import (
    IFA_F_NODAD,
    IFA_F_NOPREFIXROUTE,
    Address,
    delete_address,
    new_address,
)
from berth.host.netlink.linkrequest import UP, set_link
from berth.host.netlink.neighbor import Neighbor, delete_neighbor, new_neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import (
    RT_SCOPE_LINK,
    RTN_BLACKHOLE,
    RTNH_F_ONLINK,
    Hop,
    Route,
    delete_route,
    mtu_metric,
    new_route,
)
from berth.host.netlink.rule import FIB_RULE_INVERT, Rule, delete_rule, new_rule

if TYPE_CHECKING:
    from berth.host.netlink.message import Request
    from berth.host.netlink.rtnl import Rtnl
    from tests.netns import ScratchNetns

pytestmark = pytest.mark.root


@pytest.fixture(name="index")
def _index(host_tables: Rtnl) -> int:
    """The interface index of v0, whose cable is up."""
    for end in host_tables.links():
        host_tables.apply(set_link(end.index, UP))
    link = host_tables.link(name="v0")
    assert link is not None
    return link.index


def _refusal(tables: Rtnl, request: Request) -> HostError:
    with pytest.raises(HostError) as caught:
        tables.apply(request)
    return caught.value


def test_addresses_are_set_read_back_and_taken_away(host_tables: Rtnl, index: int) -> None:
    """Each comes back as it was set; a second time is EEXIST, gone is EADDRNOTAVAIL."""

    wanted = [
        Address(index=index, ip=IPv4Interface("192.0.2.1/24"), flags=IFA_F_NOPREFIXROUTE),
        Address(index=index, ip=IPv4Interface("198.51.100.1/32"), peer=IPv4Address("198.51.100.2")),
        Address(index=index, ip=IPv6Interface("2001:db8::1/64"), flags=IFA_F_NODAD),
    ]
    for address in wanted:
        host_tables.apply(new_address(address))
    found = {str(address.ip): address for address in host_tables.addresses(index=index)}

    for address in wanted:
        told = found[str(address.ip)]
        assert (told.index, told.peer, told.scope) == (index, address.peer, 0)
        assert told.flags & address.flags == address.flags
        assert told.permanent
        assert not told.tentative
        assert _refusal(host_tables, new_address(address)).errno == errno.EEXIST
        host_tables.apply(delete_address(told))
        assert _refusal(host_tables, delete_address(told)).errno == errno.EADDRNOTAVAIL


def test_address_with_detection_is_tentative_first(host_tables: Rtnl, index: int) -> None:
    """Without NODAD the address cannot be a source yet."""

    address = Address(index=index, ip=IPv6Interface("2001:db8::2/64"))
    host_tables.apply(new_address(address))
    told = {found.ip: found for found in host_tables.addresses(index=index)}[address.ip]
    route = Route(
        destination=IPv6Network("2001:db8:1::/48"),
        hops=(Hop(index=index),),
        preferred_source=IPv6Address("2001:db8::2"),
    )

    assert told.tentative
    assert _refusal(host_tables, new_route(route)).errno == errno.EINVAL


def _routes(index: int) -> list[Route]:
    return [
        Route(
            destination=IPv4Network("192.0.2.0/24"), hops=(Hop(index=index),), scope=RT_SCOPE_LINK
        ),
        Route(
            destination=IPv4Network("0.0.0.0/0"),
            hops=(Hop(index=index, gateway=IPv4Address("192.0.2.254")),),
            priority=50,
            metrics=mtu_metric(1400),
            preferred_source=IPv4Address("192.0.2.1"),
        ),
        Route(
            destination=IPv4Network("203.0.113.0/24"),
            hops=(Hop(index=index, gateway=IPv6Address("2001:db8::9")),),
            table=1000,
        ),
        Route(
            destination=IPv4Network("203.0.113.0/24"),
            hops=(
                Hop(index=index, gateway=IPv4Address("192.0.2.3"), weight=3),
                Hop(index=index, gateway=IPv4Address("192.0.2.4")),
            ),
        ),
        Route(
            destination=IPv4Network("198.51.100.0/24"),
            hops=(Hop(index=index, gateway=IPv4Address("10.99.0.1"), flags=RTNH_F_ONLINK),),
            flags=RTNH_F_ONLINK,
        ),
        Route(destination=IPv4Network("203.0.113.128/25"), type=RTN_BLACKHOLE),
        Route(
            destination=IPv6Network("::/0"),
            hops=(Hop(index=index, gateway=IPv6Address("2001:db8::fe")),),
            priority=1024,
            preference=1,
        ),
        Route(
            destination=IPv6Network("2001:db8:9::/48"),
            hops=(
                Hop(index=index, gateway=IPv6Address("2001:db8::3")),
                Hop(index=index, gateway=IPv6Address("2001:db8::4")),
            ),
            priority=100,
        ),
    ]


def test_routes_are_set_read_back_and_taken_away(host_tables: Rtnl, index: int) -> None:
    """Each route found by a dump equals the one that was asked for."""

    for ip in (IPv4Interface("192.0.2.1/24"), IPv6Interface("2001:db8::1/64")):
        flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE if ip.version == 4 else IFA_F_NODAD
        host_tables.apply(new_address(Address(index=index, ip=ip, flags=flags)))
    wanted = _routes(index)
    for route in wanted:
        host_tables.apply(new_route(route))

    assert set(wanted) <= set(host_tables.routes())
    assert set(wanted) - set(host_tables.routes(index=index)) == {wanted[5]}
    assert host_tables.routes(table=1000) == (wanted[2],)
    assert host_tables.routes(table=77) == ()
    for route in reversed(wanted):
        host_tables.apply(delete_route(route))
    assert not set(wanted) & set(host_tables.routes())
    assert _refusal(host_tables, delete_route(wanted[0])).errno == errno.ESRCH


def test_route_of_another_link_is_not_replaced(host_tables: Rtnl, index: int) -> None:
    """Same destination, table and metric by another link: EEXIST, and the first one stays."""

    other = host_tables.link(name="v1")
    assert other is not None
    destination = IPv4Network("0.0.0.0/0")
    first = Route(destination=destination, hops=(Hop(index=other.index),), scope=RT_SCOPE_LINK)
    host_tables.apply(new_route(first))
    second = Route(destination=destination, hops=(Hop(index=index),), scope=RT_SCOPE_LINK)
    refusal = _refusal(host_tables, new_route(second))

    assert refusal.errno == errno.EEXIST
    assert str(refusal) == "host: RTM_NEWROUTE 0.0.0.0/0: File exists"
    assert [told for told in host_tables.routes(table=254) if told.default] == [first]


def test_route_before_its_link_is_up_is_refused(host_tables: Rtnl, pod: ScratchNetns) -> None:
    """NW §4.3: routes come after "up"."""

    link = host_tables.link(name="v0")
    assert link is not None
    hops = (Hop(index=link.index, gateway=IPv4Address("192.0.2.254")),)
    route = Route(destination=IPv4Network("0.0.0.0/0"), hops=hops)

    assert _refusal(host_tables, new_route(route)).errno in {errno.ENETUNREACH, errno.ENETDOWN}


def test_way_to_an_address_is_what_packets_would_take(
    host_tables: Rtnl, pod_tables: Rtnl, index: int
) -> None:
    """The answer is the route in effect; none, unreachable and blackhole are no way."""

    host_tables.apply(new_address(Address(index=index, ip=IPv4Interface("192.0.2.1/24"))))
    for route in _routes(index)[1:2] + _routes(index)[5:6]:
        host_tables.apply(new_route(route))
    way = host_tables.route_to(IPv4Address("203.0.113.1"))

    assert way is not None
    assert way.hops == (Hop(index=index, gateway=IPv4Address("192.0.2.254")),)
    assert host_tables.route_to(IPv4Address("203.0.113.129")) is None
    assert pod_tables.route_to(IPv4Address("203.0.113.1")) is None
    assert pod_tables.route_to(IPv6Address("2001:db8::1")) is None


def test_nexthop_objects_are_seen_through(
    host_tables: Rtnl, home: ScratchNetns, index: int
) -> None:
    """A route behind a group names it, and the group its members with their links."""

    other = host_tables.link(name="v1")
    assert other is not None
    home.ip("nexthop", "add", "id", "5", "dev", "v0")
    home.ip("nexthop", "add", "id", "6", "dev", "v1")
    home.ip("nexthop", "add", "id", "7", "group", "5/6")
    route = Route(destination=IPv4Network("0.0.0.0/0"), nexthop_id=7, scope=RT_SCOPE_LINK)
    host_tables.apply(new_route(route))
    (told,) = [found for found in host_tables.routes(index=index) if found.default]

    assert host_tables.next_hops() == (
        NextHop(id=5, index=index),
        NextHop(id=6, index=other.index),
        NextHop(id=7, members=(5, 6)),
    )
    assert told.nexthop_id == 7


def test_rules_are_set_read_back_and_taken_away(host_tables: Rtnl) -> None:
    """Each rule found by a dump equals the one that was asked for."""

    before = host_tables.rules()
    wanted = [
        Rule(priority=100, table=1000, source=IPv4Network("192.0.2.1/32")),
        Rule(
            family=10,
            priority=101,
            table=1001,
            mark=3,
            mark_mask=255,
            input_link="v0",
            ip_protocol=6,
            source_ports=(1, 2),
            destination_ports=(80, 90),
            uids=(0, 10),
            suppress_prefix_length=0,
            flags=FIB_RULE_INVERT,
        ),
    ]
    for rule in wanted:
        host_tables.apply(new_rule(rule))

    assert set(host_tables.rules()) == {*before, *wanted}
    assert _refusal(host_tables, new_rule(wanted[0])).errno == errno.EEXIST
    for rule in wanted:
        host_tables.apply(delete_rule(rule))
    assert host_tables.rules() == before
    assert _refusal(host_tables, delete_rule(wanted[0])).errno == errno.ENOENT


def test_neighbors_are_set_read_back_and_taken_away(host_tables: Rtnl, index: int) -> None:
    """Permanent entries of both families."""

    wanted = [
        Neighbor(index=index, ip=ip, mac="02:00:00:00:00:fe")
        for ip in (IPv4Address("192.0.2.254"), IPv6Address("2001:db8::fe"))
    ]
    for neighbor in wanted:
        host_tables.apply(new_neighbor(neighbor))
    found = {told for told in host_tables.neighbors(index=index) if told.permanent}

    assert found == set(wanted)
    assert set(wanted) <= set(host_tables.neighbors())
    assert _refusal(host_tables, new_neighbor(wanted[0])).errno == errno.EEXIST
    for neighbor in wanted:
        host_tables.apply(delete_neighbor(neighbor))
    assert not [told for told in host_tables.neighbors(index=index) if told.permanent]
    assert _refusal(host_tables, delete_neighbor(wanted[0])).errno == errno.ENOENT


def test_iproute_sees_what_was_set(host_tables: Rtnl, home: ScratchNetns, index: int) -> None:
    """A third opinion: the tool that operators use."""

    address = Address(
        index=index,
        ip=IPv4Interface("192.0.2.1/24"),
        broadcast=IPv4Address("192.0.2.255"),
        label="v0:x",
        flags=IFA_F_NOPREFIXROUTE,
    )
    host_tables.apply(new_address(address))
    (shown,) = home.ip_json("-4", "address", "show", "dev", "v0")
    (info,) = shown["addr_info"]

    assert (info["local"], info["prefixlen"], info["label"]) == ("192.0.2.1", 24, "v0:x")
    assert info["noprefixroute"]
    assert address.ip in {told.ip for told in host_tables.addresses()}
