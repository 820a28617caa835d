"""How links, functions, addresses and routes of one look hang together: each found by index.

The guard and the rules ask for every NIC what leads to it and what hangs on it; with hundreds of
virtual functions beside thousands of routes only tables answer that in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeVar

import attrs

from berth.host.hardware import PciFunction
from berth.host.netlink.address import Address
from berth.host.netlink.kinds import Tunnel, Vxlan
from berth.host.netlink.link import Link
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT, Hop, Route
from berth.host.scan import HostScan, NetDevice

LEARNT: Final = frozenset({RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT})
"""Who makes routes that nobody set: they follow from addresses, or came from a router."""

K = TypeVar("K")
T = TypeVar("T")

_PEERS: Final = frozenset({"veth", "netkit", "vxcan"})
# Links whose `parent` is their other end, which does not carry them.

_GROUP_DEPTH: Final = 2
# Groups of next hops hold single ones; the bound keeps a lying table from looping.


@attrs.frozen(slots=False)
class Topology:
    """One look's tables, found by what they hang on.

    Attributes:
        scan: The look itself.
    """

    scan: HostScan

    @cached_property
    def links(self) -> Mapping[int, Link]:
        """Links by their index."""
        return {link.index: link for link in self.scan.links}

    @cached_property
    def devices(self) -> Mapping[int, NetDevice]:
        """What sysfs says of links, by their index."""
        return {device.index: device for device in self.scan.devices}

    @cached_property
    def functions(self) -> Mapping[str, PciFunction]:
        """PCI functions by address."""
        return {function.address: function for function in self.scan.functions}

    @cached_property
    def on_function(self) -> Mapping[str, Sequence[NetDevice]]:
        """Devices that are a PCI function, by its address."""
        return _grouped(
            self.scan.devices, lambda d: [d.bearer.function] if d.bearer.function else []
        )

    @cached_property
    def above_function(self) -> Mapping[str, Sequence[NetDevice]]:
        """Devices that hang from a PCI function at any depth, such as its sub-functions."""
        return _grouped(self._linked, lambda device: _given(device.bearer.below))

    @cached_property
    def ports(self) -> Mapping[int, Sequence[Link]]:
        """Links by the index of their master."""
        return _grouped(self.scan.links, lambda link: _given(link.master))

    @cached_property
    def children(self) -> Mapping[int, Sequence[Link]]:
        """Links by the index of the one that carries them; the other end of a pair does not."""
        return _grouped(self.scan.links, _carriers)

    @cached_property
    def addresses(self) -> Mapping[int, Sequence[Address]]:
        """Addresses by the link that they are on."""
        return _grouped(self.scan.addresses, lambda address: [address.index])

    @cached_property
    def neighbors(self) -> Mapping[int, Sequence[Neighbor]]:
        """Neighbors that somebody set, by their link."""
        return _grouped(self.scan.neighbors, lambda neighbor: [neighbor.index])

    @cached_property
    def set_routes(self) -> Mapping[int, Sequence[Route]]:
        """Routes that somebody set, by each link that they lead out of."""
        routes = [route for route in self.scan.routes if route.protocol not in LEARNT]
        return _grouped(routes, lambda route: {*self.ways_out(route)})

    def set_addresses(self, index: int) -> tuple[Address, ...]:
        """Addresses of a link that are not made from the link itself."""
        return tuple(a for a in self.addresses.get(index, ()) if not a.ip.ip.is_link_local)

    def hops(self, route: Route) -> tuple[Hop, ...]:
        """The ways out of a route, those of its nexthop object where it tells none itself."""
        return route.hops or tuple(self._hops_of(route.nexthop_id, _GROUP_DEPTH))

    def ways_out(self, route: Route) -> Iterator[int]:
        """Indexes of the links that a route leads out of."""
        return (hop.index for hop in self.hops(route) if hop.index)

    def _hops_of(self, number: int, depth: int) -> Iterator[Hop]:
        found = self._next_hops.get(number)
        if found is None or depth == 0:
            return
        if found.index:
            yield Hop(index=found.index, gateway=found.gateway)
        for member in found.members:
            yield from self._hops_of(member, depth - 1)

    @cached_property
    def _linked(self) -> Sequence[NetDevice]:
        return [device for device in self.scan.devices if device.index in self.links]

    @cached_property
    def _next_hops(self) -> Mapping[int, NextHop]:
        return {hop.id: hop for hop in self.scan.next_hops}


def _given(key: K) -> list[K]:
    return [key] if key else []


def _carriers(link: Link) -> list[int]:
    if link.kind in _PEERS:
        return []
    own = [link.parent] if link.parent and link.parent_netnsid is None else []
    data = link.kind_data
    if isinstance(data, (Vxlan, Tunnel)) and data.underlay and data.underlay not in own:
        own.append(data.underlay)
    return own


def _grouped(values: Iterable[T], keys: Callable[[T], Iterable[K]]) -> Mapping[K, Sequence[T]]:
    groups: dict[K, list[T]] = {}
    for value in values:
        for key in keys(value):
            groups.setdefault(key, []).append(value)
    return groups
