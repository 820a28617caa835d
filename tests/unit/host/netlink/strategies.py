"""Values of the kernel's tables, drawn by hypothesis in the form in which the kernel tells them.

`FUZZ` is short by default, so that the whole folder takes seconds; BERTH_FUZZ_EXAMPLES=1000000
in the environment makes it thorough.
"""

from __future__ import annotations

import os
import string
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from berth.host.netlink import address, message
from berth.host.netlink.address import Address
from berth.host.netlink.ip import AF_INET, AF_INET6, IpAddress, IpNetwork
from berth.host.netlink.message import Message, Request
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.route import RTNH_F_ONLINK, Hop, Route
from berth.host.netlink.rule import FIB_RULE_INVERT, Rule

FUZZ = settings(
    max_examples=int(os.environ.get("BERTH_FUZZ_EXAMPLES", "50")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

U8 = st.integers(0, 0xFF)
U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFFFFFF)
INDEX = st.integers(1, 0x7FFFFFFF)
NAME = st.text(string.ascii_letters + string.digits + "._-é", min_size=1, max_size=7)
MAC = st.binary(min_size=6, max_size=6).map(lambda data: data.hex(":"))

V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
V6 = st.integers(0, 2**128 - 1).map(IPv6Address)


def received(request: Request) -> Message:
    """Give a request as its receiver sees it, through the bytes of a datagram."""
    sent = Message(type=request.type, flags=request.flags | 5, sequence=7, body=request.body)
    (parsed,) = message.parse_messages(message.encode_message(sent))
    return parsed


def networks(family: int, *, least: int = 0) -> st.SearchStrategy[IpNetwork]:
    """Draw prefixes of a family, at least so long."""
    if family == AF_INET:
        return st.builds(
            lambda ip, length: IPv4Network((ip, length), strict=False), V4, st.integers(least, 32)
        )
    return st.builds(
        lambda ip, length: IPv6Network((ip, length), strict=False), V6, st.integers(least, 128)
    )


def ips(family: int) -> st.SearchStrategy[IpAddress]:
    """Draw addresses of a family."""
    return V4 if family == AF_INET else V6


FAMILIES = st.sampled_from([AF_INET, AF_INET6])
SETTABLE_FLAGS = st.sampled_from(
    [0, address.IFA_F_NODAD, address.IFA_F_NOPREFIXROUTE, address.IFA_F_NODAD | 0x200]
)


@st.composite
def addresses(draw: st.DrawFn) -> Address:
    """Draw addresses as they can be set."""
    family = draw(FAMILIES)
    local = draw(ips(family))
    length = draw(st.integers(0, local.max_prefixlen))
    peer = draw(st.none() | ips(family).filter(lambda ip: ip != local))
    forever = draw(st.booleans())
    return Address(
        index=draw(INDEX),
        ip=_interface(local, length),
        peer=peer,
        broadcast=draw(st.none() | V4) if family == AF_INET else None,
        label=draw(st.just("") | NAME),
        scope=draw(U8),
        flags=draw(SETTABLE_FLAGS),
        priority=draw(U32),
        protocol=draw(U8),
        valid_s=0xFFFFFFFF if forever else draw(U32),
        preferred_s=0xFFFFFFFF if forever else draw(U32),
    )


def _interface(ip: IpAddress, length: int) -> IPv4Interface | IPv6Interface:
    if isinstance(ip, IPv4Address):
        return IPv4Interface((ip, length))
    return IPv6Interface((ip, length))


def hops(family: int) -> st.SearchStrategy[Hop]:
    """Draw ways out; a gateway of the other family is possible from IPv4 to IPv6."""
    gateways = V4 | V6 if family == AF_INET else V6
    return st.builds(
        Hop,
        index=st.integers(0, 0x7FFFFFFF),
        gateway=st.none() | gateways,
        weight=st.integers(1, 256),
        flags=st.sampled_from([0, RTNH_F_ONLINK]),
    )


@st.composite
def routes(draw: st.DrawFn) -> Route:
    """Draw routes as they can be set."""
    family = draw(FAMILIES)
    count = draw(st.integers(0, 3))
    ways: tuple[Hop, ...]
    if count == 1:
        only = draw(hops(family).filter(lambda hop: hop.index or hop.gateway is not None))
        ways = (Hop(index=only.index, gateway=only.gateway, flags=only.flags),)
    else:
        ways = tuple(draw(st.lists(hops(family), min_size=count, max_size=count)))
    metrics = draw(st.dictionaries(st.integers(1, 15), U32, max_size=4))
    return Route(
        destination=draw(networks(family)),
        hops=ways,
        table=draw(st.integers(1, 0xFFFFFFFF)),
        type=draw(U8),
        scope=draw(U8),
        protocol=draw(U8),
        source=draw(st.none() | networks(family, least=1)),
        preferred_source=draw(st.none() | ips(family)),
        priority=draw(U32),
        tos=draw(U8),
        preference=draw(U8),
        metrics=tuple(sorted(metrics.items())),
        congestion_control=draw(st.sampled_from(["", "reno"])),
        nexthop_id=draw(st.sampled_from([0, 0, 9])) if not ways else 0,
        flags=ways[0].flags if count == 1 else 0,
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Draw rules as they can be set."""
    family = draw(FAMILIES)
    return Rule(
        family=family,
        priority=draw(U32),
        table=draw(U32),
        action=draw(U8),
        source=draw(st.none() | networks(family, least=1)),
        destination=draw(st.none() | networks(family, least=1)),
        input_link=draw(st.just("") | NAME),
        output_link=draw(st.just("") | NAME),
        mark=draw(U32),
        mark_mask=draw(U32),
        tos=draw(U8),
        goto=draw(U32),
        suppress_prefix_length=draw(st.integers(-1, 128)),
        l3mdev=draw(st.booleans()),
        uids=draw(st.none() | st.tuples(U32, U32)),
        ip_protocol=draw(U8),
        source_ports=draw(st.none() | st.tuples(U16, U16)),
        destination_ports=draw(st.none() | st.tuples(U16, U16)),
        protocol=draw(U8),
        flags=draw(st.sampled_from([0, FIB_RULE_INVERT])),
    )


NEIGHBORS = st.builds(
    Neighbor,
    index=INDEX,
    ip=V4 | V6,
    mac=st.just("") | MAC,
    state=U16,
    flags=U8,
)
