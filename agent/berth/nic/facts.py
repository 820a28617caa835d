"""What the checks of a claim's configuration need to know of a device, from one look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from berth.config.nicgroup import NicGroup
from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, Address
from berth.host.netlink.kinds import Ipvlan, Macvlan, Vlan
from berth.host.netlink.link import Link
from berth.host.netlink.route import (
    RTN_UNICAST,
    RTNH_F_ONLINK,
    Hop,
    Route,
)
from berth.nic.access import rdma_of
from berth.nic.attributes import type_of
from berth.nic.config.devicefacts import Child, DeviceFacts, HomeSettings
from berth.nic.config.values import AddressConfig, NeighborConfig, RouteConfig, RouteScope
from berth.nic.counting import vfs_of
from berth.nic.exclusion import is_beside_vfs
from berth.nic.survey import Found
from berth.nic.topology import Topology
from berth.nic.vf import VfSeat
from berth.vfio.group import members

_SCOPES: Final = {0: RouteScope.GLOBAL, 253: RouteScope.LINK, 254: RouteScope.HOST}


@attrs.frozen(kw_only=True)
class Home:
    """Where a device's link is at home now.

    Attributes:
        index: Its interface index.
        parent_device: Name of the device that carries it, as netlink tells it.
        driver: Kernel driver of that device; empty for virtual links.
        seat: Where a VF hangs; ``None`` for others, and where its PF's link is not here.
    """

    index: int
    parent_device: str
    driver: str
    seat: VfSeat | None = None


def home_of(found: Found) -> Home | None:
    """Where the link is; ``None`` when it is not in this namespace."""
    if found.link is None:
        return None
    return Home(
        index=found.link.index,
        parent_device=found.link.parent_device,
        driver=found.driver if found.device is not None else "",
        seat=_seat(found),
    )


def _seat(found: Found) -> VfSeat | None:
    function, pf = found.function, found.pf_link
    if function is None or function.vf_index is None or pf is None:
        return None
    return VfSeat(pf=function.physfn, index=pf.index, number=function.vf_index)


def device_facts(found: Found, group: NicGroup, topology: Topology, *, uplink: str) -> DeviceFacts:
    """The facts of one device.

    Args:
        uplink: The path that makes it an uplink; empty when it is none.
    """
    link = found.link
    return DeviceFacts(
        identity=found.identity,
        type=type_of(group),
        kind=found.kind,
        group=group.name,
        link_type=found.link_type.value,
        mtu=link.mtu if link else 0,
        min_mtu=link.min_mtu if link else 0,
        max_mtu=link.max_mtu if link else 0,
        pf_mtu=found.pf_link.mtu if found.pf_link else 0,
        uplink=uplink,
        home=_settings(link, topology) if link else HomeSettings(),
        companions=companions(found, topology),
        vfs=_vfs(found, topology) if is_beside_vfs(found, group) else (),
        children=tuple(_children(link, topology)) if link else (),
        rdma=found.rdma_in(group),
        rdma_netns=topology.scan.rdma_netns,
        rdma_lacking=rdma_of(found, group, topology.scan.nodes).lacking,
    )


def _children(link: Link, topology: Topology) -> Iterator[Child]:
    """The node's own links over it, of the kinds that are made for claims."""
    for child in topology.children.get(link.index, ()):
        data, holder = child.kind_data, f"the node's {child.name}"
        if isinstance(data, Ipvlan):
            yield Child(kind="ipvlan", sort=(data.mode, data.isolation), holder=holder)
        elif isinstance(data, Vlan):
            protocol = data.protocol.replace("q", "Q")
            yield Child(kind="vlan", sort=(str(data.id), protocol), holder=holder)
        elif isinstance(data, Macvlan):
            yield Child(kind="macvlan", holder=holder)


def _vfs(found: Found, topology: Topology) -> tuple[str, ...]:
    address = found.identity.removeprefix("pci:")
    return tuple(f"pci:{vf}" for vf in vfs_of(topology).get(address, ()))


def companions(found: Found, topology: Topology) -> tuple[str, ...]:
    """Keys of its IOMMU group, and of what else is in it; none without a group."""
    function = found.function
    if function is None or function.iommu_group is None:
        return ()
    others = members(function, topology.scan.companions)
    return (f"iommu:{function.iommu_group}", *(f"pci:{other.address}" for other in others))


def hardware_addrs(topology: Topology, identities: Mapping[int, str]) -> dict[str, str]:
    """Addresses in use on the host, and by whom: a device's identity, else the link's name."""
    links = topology.scan.links
    return {link.mac: identities.get(link.index, link.name) for link in links if link.mac}


def _settings(link: Link, topology: Topology) -> HomeSettings:
    return HomeSettings(
        addresses=tuple(
            _address(address) for address in topology.set_addresses(link.index) if address.permanent
        ),
        routes=tuple(_routes(link, topology)),
        neighbors=tuple(
            NeighborConfig(address=neighbor.ip, hardware_addr=neighbor.mac)
            for neighbor in topology.neighbors.get(link.index, ())
            if neighbor.mac
        ),
    )


def _address(address: Address) -> AddressConfig:
    return AddressConfig(
        address=address.ip,
        no_dad=bool(address.flags & IFA_F_NODAD) or address.ip.version == 4,
        no_prefix_route=bool(address.flags & IFA_F_NOPREFIXROUTE),
        peer=address.peer,
    )


def _routes(link: Link, topology: Topology) -> Iterator[RouteConfig]:
    """Routes that lead out of this link alone, with their ways out in them."""
    for route in topology.set_routes.get(link.index, ()):
        hops = topology.hops(route)
        if len(hops) == 1 and route.type == RTN_UNICAST:
            yield _route(route, hops[0])


def _route(route: Route, hop: Hop) -> RouteConfig:
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
