"""Machines made by hand: a sysfs tree, links as netlink tells them, addresses and routes.

What hardware is follows from the tree through the code that reads real ones; only the kernel's
tables are made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

import attrs

from berth.config.match import NicMatch
from berth.config.nicgroup import NicGroup
from berth.host.hardware import Port
from berth.host.netlink.address import IFA_F_PERMANENT, Address
from berth.host.netlink.link import Link
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import Hop, Route
from berth.host.nicnodes import NicNodes
from berth.host.scan import HostScan, NetDevice
from berth.nic.topology import Topology
from tests.sysfs_tree import SysfsTree

BOOT = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def group(called: str = "fast", /, **facts: Any) -> NicGroup:
    """A group: conditions of its match, and its own keys, by their names alike."""
    conditions = {field.name for field in attrs.fields(NicMatch)}
    match = NicMatch(**{key: value for key, value in facts.items() if key in conditions})
    own = {key: value for key, value in facts.items() if key not in conditions}
    return NicGroup(name=called, match=match, **own)


class Machine:
    """A machine under a folder.

    Attributes:
        tree: Its sysfs.
        links: Its links by name; a test may put others in their place.
    """

    def __init__(self, folder: Path) -> None:
        self.tree = SysfsTree(folder / "sys")
        self.links: dict[str, Link] = {}
        self.addresses: list[Address] = []
        self.routes: list[Route] = []
        self.next_hops: list[NextHop] = []
        self.neighbors: list[Neighbor] = []
        self.ways: list[tuple[str, Route]] = []
        self.products: dict[str, str] = {}
        self.rdma_netns = ""
        self.soft_rdma: dict[str, tuple[str, ...]] = {}
        self.nodes = NicNodes()
        self._index = 1
        self.link("lo", flags=8)

    def link(self, name: str, **facts: Any) -> Link:
        """Add a link that no device carries; masters and parents are given by name."""
        self._index += 1
        for role in ("master", "parent"):
            if isinstance(facts.get(role), str):
                facts[role] = self.links[facts[role]].index
        if facts.get("master"):
            facts.setdefault("port_kind", self._kind_of(facts["master"]))
        facts = {"index": self._index, "mtu": 1500, "mac": self._mac(), **facts}
        self.links[name] = Link(name=name, **facts)
        return self.links[name]

    def nic(
        self, name: str, address: str, *, dev_port: int = 0, speed: int | None = None, **facts: Any
    ) -> Link:
        """Add a link on a PCI function; the function is made unless it is there."""
        if not (self.tree.root / "bus/pci/devices" / address).exists():
            self.tree.function(address)
        perm_mac = facts.pop("perm_mac", None)
        link = self.link(name, parent_device=address, parent_bus="pci", **facts)
        link = attrs.evolve(link, perm_mac=link.mac if perm_mac is None else perm_mac)
        self.links[name] = link
        on = self.tree.folder(address)
        self.tree.link(name, link.index, on=on, dev_port=dev_port, speed=speed)
        return link

    def vf(self, name: str, address: str, *, pf: str, number: int, **facts: Any) -> Link:
        """Add a VF and its link."""
        self.tree.vf(address, pf=pf, number=number, driver="iavf")
        return self.nic(name, address, **facts)

    def on_device(self, name: str, folder: Path, *, bus: str, **facts: Any) -> Link:
        """Add a link on a device of another bus than PCI."""
        link = self.link(name, parent_device=folder.name, parent_bus=bus, **facts)
        self.tree.link(name, link.index, on=folder)
        return link

    def change(self, known: str, /, **facts: Any) -> Link:
        """Change facts of a link; a new name may be among them."""
        link = attrs.evolve(self.links.pop(known), **facts)
        self.links[link.name] = link
        return link

    def address(self, name: str, text: str, *, flags: int = IFA_F_PERMANENT) -> None:
        """Put an address on a link."""
        index = self.links[name].index
        self.addresses.append(Address(index=index, ip=ip_interface(text), flags=flags))

    def route(self, to: str, *names: str, via: str = "", **facts: Any) -> Route:
        """Add a route out of links; several make it multipath."""
        gateway = ip_address(via) if via else None
        hops = tuple(Hop(index=self.links[name].index, gateway=gateway) for name in names)
        route = Route(destination=ip_network(to), hops=hops, **facts)
        self.routes.append(route)
        return route

    def scan(self) -> HostScan:
        """Look at it."""
        devices = tuple(self._device(link) for link in self.links.values() if link.parent_device)
        functions = self.tree.sysfs.functions({d.bearer.function for d in devices} - {""})
        return HostScan(
            boot_id=BOOT,
            functions=functions,
            companions=self.tree.sysfs.sharing(functions),
            devices=devices,
            links=tuple(self.links.values()),
            addresses=tuple(self.addresses),
            routes=tuple(self.routes),
            next_hops=tuple(self.next_hops),
            neighbors=tuple(self.neighbors),
            ways=tuple(self.ways),
            products=self.products,
            rdma_netns=self.rdma_netns,
            soft_rdma=self.soft_rdma,
            nodes=self.nodes,
        )

    def topology(self) -> Topology:
        """Look at it, with tables."""
        return Topology(self.scan())

    def names(self, indexes: Iterable[int]) -> set[str]:
        """Names of links."""
        return {link.name for link in self.links.values() if link.index in set(indexes)}

    def _device(self, link: Link) -> NetDevice:
        sysfs = self.tree.sysfs
        return NetDevice(
            index=link.index,
            bearer=sysfs.bearer(link.parent_bus, link.parent_device),
            port=sysfs.port(link.name, link.index) or Port(),
            speed_mbps=sysfs.speed_mbps(link.name) if link.carrier else None,
        )

    def _kind_of(self, index: int) -> str:
        return next((link.kind for link in self.links.values() if link.index == index), "")

    def _mac(self) -> str:
        return f"02:5e:10:00:{self._index // 256:02x}:{self._index % 256:02x}"
