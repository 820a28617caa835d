"""Messages that a real kernel sent, and what they say."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)

import pytest

from berth.host.netlink import generic, kinds
from berth.host.netlink.address import Address, parse_address
from berth.host.netlink.attributes import pack_attributes, parse_attributes
from berth.host.netlink.link import Link, Offload, parse_link
from berth.host.netlink.message import Refusal, encode_message, parse_messages, parse_refusal
from berth.host.netlink.neighbor import Neighbor, parse_neighbor
from berth.host.netlink.nexthop import NextHop, parse_next_hop
from berth.host.netlink.nsid import NO_NSID, Nsid, parse_nsid
from berth.host.netlink.route import RTN_BLACKHOLE, Hop, Route, parse_route
from berth.host.netlink.rule import Rule, parse_rule
from tests.unit.host.netlink.capture import load, load_bytes

TABLES = load()
HEADS = {"link": 16, "address": 8, "route": 12, "rule": 12, "neighbor": 12, "nexthop": 8}


@pytest.fixture(name="links")
def _links() -> dict[str, Link]:
    return {link.name: link for link in map(parse_link, TABLES["link"])}


def test_link_is_told_with_all_its_settings(links: dict[str, Link]) -> None:
    """Names, addresses, sizes, group and text of a veth end are those that were set."""

    link = links["v0"]

    assert link.names == ("v0", "enp1s0f0", "slot-one")
    assert (link.index, link.hardware_type, link.parent, link.parent_netnsid) == (3, 1, 2, None)
    assert (link.mac, link.perm_mac, link.broadcast) == (
        "02:00:00:00:00:01",
        "",
        "ff:ff:ff:ff:ff:ff",
    )
    assert (link.mtu, link.min_mtu, link.max_mtu, link.txqlen) == (1400, 68, 65535, 500)
    assert (link.alias, link.group, link.kind, link.kind_data) == ("uplink", 7, "veth", None)
    assert (link.up, link.loopback, link.carrier, link.operstate) == (True, False, True, "up")
    assert link.carrier_changes == link.carrier_up_count + link.carrier_down_count == 2
    assert link.offload == Offload(
        gso_max_size=65536, gro_max_size=65536, gso_ipv4_max_size=65536, gro_ipv4_max_size=65536
    )
    assert (link.immovable, link.addr_gen_mode, link.xdp, link.vfs) == (False, 0, None, ())
    assert link.ipv4_conf["accept_redirects"] == 1
    assert set(link.ipv4_conf) == set(_conf_names())
    assert hash(link) == hash(parse_link(TABLES["link"][2]))


def _conf_names() -> tuple[str, ...]:
    """Give the settings that NW §6.2 lists."""
    return (
        "forwarding",
        "proxy_arp",
        "accept_redirects",
        "send_redirects",
        "rp_filter",
        "arp_filter",
        "arp_announce",
        "arp_ignore",
        "promote_secondaries",
        "arp_accept",
        "arp_notify",
        "accept_local",
        "src_valid_mark",
        "route_localnet",
        "ignore_routes_with_linkdown",
    )


def test_kinds_of_links_are_told(links: dict[str, Link]) -> None:
    """A child names its parent, a tunnel its underlay, a port its master's kind."""

    assert links["lo"].loopback
    assert links["lo"].immovable is True
    assert (links["mv0"].parent, links["mv0"].kind_data) == (3, kinds.Macvlan(mode="vepa"))
    assert links["br0"].kind_data == kinds.Bridge()
    assert (links["v1"].master, links["v1"].port_kind) == (links["br0"].index, "bridge")
    assert (links["v1"].promiscuity, links["v1"].allmulti) == (1, 1)
    assert links["vx0"].kind_data == kinds.Vxlan(
        id=42,
        underlay=3,
        remote=IPv4Address("192.0.2.9"),
        local=IPv4Address("192.0.2.1"),
        port=4790,
    )
    assert links["vx6"].kind_data == kinds.Vxlan(id=43, remote=IPv6Address("2001:db8::9"))


def test_addresses_are_told() -> None:
    """Peers, lifetimes and flags come with the address."""

    addresses = list(map(parse_address, TABLES["address"]))
    by_ip = {str(address.ip): address for address in addresses}

    assert by_ip["192.0.2.1/24"] == Address(
        index=3,
        ip=IPv4Interface("192.0.2.1/24"),
        broadcast=IPv4Address("192.0.2.255"),
        label="v0",
        flags=0x80,
    )
    assert by_ip["198.51.100.1/32"].peer == IPv4Address("198.51.100.2")
    assert by_ip["198.51.100.1/32"].flags == 0x280
    assert by_ip["2001:db8::1/64"].permanent
    assert by_ip["2001:db8::2/64"] == Address(
        index=3, ip=IPv6Interface("2001:db8::2/64"), flags=0x02, valid_s=3600, preferred_s=1800
    )
    assert not by_ip["2001:db8::2/64"].permanent
    assert by_ip["fe80::ff:fe00:1/64"].tentative
    assert not by_ip["fe80::ff:fe00:1/64"].dad_failed


def test_routes_are_told() -> None:
    """One hop, several, none, an object: each kind of route comes with its way out."""

    routes = [route for route in map(parse_route, TABLES["route"]) if route]
    by_destination = {str(route.destination): route for route in routes}

    assert by_destination["0.0.0.0/0"] == Route(
        destination=IPv4Network("0.0.0.0/0"),
        hops=(Hop(index=3, gateway=IPv4Address("192.0.2.254")),),
        protocol=3,
        priority=50,
        metrics=((2, 1300),),
    )
    assert by_destination["0.0.0.0/0"].mtu == 1300
    assert by_destination["0.0.0.0/0"].default
    assert by_destination["203.0.113.0/24"].hops == (
        Hop(index=3, gateway=IPv4Address("192.0.2.3"), weight=2),
        Hop(index=3, gateway=IPv6Address("2001:db8::3")),
    )
    assert (by_destination["203.0.113.128/25"].type, by_destination["203.0.113.128/25"].hops) == (
        RTN_BLACKHOLE,
        (),
    )
    assert by_destination["10.9.0.0/16"].table == 1000
    assert by_destination["10.9.0.0/16"].congestion_control == "reno"
    assert by_destination["10.9.0.0/16"].hops[0].flags == 4
    assert by_destination["10.8.0.0/16"].nexthop_id == 7
    assert by_destination["::/0"] == Route(
        destination=IPv6Network("::/0"),
        hops=(Hop(index=3, gateway=IPv6Address("2001:db8::fe")),),
        protocol=3,
        priority=1024,
        preference=1,
    )
    assert len(by_destination["2001:db8:9::/48"].hops) == 2
    assert by_destination["192.0.2.1/32"].preferred_source == IPv4Address("192.0.2.1")
    assert not by_destination["192.0.2.1/32"].default


def test_rules_are_told() -> None:
    """Every selector that the scene used comes back."""

    rules = {rule.priority: rule for rule in map(parse_rule, TABLES["rule"]) if rule}

    assert rules[100] == Rule(
        priority=100, table=1000, source=IPv4Network("192.0.2.1/32"), protocol=0
    )
    assert rules[101] == Rule(
        priority=101,
        table=1001,
        mark=3,
        mark_mask=0xFF,
        input_link="v0",
        ip_protocol=6,
        destination_ports=(80, 90),
        protocol=0,
    )
    assert rules[102] == Rule(
        priority=102,
        destination=IPv4Network("10.0.0.0/8"),
        suppress_prefix_length=0,
        protocol=0,
        flags=2,
    )
    assert rules[103] == Rule(
        family=10,
        priority=103,
        table=0,
        action=2,
        goto=32766,
        output_link="v1",
        uids=(0, 10),
        protocol=0,
    )


def test_neighbors_are_told() -> None:
    """The permanent ones are those that the scene set."""

    neighbors = [found for found in map(parse_neighbor, TABLES["neighbor"]) if found]

    assert {found for found in neighbors if found.permanent} == {
        Neighbor(index=3, ip=IPv4Address("192.0.2.254"), mac="02:00:00:00:00:fe"),
        Neighbor(index=3, ip=IPv6Address("2001:db8::fe"), mac="02:00:00:00:00:fe"),
    }


def test_nexthop_objects_are_told() -> None:
    """A group names its members, a single one its link and router."""

    assert {found.id: found for found in map(parse_next_hop, TABLES["nexthop"])} == {
        5: NextHop(id=5, index=3, gateway=IPv4Address("192.0.2.7")),
        6: NextHop(id=6, blackhole=True),
        7: NextHop(id=7, members=(5, 8)),
        8: NextHop(id=8, index=3, gateway=IPv4Address("192.0.2.8")),
    }


def test_namespace_without_id_is_told() -> None:
    """The kernel answers -1 for a namespace that nobody numbered."""

    assert parse_nsid(TABLES["nsid"][0]) == Nsid(number=NO_NSID)


def test_refusal_comes_in_the_kernels_words() -> None:
    """A name of more than 15 bytes is blamed by attribute and words."""

    assert parse_refusal(TABLES["refusal"][0]) == Refusal(
        errno=34, words="Attribute failed policy validation", offset=32
    )


def test_ethtool_answers_are_told_by_name() -> None:
    """A veth has a speed without modes, and features that are on, off or fixed."""

    features = generic.parse_features(TABLES["features"][0])
    modes = generic.parse_link_modes(TABLES["linkmodes"][0])

    assert generic.parse_family(TABLES["family"][0]) > generic.GENL_ID_CTRL
    assert "tx-checksum-ip-generic" in features.active & features.changeable & features.wanted
    assert "rx-gro-list" in features.changeable - features.active
    assert "vlan-challenged" in features.fixed - features.active
    assert modes == generic.LinkModes(
        speed_mbps=10000, duplex="full", autonegotiation=False, supported=frozenset()
    )


@pytest.mark.parametrize("table", sorted(TABLES))
def test_messages_are_written_again_as_they_came(table: str) -> None:
    """Nothing that the kernel sent is lost between bytes and messages, known or unknown."""

    for data in load_bytes()[table]:
        (message,) = parse_messages(data)
        assert encode_message(message) == data


@pytest.mark.parametrize("table", sorted(HEADS))
def test_attributes_are_written_again_as_they_came(table: str) -> None:
    """The same one level down."""

    for message in TABLES[table]:
        attributes = message.body[HEADS[table] :]
        assert pack_attributes(parse_attributes(attributes)) == attributes
