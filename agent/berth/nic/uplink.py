"""Which links keep the node itself alive, and by what path: the uplink guard.

The kernel lets a NIC with the node's default route move into a pod without a word, and the node is
then cut off. So a link is an uplink when a default route of any table leads out by it, when it
carries the API connection, or when it owns the node's address; and so is everything under it.

Where the tables do not tell which of several links carries the traffic, all of them count.

Source: network.md §1.3, for roots and closure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from berth.host.netlink.ip import IpAddress
from berth.host.netlink.kinds import Tunnel, Vxlan
from berth.host.netlink.link import Link
from berth.host.netlink.route import RT_TABLE_MAIN, Route
from berth.host.scan import plain_address
from berth.nic.topology import Topology

_OVS: Final = "openvswitch"


def uplinks(topology: Topology, *, own_addresses: Iterable[str] = ()) -> Mapping[int, str]:
    """Links that the node needs itself, by index, each with the path that makes it one.

    Args:
        own_addresses: Addresses that must stay reachable: those of open connections to the API
            server, and the Node object's. Ways toward the server are in the scan's ``ways``.
    """
    found: dict[int, str] = {}
    due = deque(_roots(topology, {plain_address(text) for text in own_addresses}))
    while due:
        index, path = due.popleft()
        link = topology.links.get(index)
        if link is None or index in found:
            continue
        found[index] = f"{path} → {link.name}"
        due.extend((below, found[index]) for below in _below(link, topology))
    return found


def _roots(topology: Topology, own: set[IpAddress | None]) -> Iterator[tuple[int, str]]:
    for route in topology.scan.routes:
        if route.default:
            for index in topology.ways_out(route):
                yield index, f"default route (table {_table(route)})"
    for address in topology.scan.addresses:
        if address.ip.ip in own:
            yield address.index, f"address {address.ip.ip}"
    for destination, route in topology.scan.ways:
        for index in topology.ways_out(route):
            yield index, f"way to the API server at {destination}"


def _below(link: Link, topology: Topology) -> Iterator[int]:
    """Links without which this one does not work."""
    if link.parent and link.parent_netnsid is None:
        yield link.parent
    yield from (port.index for port in topology.ports.get(link.index, ()))
    yield from _switch(link, topology)
    yield from _same_hardware(link, topology)
    yield from _underlay(link, topology)


def _switch(link: Link, topology: Topology) -> Iterator[int]:
    """The Open vSwitch that the link belongs to: the switch alone knows which port it uses.

    One of its own ports tells no master, so with several switches it may belong to each.
    """
    if link.port_kind == _OVS:
        yield link.master
    elif link.kind == _OVS:
        switches = {port.master for port in topology.scan.links if port.port_kind == _OVS}
        yield from () if link.index in switches else sorted(switches)


def _same_hardware(link: Link, topology: Topology) -> Iterator[int]:
    """Links of the same function, and those of a VF's PF, with which the VF goes."""
    device = topology.devices.get(link.index)
    if device is None or not device.bearer.below:
        return
    own = device.bearer.below
    function = topology.functions.get(own)
    yield from (other.index for other in topology.above_function[own])
    if function is not None and function.physfn:
        yield from (pf.index for pf in topology.above_function.get(function.physfn, ()))


def _underlay(link: Link, topology: Topology) -> Iterator[int]:
    data = link.kind_data
    if not isinstance(data, (Vxlan, Tunnel)):
        return
    if data.underlay:
        yield data.underlay
    elif data.remote is not None:
        yield from _toward(data.remote, topology)


def _toward(remote: IpAddress, topology: Topology) -> Iterator[int]:
    """Links of the most specific routes to a tunnel's other end, in whatever tables."""
    fitting = [
        route
        for route in topology.scan.routes
        if route.destination.version == remote.version and remote in route.destination
    ]
    longest = max((route.destination.prefixlen for route in fitting), default=0)
    for route in fitting:
        if route.destination.prefixlen == longest:
            yield from topology.ways_out(route)


def _table(route: Route) -> str:
    return "main" if route.table == RT_TABLE_MAIN else str(route.table)
