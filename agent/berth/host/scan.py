"""One look at the whole machine: sysfs, links, addresses, routes, as one frozen value.

Blocks: a dump waits while somebody holds rtnl. For worker threads only.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import attrs

from berth.host.netlink.address import Address
from berth.host.netlink.ip import IpAddress
from berth.host.netlink.link import Link
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import Route
from berth.host.netlink.rtnl import Rtnl
from berth.host.sysfs import NetDevice, PciFunction, Sysfs

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Changes with each boot; what was recorded under another one is checked anew."""


@attrs.frozen(kw_only=True)
class HostScan:
    """The machine at one moment.

    Attributes:
        ways: For each address that was asked about, the route that packets to it would take.
    """

    boot_id: str
    functions: tuple[PciFunction, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    next_hops: tuple[NextHop, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    ways: tuple[tuple[str, Route], ...] = ()


def read_boot_id(path: Path = BOOT_ID) -> str:
    """The id of this boot; empty where the kernel tells none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def scan(sysfs: Sysfs, *, toward: Iterable[str] = ()) -> HostScan:
    """Look at the machine.

    Args:
        toward: IP addresses whose way out is wanted, such as the API server's.

    Raises:
        HostError: The kernel refused a dump, or it changed faster than it could be read.
        RemoteProtocolError: The kernel's answer was malformed.
    """
    functions = sysfs.functions()
    with Rtnl.home() as tables:
        links = tables.links()
        return HostScan(
            boot_id=read_boot_id(),
            functions=functions,
            net_devices=sysfs.net_devices(),
            links=links,
            addresses=tables.addresses(),
            routes=tables.routes(),
            next_hops=tables.next_hops(),
            neighbors=tuple(n for n in tables.neighbors() if n.permanent),
            ways=tuple(_ways(tables, toward)),
        )


def _ways(tables: Rtnl, toward: Iterable[str]) -> Iterable[tuple[str, Route]]:
    for text in sorted(set(toward)):
        address = _address(text)
        route = tables.route_to(address) if address is not None else None
        if route is not None:
            yield text, route


def _address(text: str) -> IpAddress | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
