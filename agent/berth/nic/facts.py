"""What the checks of a claim's configuration need to know of a device, from one look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from berth.config.nic import NicGroup
from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, Address
from berth.host.netlink.link import Link
from berth.host.netlink.route import (
    RTN_UNICAST,
    RTNH_F_ONLINK,
    RTPROT_KERNEL,
    RTPROT_RA,
    RTPROT_REDIRECT,
    Route,
)
from berth.host.scan import HostScan
from berth.model.device import NicMode
from berth.nic.config.devicefacts import DeviceFacts, HomeSettings
from berth.nic.config.values import AddressConfig, NeighborConfig, RouteConfig, RouteScope
from berth.nic.survey import Found, link_type

_LEARNT: Final = frozenset({RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT})
_SCOPES: Final = {0: RouteScope.GLOBAL, 253: RouteScope.LINK, 254: RouteScope.HOST}


@attrs.frozen(kw_only=True)
class Home:
    """Where a device's link is at home now.

    Attributes:
        index: Its interface index.
        parent_device: Name of the device that carries it, as netlink tells it.
        driver: Kernel driver of that device; empty for virtual links.
    """

    index: int
    parent_device: str
    driver: str


def home_of(found: Found) -> Home | None:
    """Where the link is; ``None`` when it is not in this namespace."""
    if found.link is None:
        return None
    return Home(
        index=found.link.index,
        parent_device=found.link.parent_device,
        driver=found.function.driver if found.function else "",
    )


def device_facts(found: Found, group: NicGroup, scan: HostScan, *, uplink: str) -> DeviceFacts:
    """The facts of one device.

    Args:
        uplink: The path that makes it an uplink; empty when it is none.
    """
    link = found.link
    return DeviceFacts(
        identity=found.identity,
        type="nic-shared" if group.mode is NicMode.SHARED else "nic",
        kind=found.kind,
        group=group.name,
        link_type=link_type(found).value,
        mtu=link.mtu if link else 0,
        min_mtu=link.min_mtu if link else 0,
        max_mtu=link.max_mtu if link else 0,
        pf_mtu=found.pf_link.mtu if found.pf_link else 0,
        uplink=uplink,
        home=_settings(link, scan) if link else HomeSettings(),
    )


def hardware_addrs(scan: HostScan, identities: Mapping[int, str]) -> dict[str, str]:
    """Addresses in use on the host, and by whom: a device's identity, else the link's name."""
    return {link.mac: identities.get(link.index, link.name) for link in scan.links if link.mac}


def own_addresses(link: Link, scan: HostScan) -> tuple[str, ...]:
    """Addresses that the host has on a link, in text, link-local ones left out."""
    return tuple(
        str(address.ip)
        for address in scan.addresses
        if address.index == link.index and not address.ip.ip.is_link_local
    )


def _settings(link: Link, scan: HostScan) -> HomeSettings:
    return HomeSettings(
        addresses=tuple(
            _address(a)
            for a in scan.addresses
            if a.index == link.index and a.permanent and not a.ip.ip.is_link_local
        ),
        routes=tuple(_routes(link, scan)),
        neighbors=tuple(
            NeighborConfig(address=n.ip, hardware_addr=n.mac)
            for n in scan.neighbors
            if n.index == link.index and n.permanent and n.mac
        ),
    )


def _address(address: Address) -> AddressConfig:
    return AddressConfig(
        address=address.ip,
        no_dad=bool(address.flags & IFA_F_NODAD) or address.ip.version == 4,
        no_prefix_route=bool(address.flags & IFA_F_NOPREFIXROUTE),
        peer=address.peer,
    )


def _routes(link: Link, scan: HostScan) -> Iterator[RouteConfig]:
    for route in scan.routes:
        single = len(route.hops) == 1 and route.hops[0].index == link.index
        if single and route.type == RTN_UNICAST and route.protocol not in _LEARNT:
            yield _route(route)


def _route(route: Route) -> RouteConfig:
    hop = route.hops[0]
    return RouteConfig(
        to=route.destination,
        via=hop.gateway,
        source=route.preferred_source,
        scope=_SCOPES.get(route.scope, RouteScope.GLOBAL),
        table=route.table,
        metric=route.priority,
        mtu=route.mtu or None,
        on_link=bool(hop.flags & RTNH_F_ONLINK),
    )
