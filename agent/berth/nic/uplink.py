"""Which links keep the node itself alive, and by what path: the uplink guard.

The kernel lets a NIC with the node's default route move into a pod without a word, and the node is
then cut off. So a link is an uplink when a default route of any table leads out by it, when it
carries the API connection, or when it owns the node's address; and so is everything under it.

Source: network.md §1.3, for roots and closure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth.host.netlink.kinds import Vxlan
from berth.host.netlink.link import Link
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import RT_TABLE_MAIN, Route
from berth.host.scan import HostScan

_OVS: Final = "openvswitch"


def uplinks(scan: HostScan, *, own_addresses: Iterable[str] = ()) -> Mapping[int, str]:
    """Links that the node needs itself, by index, each with the path that makes it one.

    Args:
        own_addresses: Addresses that must stay reachable: those of open connections to the API
            server, and the Node object's. Routes toward the server are in ``scan.ways``.
    """
    links = {link.index: link for link in scan.links}
    found: dict[int, str] = {}
    due = list(_roots(scan, frozenset(own_addresses)))
    while due:
        index, path = due.pop(0)
        if index in found or index not in links:
            continue
        link = links[index]
        found[index] = f"{path} → {link.name}"
        due.extend((below, found[index]) for below in _below(link, scan))
    return found


def _roots(scan: HostScan, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    hops = {hop.id: hop for hop in scan.next_hops}
    for route in scan.routes:
        if route.default:
            for index in _out(route, hops):
                yield index, f"default route (table {_table(route)})"
    for address in scan.addresses:
        if str(address.ip.ip) in own:
            yield address.index, f"address {address.ip.ip}"
    for destination, route in scan.ways:
        for index in _out(route, hops):
            yield index, f"way to the API server at {destination}"


def _out(route: Route, hops: Mapping[int, NextHop]) -> Iterator[int]:
    yield from (hop.index for hop in route.hops if hop.index)
    yield from _next_hop(route.nexthop_id, hops, depth=0)


def _next_hop(number: int, hops: Mapping[int, NextHop], *, depth: int) -> Iterator[int]:
    hop = hops.get(number)
    # Groups of groups do not exist; the bound keeps a lying table from looping.
    if hop is None or depth > 2:
        return
    if hop.index:
        yield hop.index
    for member in hop.members:
        yield from _next_hop(member, hops, depth=depth + 1)


def _below(link: Link, scan: HostScan) -> Iterator[int]:
    """Links without which this one does not work."""
    if link.parent and link.parent_netnsid is None:
        yield link.parent
    for other in scan.links:
        if other.master == link.index:
            yield other.index
        elif link.master and other.master == link.master and _is_ovs(link):
            # Which port of the switch carries the traffic is the switch's own decision.
            yield other.index
    yield from _same_hardware(link, scan)
    yield from _underlay(link, scan)


def _is_ovs(link: Link) -> bool:
    return link.port_kind == _OVS


def _same_hardware(link: Link, scan: HostScan) -> Iterator[int]:
    devices = {device.index: device for device in scan.net_devices}
    own = devices.get(link.index)
    if own is None or not own.function:
        return
    physfn = next((f.physfn for f in scan.functions if f.address == own.function), "")
    for device in scan.net_devices:
        if device.index != link.index and device.function in (own.function, physfn or None):
            yield device.index


def _underlay(link: Link, scan: HostScan) -> Iterator[int]:
    data = link.kind_data
    if not isinstance(data, Vxlan):
        return
    if data.underlay:
        yield data.underlay
    elif data.remote is not None:
        yield from _toward(scan, data)


def _toward(scan: HostScan, tunnel: Vxlan) -> Iterator[int]:
    """Links of the most specific route to a tunnel's remote end."""
    remote = tunnel.remote
    fitting = [
        route
        for route in scan.routes
        if remote is not None
        and route.destination.version == remote.version
        and remote in route.destination
    ]
    hops = {hop.id: hop for hop in scan.next_hops}
    for route in sorted(fitting, key=lambda r: r.destination.prefixlen)[-1:]:
        yield from _out(route, hops)


def _table(route: Route) -> str:
    return "main" if route.table == RT_TABLE_MAIN else str(route.table)
