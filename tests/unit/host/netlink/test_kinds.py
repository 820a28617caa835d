"""Kinds of link that are only read: tunnels, whose attributes pyroute2 numbers alike."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import Attributes, parse_attributes
from berth.host.netlink.ip import IpAddress
from berth.host.netlink.kinds import KindData, Tunnel, parse_kind


def _numbers(kind: str) -> dict[str, int]:
    """Numbers of a kind's attributes by their names, as pyroute2 has them."""
    rows = ifinfmsg.ifinfo.data_map[kind].nla_map
    return {row[0]: number for number, row in enumerate(rows)}


def _read(kind: str, *parts: bytes) -> KindData | None:
    return parse_kind(kind, parse_attributes(b"".join(parts)))


@pytest.mark.parametrize(
    ("kind", "prefix", "remote"),
    [
        ("ipip", "IFLA_IPIP", IPv4Address("192.0.2.9")),
        ("sit", "IFLA_SIT", IPv4Address("192.0.2.9")),
        ("ip6tnl", "IFLA_IP6TNL", IPv6Address("2001:db8::9")),
        ("gre", "IFLA_GRE", IPv4Address("192.0.2.9")),
        ("gretap", "IFLA_GRE", IPv4Address("192.0.2.9")),
        ("ip6gre", "IFLA_IP6GRE", IPv6Address("2001:db8::9")),
        ("ip6gretap", "IFLA_IP6GRE", IPv6Address("2001:db8::9")),
        ("vti", "IFLA_VTI", IPv4Address("192.0.2.9")),
        ("vti6", "IFLA_VTI", IPv6Address("2001:db8::9")),
    ],
)
def test_tunnel_tells_its_link_and_its_other_end(kind: str, prefix: str, remote: IpAddress) -> None:
    """Each family of tunnels numbers the two in its own way."""

    number = _numbers(kind)
    parts = (
        nla.u32(number[f"{prefix}_LINK"], 7),
        nla.attribute(number[f"{prefix}_REMOTE"], remote.packed),
    )

    assert Tunnel(underlay=7, remote=remote) == _read(kind, *parts)


@pytest.mark.parametrize(
    ("attribute", "remote"),
    [
        ("IFLA_GENEVE_REMOTE", IPv4Address("192.0.2.9")),
        ("IFLA_GENEVE_REMOTE6", IPv6Address("2001:db8::9")),
    ],
)
def test_geneve_tells_its_other_end_alone(attribute: str, remote: IpAddress) -> None:
    """Its first attribute is its identifier, not a link."""

    number = _numbers("geneve")
    parts = (
        nla.u32(number["IFLA_GENEVE_ID"], 42),
        nla.attribute(number[attribute], remote.packed),
    )

    assert Tunnel(remote=remote) == _read("geneve", *parts)


@pytest.mark.parametrize("parts", [(), (nla.attribute(3, bytes(4)),)])
def test_tunnel_with_several_other_ends_tells_none(parts: tuple[bytes, ...]) -> None:
    """Nothing, or the zero address, is told by one that takes packets from everywhere."""

    assert Tunnel() == _read("ipip", *parts)


def test_unknown_kind_tells_nothing_of_itself() -> None:
    """A kind without data that matters here is its name alone."""

    assert parse_kind("ifb", Attributes()) is None
