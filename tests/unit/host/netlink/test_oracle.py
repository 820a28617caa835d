"""A second opinion: pyroute2 reads what we write, and reads the kernel's messages as we do.

Its parser is known not to end on some foreign messages, so each test is limited by an alarm.
"""

from __future__ import annotations

import signal
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any

import pytest
from pyroute2.netlink.generic.ethtool import ethtool_linkmode_msg
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.nsidmsg import nsidmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from berth.host.netlink import generic, kinds
from berth.host.netlink.address import Address, new_address, parse_address
from berth.host.netlink.link import parse_link
from berth.host.netlink.linkrequest import LinkChange, add_altnames, new_link, set_link
from berth.host.netlink.message import Message, Request, encode_message, parse_messages
from berth.host.netlink.neighbor import Neighbor, new_neighbor, parse_neighbor
from berth.host.netlink.nsid import new_nsid
from berth.host.netlink.route import Hop, Route, mtu_metric, new_route, parse_route
from berth.host.netlink.rule import Rule, new_rule, parse_rule
from tests.unit.host.netlink.capture import load, load_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = load()
DATAGRAMS = load_bytes()
LIMIT_S = 10


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError(f"pyroute2 did not end within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _theirs(kind: type[Any], data: bytes) -> Any:
    message = kind(data)
    message.decode()
    return message


def _sent(kind: type[Any], request: Request) -> Any:
    """Give a request of ours as pyroute2 reads it."""
    message = Message(type=request.type, flags=request.flags | 5, sequence=1, body=request.body)
    return _theirs(kind, encode_message(message))


def _ours(message: Any) -> Message:
    """Give a message that pyroute2 wrote, as a socket of ours would."""
    message.encode()
    return parse_messages(bytes(message.data))[0]


def test_move_is_read_as_it_was_meant() -> None:
    """Namespace, name, sizes and the address generation mode."""

    change = LinkChange(
        name="net1", netns_fd=9, mtu=9000, mac="02:00:00:00:00:07", alias="a", addr_gen_mode=1,
        group=3, txqlen=77, master=0,
    )  # fmt: skip
    read = _sent(ifinfmsg, set_link(5, change))

    assert read["index"] == 5
    assert read.get_attr("IFLA_NET_NS_FD") == 9
    assert read.get_attr("IFLA_IFNAME") == "net1"
    assert read.get_attr("IFLA_MTU") == 9000
    assert read.get_attr("IFLA_ADDRESS") == "02:00:00:00:00:07"
    assert read.get_attr("IFLA_IFALIAS") == "a"
    assert read.get_attr("IFLA_GROUP") == 3
    assert read.get_attr("IFLA_TXQLEN") == 77
    assert read.get_attr("IFLA_MASTER") == 0
    assert read.get_nested("IFLA_AF_SPEC", "AF_INET6", "IFLA_INET6_ADDR_GEN_MODE") == 1


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        (kinds.Macvlan(mode="private"), "IFLA_MACVLAN_MODE", "private"),
        (kinds.Ipvlan(mode="l3s"), "IFLA_IPVLAN_MODE", 2),
        (kinds.Vlan(id=100, protocol="802.1ad"), "IFLA_VLAN_PROTOCOL", 0x88A8),
        (kinds.Vrf(table=1001), "IFLA_VRF_TABLE", 1001),
        (kinds.Vxlan(id=42, port=4790), "IFLA_VXLAN_PORT", 4790),
        (kinds.Bridge(vlan_filtering=True), "IFLA_BR_VLAN_FILTERING", 1),
    ],
)
def test_new_link_is_read_as_it_was_meant(
    kind: kinds.KindData, attribute: str, value: object
) -> None:
    """Kind, its data and the parent."""

    read = _sent(ifinfmsg, new_link("net0", kind, parent=3))

    assert read.get_attr("IFLA_LINK") == 3
    assert read.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") == kinds.kind_name(kind)
    assert read.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA", attribute) == value


def test_veth_peer_is_read_as_it_was_meant() -> None:
    """The other end is a link message inside the data."""

    read = _sent(ifinfmsg, new_link("v0", kinds.Veth(peer_name="v1")))
    peer = read.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA", "VETH_INFO_PEER")

    assert peer.get_attr("IFLA_IFNAME") == "v1"


def test_altnames_are_read_as_they_were_meant() -> None:
    """A list of names under one property list."""

    read = _sent(ifinfmsg, add_altnames(3, ["a", "b"]))

    assert read.get_attr("IFLA_PROP_LIST").get_attrs("IFLA_ALT_IFNAME") == ["a", "b"]


def test_address_is_read_as_it_was_meant() -> None:
    """Flags above 255 and lifetimes."""

    address = Address(
        index=3, ip=IPv6Interface("2001:db8::1/64"), flags=0x202, valid_s=60, preferred_s=30
    )
    read = _sent(ifaddrmsg, new_address(address))

    assert (read["family"], read["prefixlen"], read["index"]) == (10, 64, 3)
    assert read.get_attr("IFA_LOCAL") == read.get_attr("IFA_ADDRESS") == "2001:db8::1"
    assert read.get_attr("IFA_FLAGS") == 0x202
    cache = read.get_attr("IFA_CACHEINFO")
    assert (cache["ifa_valid"], cache["ifa_preferred"]) == (60, 30)


def test_route_is_read_as_it_was_meant() -> None:
    """Hops with routers of both families, a metric, a large table."""

    route = Route(
        destination=IPv4Network("203.0.113.0/24"),
        hops=(
            Hop(index=3, gateway=IPv4Address("192.0.2.3"), weight=2),
            Hop(index=4, gateway=IPv6Address("2001:db8::3")),
        ),
        table=1000,
        priority=50,
        metrics=mtu_metric(1300),
        preferred_source=IPv4Address("192.0.2.1"),
    )
    read = _sent(rtmsg, new_route(route))
    first, second = read.get_attr("RTA_MULTIPATH")

    assert (read["family"], read["dst_len"], read["table"], read["proto"]) == (2, 24, 0, 4)
    assert read.get_attr("RTA_TABLE") == 1000
    assert read.get_attr("RTA_DST") == "203.0.113.0"
    assert read.get_attr("RTA_PREFSRC") == "192.0.2.1"
    assert read.get_nested("RTA_METRICS", "RTAX_MTU") == 1300
    assert (first["oif"], first["hops"], first.get_attr("RTA_GATEWAY")) == (3, 1, "192.0.2.3")
    assert second.get_attr("RTA_VIA") == {"family": 10, "addr": "2001:db8::3"}


def test_rule_is_read_as_it_was_meant() -> None:
    """Selectors and the table."""

    rule = Rule(
        priority=101, table=1001, source=IPv4Network("192.0.2.1/32"), mark=3, mark_mask=255,
        input_link="v0", destination_ports=(80, 90), uids=(0, 10), suppress_prefix_length=0,
    )  # fmt: skip
    read = _sent(fibmsg, new_rule(rule))

    assert (read["family"], read["src_len"], read["action"]) == (2, 32, 1)
    assert read.get_attr("FRA_SRC") == "192.0.2.1"
    assert (read.get_attr("FRA_FWMARK"), read.get_attr("FRA_FWMASK")) == (3, 255)
    assert read.get_attr("FRA_IIFNAME") == "v0"
    assert read.get_attr("FRA_TABLE") == 1001
    assert read.get_attr("FRA_PRIORITY") == 101
    assert read.get_attr("FRA_SUPPRESS_PREFIXLEN") == 0
    assert read.get_attr("FRA_UID_RANGE") == "0:10"
    assert read.get_attr("FRA_DPORT_RANGE") == "80:90"


def test_neighbor_and_namespace_id_are_read_as_they_were_meant() -> None:
    """The small tables."""

    neighbor = Neighbor(index=3, ip=IPv4Address("192.0.2.254"), mac="02:00:00:00:00:fe")
    read = _sent(ndmsg, new_neighbor(neighbor))
    nsid = _sent(nsidmsg, new_nsid(9))

    assert (read["ifindex"], read["state"]) == (3, 0x80)
    assert read.get_attr("NDA_DST") == "192.0.2.254"
    assert read.get_attr("NDA_LLADDR") == "02:00:00:00:00:fe"
    assert nsid.get_attr("NETNSA_FD") == 9
    assert nsid.get_attr("NETNSA_NSID") in {-1, 0xFFFFFFFF}


def test_link_of_theirs_is_read_as_they_meant_it() -> None:
    """The reverse: pyroute2 writes, we read."""

    message = ifinfmsg()
    message["header"]["type"] = 16
    message["index"], message["flags"] = 7, 1
    message["attrs"] = [
        ("IFLA_IFNAME", "bond0"),
        ("IFLA_MTU", 9000),
        ("IFLA_ADDRESS", "02:00:00:00:00:07"),
        ("IFLA_MASTER", 9),
        ("IFLA_PARENT_DEV_NAME", "0000:41:00.0"),
        (
            "IFLA_LINKINFO",
            {
                "attrs": [
                    ("IFLA_INFO_KIND", "bond"),
                    ("IFLA_INFO_DATA", {"attrs": [("IFLA_BOND_MODE", 4)]}),
                ]
            },
        ),
    ]
    link = parse_link(_ours(message))

    assert (link.index, link.name, link.up, link.mtu) == (7, "bond0", True, 9000)
    assert (link.mac, link.master, link.parent_device) == ("02:00:00:00:00:07", 9, "0000:41:00.0")
    assert (link.kind, link.kind_data) == ("bond", kinds.Bond(mode="802.3ad"))


def test_address_route_and_rule_of_theirs_are_read_as_they_meant_them() -> None:
    """The reverse for the tables of IP."""

    address, route, rule = ifaddrmsg(), rtmsg(), fibmsg()
    address["family"], address["prefixlen"], address["index"] = 2, 24, 3
    address["attrs"] = [("IFA_LOCAL", "192.0.2.1"), ("IFA_ADDRESS", "192.0.2.1")]
    route["family"], route["dst_len"], route["type"], route["proto"] = 2, 8, 1, 4
    route["attrs"] = [
        ("RTA_DST", "10.0.0.0"),
        ("RTA_OIF", 3),
        ("RTA_GATEWAY", "192.0.2.254"),
        ("RTA_TABLE", 1000),
    ]
    rule["family"], rule["dst_len"], rule["action"] = 2, 8, 1
    rule["attrs"] = [("FRA_DST", "10.0.0.0"), ("FRA_TABLE", 1000), ("FRA_PRIORITY", 5)]

    assert parse_address(_ours(address)) == Address(index=3, ip=IPv4Interface("192.0.2.1/24"))
    assert parse_route(_ours(route)) == Route(
        destination=IPv4Network("10.0.0.0/8"),
        hops=(Hop(index=3, gateway=IPv4Address("192.0.2.254")),),
        table=1000,
    )
    assert parse_rule(_ours(rule)) == Rule(
        destination=IPv4Network("10.0.0.0/8"), table=1000, priority=5, protocol=0
    )


def test_captured_links_are_read_alike() -> None:
    """Both decoders find the same in what the kernel sent."""

    for data, message in zip(DATAGRAMS["link"], TABLES["link"], strict=True):
        read, link = _theirs(ifinfmsg, data), parse_link(message)
        properties = read.get_attr("IFLA_PROP_LIST")
        assert link.index == read["index"]
        assert link.flags == read["flags"]
        assert link.name == read.get_attr("IFLA_IFNAME")
        assert link.mtu == read.get_attr("IFLA_MTU")
        assert link.mac == read.get_attr("IFLA_ADDRESS")
        assert link.operstate == read.get_attr("IFLA_OPERSTATE").lower()
        assert link.txqlen == read.get_attr("IFLA_TXQLEN")
        assert link.parent == (read.get_attr("IFLA_LINK") or 0)
        assert link.master == (read.get_attr("IFLA_MASTER") or 0)
        assert link.kind == (read.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or "")
        assert link.carrier_changes == read.get_attr("IFLA_CARRIER_CHANGES")
        assert list(link.altnames) == (
            properties.get_attrs("IFLA_ALT_IFNAME") if properties else []
        )


def test_captured_addresses_routes_rules_and_neighbors_are_read_alike() -> None:
    """The same for the tables of IP."""

    for data, message in zip(DATAGRAMS["address"], TABLES["address"], strict=True):
        read, address = _theirs(ifaddrmsg, data), parse_address(message)
        local = read.get_attr("IFA_LOCAL") or read.get_attr("IFA_ADDRESS")
        assert str(address.ip) == f"{local}/{read['prefixlen']}"
        assert address.flags == read.get_attr("IFA_FLAGS")
    for data, message in zip(DATAGRAMS["route"], TABLES["route"], strict=True):
        read, route = _theirs(rtmsg, data), parse_route(message)
        assert route is not None
        assert route.table == read.get_attr("RTA_TABLE")
        assert route.destination.prefixlen == read["dst_len"]
        assert route.priority == (read.get_attr("RTA_PRIORITY") or 0)
        assert (
            len(route.hops) == len(read.get_attr("RTA_MULTIPATH") or read.get_attrs("RTA_OIF"))
            or route.type == 6
        )
    for data, message in zip(DATAGRAMS["rule"], TABLES["rule"], strict=True):
        read, rule = _theirs(fibmsg, data), parse_rule(message)
        assert rule is not None
        assert (rule.table, rule.priority) == (
            read.get_attr("FRA_TABLE"),
            read.get_attr("FRA_PRIORITY") or 0,
        )
    for data, message in zip(DATAGRAMS["neighbor"], TABLES["neighbor"], strict=True):
        read, neighbor = _theirs(ndmsg, data), parse_neighbor(message)
        assert neighbor is not None
        assert str(neighbor.ip) == read.get_attr("NDA_DST")
        assert neighbor.mac == read.get_attr("NDA_LLADDR")


def test_captured_link_modes_are_read_alike() -> None:
    """A generic message: pyroute2 knows the modes, though not the features."""

    read = _theirs(ethtool_linkmode_msg, DATAGRAMS["linkmodes"][0])
    modes = generic.parse_link_modes(TABLES["linkmodes"][0])

    assert modes.speed_mbps == read.get_attr("ETHTOOL_A_LINKMODES_SPEED")
    assert modes.autonegotiation == bool(read.get_attr("ETHTOOL_A_LINKMODES_AUTONEG"))
