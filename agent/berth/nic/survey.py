"""Which NICs the machine has, what each of them is, and which groups' conditions it meets.

A `Found` is one thing that may be offered: a link, or a PCI function without one. What a file calls
a device by (an interface name, a PF's name) is resolved here, from the look of one moment; the
caller remembers what was resolved, by identity, so that a later rename changes nothing.

Identities come from what netlink tells of the device that carries a link, so a link is never taken
for another one that sysfs shows under the same name or number.

Source: network.md §1.1, for kinds, identities and names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import attrs

from berth.config.match import LinkType, NicMatch
from berth.config.nicgroup import NicGroup
from berth.host.hardware import PciFunction
from berth.host.netlink.link import ARPHRD_INFINIBAND, Link
from berth.host.scan import NetDevice
from berth.model.device import NicKind, NicMode
from berth.model.names import device_name
from berth.nic.topology import Topology

_ETHERNET: Final = 0x0200
_INFINIBAND: Final = 0x0207
# Base class and subclass. Source: PCI Code and ID Assignment Specification, network controllers.

_REPRESENTOR: Final = re.compile(r"([cp]\d+)?pf\d+(vf|sf|hpf).*|c\d+pf\d+")
# Port names of a switch's ports toward virtual functions, sub-functions and the host's PF.
# Source: Linux Documentation/networking/switchdev.rst, devlink-port.rst.


@attrs.frozen(kw_only=True)
class Found:
    """One network device at one moment.

    Attributes:
        link: ``None`` for a function whose link is not in this namespace, or that has none.
        called: What the configuration calls a virtual link; empty for hardware, and for a link
            that is here because of what was remembered of it.
        pf: The physical function of a VF.
        pf_link: That function's link, when it is here.
        stands_for: What a representor stands for, as its port name says; empty for others.
        soft_rdma: Names of RDMA devices that software makes of its link.
        alike: Another link of the function says the same of itself, so neither can be known again.
    """

    identity: str
    kind: NicKind
    link: Link | None = None
    device: NetDevice | None = None
    function: PciFunction | None = None
    pf: PciFunction | None = None
    pf_link: Link | None = None
    called: str = ""
    stands_for: str = ""
    soft_rdma: tuple[str, ...] = ()
    alike: bool = False

    def rdma_in(self, group: NicGroup) -> tuple[str, ...]:
        """Names of the RDMA devices that go with it.

        One that software makes vanishes when its link moves (seen with rdma_rxe on 6.12), so only
        a parent that stays has it.
        """
        own = self.function.rdma if self.function is not None else ()
        return (*own, *self.soft_rdma) if group.mode is NicMode.SHARED else own

    @property
    def function_driver(self) -> str:
        """Kernel driver of its PCI function, whether that makes a link or not; empty without."""
        return self.function.driver if self.function is not None else ""

    @property
    def driver(self) -> str:
        """Kernel driver that makes the link; a virtual link's kind; empty without either."""
        if self.device is not None and self.device.bearer.driver:
            return self.device.bearer.driver
        if self.function is not None:
            return self.function.driver
        return self.link.kind if self.link is not None else ""

    @property
    def mac(self) -> str:
        """The permanent address; one that has none is known by the address in use."""
        return link_mac(self.link) if self.link is not None else ""

    @property
    def link_type(self) -> LinkType:
        """The sort of network that it speaks; without a link its class says it."""
        if self.link is not None:
            infiniband = self.link.hardware_type == ARPHRD_INFINIBAND
        else:
            infiniband = self.function is not None and _subclass(self.function) == _INFINIBAND
        return LinkType.INFINIBAND if infiniband else LinkType.ETHER

    def name_in(self, group: NicGroup | None) -> str:
        """Its name in slices; no interface name, index or MAC of the hardware enters it."""
        if self.kind is NicKind.VIRTUAL:
            called = self.called or self.identity.rpartition(":")[2]
            return device_name(f"nic-{group.name}" if group else "nic", called)
        prefix = "rdma" if self.kind is NicKind.RDMA else "nic"
        if group is not None and group.mode is NicMode.SHARED:
            prefix = "parent"
        if self.kind is NicKind.USB:
            return device_name(prefix, self.identity.removeprefix("usb:"))
        address, _, port = self.identity.removeprefix("pci:").partition("/")
        return device_name(prefix, address + (f"-p{port}" if port else ""))


def link_mac(link: Link) -> str:
    """The address by which a link is selected."""
    return link.perm_mac or link.mac


def survey(
    topology: Topology, groups: Sequence[NicGroup], known: Collection[str] = ()
) -> tuple[Found, ...]:
    """Every NIC of the machine, and every virtual link that a group names.

    Args:
        known: Identities that were seen or are held: a virtual link among them stays one of ours
            whatever it is called now, and a function with several ports stays one of several.
    """
    functions = [
        *topology.scan.functions,
        *(PciFunction(address=a) for a in topology.on_function if a not in topology.functions),
    ]
    several = {identity.partition("/")[0] for identity in known if "/" in identity}
    pci = [found for function in functions for found in _pci(function, topology, several)]
    return tuple(_with_soft(found, topology) for found in (*pci, *_others(topology, groups, known)))


def _with_soft(found: Found, topology: Topology) -> Found:
    soft = topology.scan.soft_rdma.get(found.link.name, ()) if found.link is not None else ()
    return attrs.evolve(found, soft_rdma=soft) if soft else found


def groups_of(found: Found, groups: Iterable[NicGroup]) -> tuple[NicGroup, ...]:
    """Every group whose conditions all hold, less those that leave the device to another of them.

    More than one is a fault of the configuration.
    """
    fitting = [group for group in groups if _fits(found, group.match)]
    names = {group.name for group in fitting}
    return tuple(group for group in fitting if names.isdisjoint(group.excepts))


def ambiguous_macs(topology: Topology) -> frozenset[str]:
    """Addresses that two links have: a selection by one of them is refused, not guessed."""
    seen: set[str] = set()
    twice: set[str] = set()
    for link in topology.scan.links:
        mac = link_mac(link)
        (twice if mac in seen else seen).add(mac)
    return frozenset(twice - {""})


def _pci(
    function: PciFunction, topology: Topology, with_several: Collection[str]
) -> Iterator[Found]:
    """What one function is: itself, or each of its links.

    Args:
        with_several: Identities of functions known to have several links, wherever those are now.
    """
    devices = topology.on_function.get(function.address, ())
    pf = topology.functions.get(function.physfn)
    bare = Found(
        identity=f"pci:{function.address}",
        kind=_pci_kind(function, devices),
        function=function,
        pf=pf,
        pf_link=_own_link(pf, topology) if pf is not None else None,
    )
    several = bare.identity in with_several
    if not devices:
        if not several:
            yield bare
        return
    links = [topology.links[device.index] for device in devices]
    numbers = [d.port.dev_port for d, link in zip(devices, links, strict=True) if not _stands(link)]
    several |= len(numbers) > 1
    for device, link in zip(devices, links, strict=True):
        number = device.port.dev_port
        suffix = _stands(link) or (str(number) if several else "")
        yield attrs.evolve(
            bare,
            identity=f"{bare.identity}/{suffix}" if suffix else bare.identity,
            link=link,
            device=device,
            stands_for=_stands(link),
            alike=not _stands(link) and numbers.count(number) > 1,
        )


def _pci_kind(function: PciFunction, devices: Collection[NetDevice]) -> NicKind:
    if not devices and function.rdma and _subclass(function) != _ETHERNET:
        return NicKind.RDMA
    if function.physfn:
        return NicKind.VF
    return NicKind.PF if function.total_vfs else NicKind.PCI


def _subclass(function: PciFunction) -> int:
    return function.class_code >> 8


def _stands(link: Link) -> str:
    return link.port_name if _REPRESENTOR.fullmatch(link.port_name) else ""


def _own_link(function: PciFunction, topology: Topology) -> Link | None:
    """The link of a physical function, its representors left out."""
    devices = sorted(topology.on_function.get(function.address, ()), key=lambda d: d.port.dev_port)
    links = [topology.links[device.index] for device in devices]
    return next((link for link in links if not _stands(link)), None)


def _others(
    topology: Topology, groups: Sequence[NicGroup], known: Collection[str]
) -> Iterator[Found]:
    """USB NICs, and links of other sorts that a group names."""
    names = {name for group in groups for name in (*group.match.name, *group.match.altname)}
    macs = {mac for group in groups for mac in group.match.mac}
    for link in topology.scan.links:
        device = topology.devices.get(link.index)
        if device is not None and device.bearer.function:
            continue
        if device is not None and device.bearer.usb_path:
            identity = f"usb:{device.bearer.usb_path}"
            yield Found(identity=identity, kind=NicKind.USB, link=link, device=device)
            continue
        identity = f"link:{topology.scan.boot_id}:{link.index}"
        called = next((name for name in link.names if name in names), "")
        called = called or (link_mac(link) if link_mac(link) in macs else "")
        if called or identity in known:
            yield Found(
                identity=identity, kind=NicKind.VIRTUAL, link=link, device=device, called=called
            )


def _fits(found: Found, match: NicMatch) -> bool:
    function = found.function or PciFunction(address="")
    link = found.link or Link(index=0, name="")
    drivers = {found.driver, function.driver}
    return all(
        (
            not match.pci or any(pattern.fits(function.address) for pattern in match.pci),
            not match.pf or _fits_pf(found, match),
            _among(function.vendor, match.vendor),
            _among(function.device, match.device),
            _among(function.subsystem_device, match.subsystem),
            not match.driver or not drivers.isdisjoint(match.driver),
            _among(found.kind, match.kind),
            _among(link.name, match.name),
            not match.altname or not {*link.altnames}.isdisjoint(match.altname),
            _among(found.mac, match.mac),
            _among(link.port_name, match.port_name),
            _among(found.link_type, match.link_type),
            _among(function.numa_node, match.numa),
            _among(function.pcie_root, match.pcie_root),
            _among(function.acpi_index, match.acpi_index),
            match.rdma is None or match.rdma == bool(function.rdma or found.soft_rdma),
        )
    )


def _fits_pf(found: Found, match: NicMatch) -> bool:
    index = found.function.vf_index if found.function is not None else None
    if found.pf is None or index is None:
        return False
    names = {found.pf.address, *(found.pf_link.names if found.pf_link else ())}
    return any(pattern.pf in names and pattern.has(index) for pattern in match.pf)


def _among(value: object, allowed: Collection[object]) -> bool:
    return not allowed or value in allowed
