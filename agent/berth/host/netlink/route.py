"""Routes: values, decoding and requests.

No request here carries NLM_F_REPLACE: for the kernel a route with the same destination, table and
metric is the same route, whichever link it uses, so a replacing request takes away somebody
else's (seen with a pod's own default route). Routes are made with CREATE and EXCL, and the
refusal EEXIST is an answer to be looked into.

Source: include/uapi/linux/rtnetlink.h, net/ipv4/fib_frontend.c, net/ipv6/route.c.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import Attributes, parse_attributes
from berth.host.netlink.ip import (
    IpAddress,
    IpNetwork,
    family_known,
    family_of,
    parse_ip,
    parse_network,
    parse_optional_ip,
)
from berth.host.netlink.message import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Message, Request

RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_GETROUTE: Final = 26

RT_TABLE_MAIN: Final = 254
RT_TABLE_LOCAL: Final = 255
RT_SCOPE_UNIVERSE: Final = 0
RT_SCOPE_LINK: Final = 253
RT_SCOPE_HOST: Final = 254
RT_SCOPE_NOWHERE: Final = 255
RTN_UNICAST: Final = 1
RTN_LOCAL: Final = 2
RTN_BLACKHOLE: Final = 6
RTN_UNREACHABLE: Final = 7
RTN_PROHIBIT: Final = 8
RTPROT_REDIRECT: Final = 1
RTPROT_KERNEL: Final = 2
RTPROT_BOOT: Final = 3
RTPROT_STATIC: Final = 4
RTPROT_RA: Final = 9
RTNH_F_DEAD: Final = 1
RTNH_F_ONLINK: Final = 4
RTNH_F_LINKDOWN: Final = 16

_RTA_DST: Final = 1
_RTA_SRC: Final = 2
_RTA_OIF: Final = 4
_RTA_GATEWAY: Final = 5
_RTA_PRIORITY: Final = 6
_RTA_PREFSRC: Final = 7
_RTA_METRICS: Final = 8
_RTA_MULTIPATH: Final = 9
_RTA_TABLE: Final = 15
_RTA_VIA: Final = 18
_RTA_PREF: Final = 20
_RTA_NH_ID: Final = 30
_RTAX_MTU: Final = 2
_RTAX_CC_ALGO: Final = 16
_RTM_F_FIB_MATCH: Final = 0x2000

_HEAD: Final = struct.Struct("=BBBBBBBBI")
_HOP: Final = struct.Struct("=HBBi")
_VIA: Final = struct.Struct("=H")
_WHERE: Final = "netlink"


@attrs.frozen(kw_only=True)
class Hop:
    """One way out of a route.

    Attributes:
        index: Interface index of the link, 0 for none (left to the kernel).
        gateway: The router, of either family; None for a neighbor on the link.
        weight: Share among several hops, from 1 to 256.
        flags: RTNH_F_*; only `RTNH_F_ONLINK` is a wish, the rest the kernel's findings.
    """

    index: int = 0
    gateway: IpAddress | None = None
    weight: int = 1
    flags: int = 0


@attrs.frozen(kw_only=True)
class Route:
    """A route of one table.

    Attributes:
        destination: Where it leads; ``0.0.0.0/0`` or ``::/0`` for a default route.
        hops: Its ways out: none for a blackhole or behind a nexthop object, several for multipath.
        table: Routing table; 254 is main.
        type: RTN_*; 1 is unicast.
        scope: RT_SCOPE_*; IPv6 knows only 0.
        protocol: Who set it, RTPROT_*.
        source: Only for packets from there (IPv6).
        preferred_source: Local address for packets that have none yet.
        priority: Metric; IPv6 turns 0 into 1024.
        tos: Type of service that it is limited to.
        preference: Router preference (IPv6), as in RFC 4191: 0 medium, 1 high, 3 low.
        metrics: Pairs of RTAX_* and number, in ascending order.
        congestion_control: Name of the algorithm for connections, empty for the system's.
        nexthop_id: The nexthop object that holds its ways out, 0 for none.
        flags: RTM_F_* and those of a single hop, as the kernel reports them.
    """

    destination: IpNetwork
    hops: tuple[Hop, ...] = ()
    table: int = RT_TABLE_MAIN
    type: int = RTN_UNICAST
    scope: int = RT_SCOPE_UNIVERSE
    protocol: int = RTPROT_STATIC
    source: IpNetwork | None = None
    preferred_source: IpAddress | None = None
    priority: int = 0
    tos: int = 0
    preference: int = 0
    metrics: tuple[tuple[int, int], ...] = ()
    congestion_control: str = ""
    nexthop_id: int = 0
    flags: int = 0

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6."""
        return family_of(self.destination)

    @property
    def mtu(self) -> int:
        """Path MTU in bytes, 0 when the route sets none."""
        return dict(self.metrics).get(_RTAX_MTU, 0)

    @property
    def default(self) -> bool:
        """Leads everywhere: a default route, or one of the two halves that override it."""
        return self.destination.prefixlen <= 1 and self.type == RTN_UNICAST


def mtu_metric(mtu_bytes: int) -> tuple[tuple[int, int], ...]:
    """Give `Route.metrics` that set a path MTU; none for 0."""
    return ((_RTAX_MTU, mtu_bytes),) if mtu_bytes else ()


def parse_route(message: Message) -> Route | None:
    """Decode RTM_NEWROUTE or RTM_DELROUTE; None for a route that is not of IP.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError(_WHERE, f"a route message of {len(message.body)} bytes")
    family, dst_len, src_len, tos, table, protocol, scope, kind, flags = _HEAD.unpack_from(
        message.body
    )
    if not family_known(family):
        return None
    found = parse_attributes(message.body[_HEAD.size :])
    metrics = found.nest(_RTA_METRICS)
    source = parse_network(found.raw(_RTA_SRC), src_len, family) if src_len else None
    return Route(
        destination=parse_network(found.raw(_RTA_DST), dst_len, family),
        hops=_parse_hops(found, flags),
        table=found.u32(_RTA_TABLE, table),
        type=kind,
        scope=scope,
        protocol=protocol,
        source=source,
        preferred_source=parse_optional_ip(found.raw(_RTA_PREFSRC)),
        priority=found.u32(_RTA_PRIORITY),
        tos=tos,
        preference=found.u8(_RTA_PREF),
        metrics=_parse_metrics(metrics),
        congestion_control=metrics.text(_RTAX_CC_ALGO),
        nexthop_id=found.u32(_RTA_NH_ID),
        flags=flags,
    )


def _parse_metrics(metrics: Attributes) -> tuple[tuple[int, int], ...]:
    kinds = sorted({kind for kind, _ in metrics} - {_RTAX_CC_ALGO})
    return tuple((kind, metrics.u32(kind)) for kind in kinds)


def _parse_hops(found: Attributes, flags: int) -> tuple[Hop, ...]:
    """Give the hops of a route: those of its list, else the one in its own attributes."""
    listed = found.raw(_RTA_MULTIPATH)
    if listed:
        return _parse_hop_list(found, listed)
    hop = Hop(index=found.s32(_RTA_OIF), gateway=_parse_gateway(found), flags=flags & 0xFF)
    return (hop,) if hop.index or hop.gateway is not None else ()


def _parse_hop_list(outer: Attributes, data: bytes) -> tuple[Hop, ...]:
    hops = []
    offset, end = 0, len(data)
    while offset < end:
        left = end - offset
        if left < _HOP.size:
            raise RemoteProtocolError(_WHERE, f"{left} bytes left over after the last next hop")
        length, flags, more, index = _HOP.unpack_from(data, offset)
        if not _HOP.size <= length <= left:
            raise RemoteProtocolError(_WHERE, f"a next hop claims {length} bytes of {left}")
        gateway = _parse_gateway(outer.inner(data[offset + _HOP.size : offset + length]))
        hops.append(Hop(index=index, gateway=gateway, weight=more + 1, flags=flags))
        offset += (length + 3) & ~3
    return tuple(hops)


def _parse_gateway(found: Attributes) -> IpAddress | None:
    via = found.raw(_RTA_VIA)
    if via:
        return parse_ip(via[_VIA.size :])
    return parse_optional_ip(found.raw(_RTA_GATEWAY))


def dump_routes(family: int, *, table: int = 0, index: int = 0, kind: int = 0) -> Request:
    """Ask for the routes of a family, narrowed to a table, a link or an RTN_* when given.

    The kernel finds by the link only routes whose first hop uses it.
    """
    parts = b""
    if table:
        parts += nla.u32(_RTA_TABLE, table)
    if index:
        parts += nla.u32(_RTA_OIF, index)
    body = _HEAD.pack(family, 0, 0, 0, 0, 0, 0, kind, 0) + parts
    return Request(type=RTM_GETROUTE, flags=NLM_F_DUMP, body=body, label="RTM_GETROUTE")


def get_route(destination: IpAddress, *, index: int = 0, whole: bool = False) -> Request:
    """Ask which way packets to an address would go, all rules and tables considered.

    Args:
        destination: Where to.
        index: Interface index that they must leave by, 0 for any.
        whole: Ask for the route itself, with all its ways out; else for the one way that is taken.
    """
    family = family_of(destination)
    parts = nla.attribute(_RTA_DST, destination.packed)
    if index:
        parts += nla.u32(_RTA_OIF, index)
    flags = _RTM_F_FIB_MATCH if whole else 0
    head = _HEAD.pack(family, destination.max_prefixlen, 0, 0, 0, 0, 0, 0, flags)
    return Request(type=RTM_GETROUTE, body=head + parts, label=f"RTM_GETROUTE {destination}")


def new_route(route: Route) -> Request:
    """Add a route; EEXIST when one with its destination, table and metric is there."""
    return _request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route)


def delete_route(route: Route) -> Request:
    """Take a route away; ESRCH when none fits all that the value says."""
    return _request(RTM_DELROUTE, 0, route)


def _request(kind: int, flags: int, route: Route) -> Request:
    head = _HEAD.pack(
        route.family,
        route.destination.prefixlen,
        route.source.prefixlen if route.source else 0,
        route.tos,
        # Tables above 255 have no place in the head; the attribute counts then.
        route.table if route.table < 256 else 0,
        route.protocol,
        route.scope,
        route.type,
        route.hops[0].flags & RTNH_F_ONLINK if len(route.hops) == 1 else 0,
    )
    name = "RTM_NEWROUTE" if kind == RTM_NEWROUTE else "RTM_DELROUTE"
    body = head + b"".join(_route_attributes(route))
    return Request(type=kind, flags=flags, body=body, label=f"{name} {route.destination}")


def _route_attributes(route: Route) -> list[bytes]:
    parts = [nla.u32(_RTA_TABLE, route.table)]
    if route.destination.prefixlen:
        parts.append(nla.attribute(_RTA_DST, route.destination.network_address.packed))
    if route.source is not None:
        parts.append(nla.attribute(_RTA_SRC, route.source.network_address.packed))
    if route.preferred_source is not None:
        parts.append(nla.attribute(_RTA_PREFSRC, route.preferred_source.packed))
    if route.priority:
        parts.append(nla.u32(_RTA_PRIORITY, route.priority))
    if route.preference:
        parts.append(nla.u8(_RTA_PREF, route.preference))
    return parts + _metric_attributes(route) + _hop_attributes(route)


def _metric_attributes(route: Route) -> list[bytes]:
    metrics = [nla.u32(kind, value) for kind, value in route.metrics]
    if route.congestion_control:
        metrics.append(nla.text(_RTAX_CC_ALGO, route.congestion_control))
    return [nla.nest(_RTA_METRICS, *metrics)] if metrics else []


def _hop_attributes(route: Route) -> list[bytes]:
    """Give what says where the route leads out: an object, one hop, or a list."""
    if route.nexthop_id:
        return [nla.u32(_RTA_NH_ID, route.nexthop_id)]
    if len(route.hops) > 1:
        listed = b"".join(_encode_hop(hop, route.family) for hop in route.hops)
        return [nla.attribute(_RTA_MULTIPATH, listed)]
    parts = []
    for hop in route.hops:
        parts.extend(_gateway_attributes(hop, route.family))
        if hop.index:
            parts.append(nla.s32(_RTA_OIF, hop.index))
    return parts


def _encode_hop(hop: Hop, family: int) -> bytes:
    parts = b"".join(_gateway_attributes(hop, family))
    length = _HOP.size + len(parts)
    return _HOP.pack(length, hop.flags & RTNH_F_ONLINK, hop.weight - 1, hop.index) + parts


def _gateway_attributes(hop: Hop, family: int) -> list[bytes]:
    if hop.gateway is None:
        return []
    if family_of(hop.gateway) == family:
        return [nla.attribute(_RTA_GATEWAY, hop.gateway.packed)]
    return [nla.attribute(_RTA_VIA, _VIA.pack(family_of(hop.gateway)) + hop.gateway.packed)]
