"""Looks at the whole machine: sysfs, links, addresses, routes, as one frozen value.

Blocks: a dump waits while somebody holds rtnl. For worker threads only.

A node with pods has hundreds of links and thousands of routes of which few change between two
looks, and decoding them is most of a look's cost. So a `Scanner` keeps what it decoded, by the
bytes that it was decoded from; nothing else is kept of the kernel's tables.

Knowingly left out: routes that are no unicast routes, which lead nowhere outside, and neighbors
that nobody set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, Generic, TypeVar

import attrs

from berth.errors import HostError
from berth.host.hardware import Bearer, PciFunction, Port
from berth.host.netlink.address import RTM_NEWADDR, Address, dump_addresses, parse_address
from berth.host.netlink.ip import AF_INET, AF_INET6, IpAddress
from berth.host.netlink.link import RTM_NEWLINK, Link, parse_link
from berth.host.netlink.linkrequest import dump_links, get_link
from berth.host.netlink.message import Message
from berth.host.netlink.neighbor import RTM_NEWNEIGH, Neighbor, dump_neighbors, parse_neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.rdma import get_system, parse_shared
from berth.host.netlink.route import RTM_NEWROUTE, RTN_UNICAST, Route, dump_routes, parse_route
from berth.host.netlink.rtnl import Rtnl
from berth.host.netlink.socket import NETLINK_RDMA, Netlink
from berth.host.nicnodes import NicNodeReader, NicNodes
from berth.host.sysfs import Sysfs

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Changes with each boot; what was recorded under another one is checked anew."""

STEADY_TRIES: Final = 3
"""How often the links are read again when one was renamed or removed while sysfs was read."""

V = TypeVar("V")

_FASTER: Final = frozenset({"bond", "team", "vlan"})
# Links without hardware of their own that have the speed of what is under them.


@attrs.frozen(kw_only=True)
class NetDevice:
    """What sysfs adds to a link of this namespace.

    Attributes:
        index: The link's.
        bearer: The device that carries it; nothing is known of one that no device carries.
        speed_mbps: ``None`` when unknown, as without carrier.
    """

    index: int
    bearer: Bearer = attrs.field(factory=Bearer)
    port: Port = attrs.field(factory=Port)
    speed_mbps: int | None = None


@attrs.frozen(kw_only=True)
class HostScan:
    """The machine at one moment.

    Attributes:
        functions: Of PCI, those that are or carry network devices.
        companions: Those, and all others that share an IOMMU group with one of them.
        devices: For links that a device carries, and others with a speed.
        links: A PF's tells its virtual functions too.
        routes: Unicast ones.
        neighbors: Those that somebody set.
        ways: For each address that was asked about, the route that packets to it would take, with
            all its ways out.
        products: What a model of PCI function is called, by `PciFunction.model`.
        rdma_netns: ``shared`` when all namespaces see each RDMA device, else ``exclusive``; empty
            without RDMA.
        nodes: Device nodes that programs reach NICs by.
        soft_rdma: Names of RDMA devices that software makes of a link, by the link's name.
    """

    boot_id: str
    functions: tuple[PciFunction, ...] = ()
    companions: tuple[PciFunction, ...] = ()
    devices: tuple[NetDevice, ...] = ()
    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    next_hops: tuple[NextHop, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    ways: tuple[tuple[str, Route], ...] = ()
    products: Mapping[str, str] = attrs.field(factory=dict)
    rdma_netns: str = ""
    nodes: NicNodes = attrs.field(factory=NicNodes)
    soft_rdma: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


def read_boot_id(path: Path = BOOT_ID) -> str:
    """The id of this boot; empty where the kernel tells none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def plain_address(text: str) -> IpAddress | None:
    """An IP address as the kernel's tables have it; ``None`` for what is none.

    A zone is dropped, and an IPv4 address that was mapped into IPv6 becomes one again.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped if mapped is not None else address


class Scanner:
    """Looks at the machine again and again; for one thread at a time.

    Args:
        sysfs: Where the machine is read.
        product: Gives the name of the model of a PCI function, by its address; empty when unknown.
        home: Opens the kernel's tables.
        nodes: Reads device nodes.
    """

    def __init__(
        self,
        sysfs: Sysfs,
        *,
        product: Callable[[str], str] = lambda _: "",
        home: Callable[[], Rtnl] = Rtnl.home,
        nodes: NicNodeReader | None = None,
    ) -> None:
        self._sysfs = sysfs
        self._nodes = nodes or NicNodeReader()
        self._home = home
        self._product = product
        self._products: dict[str, str] = {}
        self._boot_id = read_boot_id()
        self._links = _Table(RTM_NEWLINK, parse_link)
        self._physical = _Table(RTM_NEWLINK, parse_link)
        self._addresses = _Table(RTM_NEWADDR, parse_address)
        self._routes = _Table(RTM_NEWROUTE, parse_route)
        self._neighbors = _Table(RTM_NEWNEIGH, parse_neighbor)
        self._ports: dict[tuple[int, str], Port] = {}

    def scan(self, *, toward: Iterable[str] = ()) -> HostScan:
        """Look at the machine.

        Args:
            toward: IP addresses whose way out is wanted, such as the API server's.

        Raises:
            HostError: The kernel refused a dump, or (EINTR) it changed faster than it could be
                read.
            RemoteProtocolError: The kernel's answer was malformed.
        """
        with self._home() as tables:
            netlink = tables.netlink
            links, devices = self._links_and_devices(netlink)
            functions = self._sysfs.functions({d.bearer.function for d in devices} - {""})
            neighbors = self._neighbors.read(netlink.dump(dump_neighbors()))
            soft = self._sysfs.soft_rdma()
            rdma = [
                name for each in (*(f.rdma for f in functions), *soft.values()) for name in each
            ]
            return HostScan(
                boot_id=self._boot_id,
                functions=functions,
                companions=self._sysfs.sharing(functions),
                devices=devices,
                links=self._with_vfs(netlink, links, devices, functions),
                addresses=self._addresses.read(netlink.dump(dump_addresses())),
                routes=self._routes.read(
                    message
                    for family in (AF_INET, AF_INET6)
                    for message in netlink.dump(dump_routes(family, kind=RTN_UNICAST))
                ),
                next_hops=tables.next_hops(),
                neighbors=tuple(neighbor for neighbor in neighbors if neighbor.permanent),
                ways=tuple(_ways(tables, toward)),
                products=self._name_products(functions),
                rdma_netns=_rdma_netns() if rdma else "",
                soft_rdma=soft,
                nodes=self._nodes.read(
                    rdma,
                    vfio=[f.address for f in functions if "vfio" in f.driver],
                ),
            )

    def _links_and_devices(
        self, netlink: Netlink
    ) -> tuple[tuple[Link, ...], tuple[NetDevice, ...]]:
        """Links and what sysfs says of them, both of one moment as far as that can be had."""
        for _ in range(STEADY_TRIES):
            links = self._links.read(netlink.dump(dump_links()))
            ports = {link.index: self._port(link) for link in links if link.parent_device}
            if None not in ports.values():
                break
        self._ports = {
            (link.index, link.parent_device): port
            for link in links
            if (port := ports.get(link.index)) is not None
        }
        return links, tuple(self._devices(links, ports))

    def _port(self, link: Link) -> Port | None:
        known = self._ports.get((link.index, link.parent_device))
        return known or self._sysfs.port(link.name, link.index)

    def _devices(
        self, links: Iterable[Link], ports: Mapping[int, Port | None]
    ) -> Iterable[NetDevice]:
        for link in links:
            if link.parent_device:
                port = ports[link.index]
                asked = link.carrier and port is not None
                yield NetDevice(
                    index=link.index,
                    bearer=self._sysfs.bearer(link.parent_bus, link.parent_device),
                    port=port or Port(),
                    speed_mbps=self._sysfs.speed_mbps(link.name) if asked else None,
                )
            elif link.kind in _FASTER and link.carrier and self._sysfs.port(link.name, link.index):
                yield NetDevice(index=link.index, speed_mbps=self._sysfs.speed_mbps(link.name))

    def _with_vfs(
        self,
        netlink: Netlink,
        links: tuple[Link, ...],
        devices: Iterable[NetDevice],
        functions: Iterable[PciFunction],
    ) -> tuple[Link, ...]:
        """The links, with those of PFs asked anew for what is set of their virtual functions.

        A dump that told them would not fit where a PF has many.
        """
        pfs = {function.address for function in functions if function.num_vfs}
        indexes = [device.index for device in devices if device.bearer.function in pfs]
        answers = [answer for index in indexes for answer in _ask(netlink, index)]
        detailed = {link.index: link for link in self._physical.read(answers)}
        return tuple(detailed.get(link.index, link) for link in links) if detailed else links

    def _name_products(self, functions: Iterable[PciFunction]) -> Mapping[str, str]:
        for function in functions:
            if function.model not in self._products:
                name = self._product(function.address)
                if name:
                    self._products[function.model] = name
        return dict(self._products)


class _Table(Generic[V]):
    """Decodes the messages of one table; what came in the same bytes before is not decoded again.

    Args:
        kind: Type of the messages that count.
    """

    def __init__(self, kind: int, parse: Callable[[Message], V | None]) -> None:
        self._kind = kind
        self._parse = parse
        self._known: dict[bytes, V | None] = {}

    def read(self, messages: Iterable[Message]) -> tuple[V, ...]:
        known, self._known = self._known, {}
        for message in messages:
            if message.type == self._kind:
                body = message.body
                self._known[body] = known[body] if body in known else self._parse(message)
        return tuple(value for value in self._known.values() if value is not None)


def _ask(netlink: Netlink, index: int) -> tuple[Message, ...]:
    """A link with its virtual functions; nothing when it is gone, or its driver does not tell."""
    try:
        return netlink.request(get_link(index=index, vfs=True))
    except HostError:
        return ()


def _rdma_netns() -> str:
    try:
        with Netlink(NETLINK_RDMA) as netlink:
            answers = netlink.request(get_system())
    except HostError:
        return ""
    return "shared" if all(parse_shared(answer) for answer in answers) else "exclusive"


def _ways(tables: Rtnl, toward: Iterable[str]) -> Iterable[tuple[str, Route]]:
    for text in sorted(set(toward)):
        address = plain_address(text)
        route = tables.route_to(address, whole=True) if address is not None else None
        if route is not None:
            yield text, route
