"""Which NICs the machine has, what each of them is, and which group takes it.

A `Found` is one thing that may be offered: a link, or a PCI function without one. What a file calls
a device by (an interface name, a PF's name) is resolved here, from the look of one moment; the
caller remembers the group of each identity, so that a later rename changes nothing.

Source: network.md §1.1, for kinds, identities and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from berth.config.match import LinkType, NicMatch
from berth.config.nic import NicGroup
from berth.host.netlink.link import ARPHRD_INFINIBAND, Link
from berth.host.scan import HostScan
from berth.host.sysfs import NetDevice, PciFunction
from berth.model.device import NicKind, NicMode
from berth.model.names import device_name

_FOREIGN_DRIVERS: Final = frozenset({"vfio-pci", "pci-stub", "uio_pci_generic", "igb_uio"})


@attrs.frozen(kw_only=True)
class Found:
    """One network device at one moment.

    Attributes:
        link: ``None`` for a function whose link is not in this namespace, or that has none.
        called: What the configuration calls a virtual link; empty for hardware.
        pf: The physical function of a VF.
        pf_link: That function's link, when it is here.
    """

    identity: str
    kind: NicKind
    link: Link | None = None
    device: NetDevice | None = None
    function: PciFunction | None = None
    pf: PciFunction | None = None
    pf_link: Link | None = None
    called: str = ""

    @property
    def has_foreign_driver(self) -> bool:
        """Whether a driver has it that makes no link, on purpose."""
        return self.function is not None and self.function.driver in _FOREIGN_DRIVERS

    def name_in(self, group: NicGroup | None) -> str:
        """Its name in slices; no interface name, index or MAC of the hardware enters it."""
        if self.kind is NicKind.VIRTUAL:
            return device_name(f"nic-{group.name}" if group else "nic", self.called)
        prefix = {NicKind.RDMA: "rdma"}.get(self.kind, "nic")
        if group is not None and group.mode is NicMode.SHARED:
            prefix = "parent"
        if self.kind is NicKind.USB:
            return device_name(prefix, self.identity.partition(":")[2])
        address, _, port = self.identity.removeprefix("pci:").partition("/")
        return device_name(prefix, address + (f"-p{port}" if port else ""))


def survey(scan: HostScan, groups: Iterable[NicGroup]) -> tuple[Found, ...]:
    """Every NIC of the machine, and every virtual link that a group names."""
    functions = {function.address: function for function in scan.functions}
    links = {link.index: link for link in scan.links}
    by_function: dict[str, list[NetDevice]] = {}
    for device in scan.net_devices:
        if device.index in links and device.function in functions:
            by_function.setdefault(device.function, []).append(device)
    names = {name for group in groups for name in (*group.match.name, *group.match.altname)}
    macs = {mac for group in groups for mac in group.match.mac}
    return (
        *_pci(scan, functions, by_function, links),
        *_others(scan, links, names, macs),
    )


def groups_of(found: Found, groups: Iterable[NicGroup]) -> tuple[NicGroup, ...]:
    """Every group whose conditions all hold; more than one is a fault of the configuration."""
    return tuple(group for group in groups if _fits(found, group.match))


def ambiguous_macs(founds: Iterable[Found]) -> frozenset[str]:
    """Addresses that two links have: a selection by one of them is refused, not guessed."""
    seen: dict[str, int] = {}
    for found in founds:
        for mac in {_mac(found)} - {""}:
            seen[mac] = seen.get(mac, 0) + 1
    return frozenset(mac for mac, count in seen.items() if count > 1)


def _pci(
    scan: HostScan,
    functions: Mapping[str, PciFunction],
    by_function: Mapping[str, list[NetDevice]],
    links: Mapping[int, Link],
) -> Iterator[Found]:
    for function in scan.functions:
        devices = sorted(by_function.get(function.address, ()), key=lambda d: d.dev_port)
        if not (function.is_network or devices or function.rdma):
            continue
        pf_devices = by_function.get(function.physfn, ())
        bare = Found(
            identity=f"pci:{function.address}",
            kind=_pci_kind(function, devices),
            function=function,
            pf=functions.get(function.physfn),
            pf_link=links.get(pf_devices[0].index) if pf_devices else None,
        )
        if not devices:
            yield bare
        for device in devices:
            port = f"/{device.dev_port}" if len(devices) > 1 else ""
            yield attrs.evolve(
                bare,
                identity=f"{bare.identity}{port}",
                link=links[device.index],
                device=device,
            )


def _pci_kind(function: PciFunction, devices: Iterable[NetDevice]) -> NicKind:
    if not function.is_network and not any(devices):
        return NicKind.RDMA
    if function.physfn:
        return NicKind.VF
    return NicKind.PF if function.total_vfs else NicKind.PCI


def _others(
    scan: HostScan, links: Mapping[int, Link], names: set[str], macs: set[str]
) -> Iterator[Found]:
    devices = {device.index: device for device in scan.net_devices}
    for link in links.values():
        device = devices.get(link.index)
        if device is not None and device.function:
            continue
        if device is not None and device.usb_path:
            identity = f"usb:{device.usb_path}"
            yield Found(identity=identity, kind=NicKind.USB, link=link, device=device)
            continue
        called = next((name for name in link.names if name in names), "")
        if not called and link.mac in macs:
            called = link.name
        if called:
            yield Found(
                identity=f"link:{scan.boot_id}:{link.index}",
                kind=NicKind.VIRTUAL,
                link=link,
                device=device,
                called=called,
            )


def _fits(found: Found, match: NicMatch) -> bool:
    return all(
        (
            not match.pci or any(p.fits(_address(found)) for p in match.pci),
            not match.pf or _fits_pf(found, match),
            _among(_function(found).vendor, match.vendor),
            _among(_function(found).device, match.device),
            _among(_function(found).subsystem_device, match.subsystem),
            _among(_driver(found), match.driver),
            _among(found.kind, match.kind),
            not match.name or (found.link is not None and found.link.name in match.name),
            not match.altname
            or (found.link is not None and not {*found.link.altnames}.isdisjoint(match.altname)),
            _among(_mac(found), match.mac),
            _among(found.link.port_name if found.link else "", match.port_name),
            _among(link_type(found), match.link_type),
            _among(_function(found).numa_node, match.numa),
            _among(_function(found).pcie_root, match.pcie_root),
            _among(_function(found).acpi_index, match.acpi_index),
            match.rdma is None or match.rdma == bool(_function(found).rdma),
        )
    )


def _fits_pf(found: Found, match: NicMatch) -> bool:
    index = _function(found).vf_index
    if found.pf is None or index is None:
        return False
    names = {found.pf.address, *(found.pf_link.names if found.pf_link else ())}
    return any(pattern.pf in names and pattern.has(index) for pattern in match.pf)


def link_type(found: Found) -> LinkType:
    """The sort of network that it speaks."""
    infiniband = found.link is not None and found.link.hardware_type == ARPHRD_INFINIBAND
    return LinkType.INFINIBAND if infiniband else LinkType.ETHER


def _among(value: object, allowed: tuple[object, ...]) -> bool:
    return not allowed or value in allowed


def _function(found: Found) -> PciFunction:
    return found.function or PciFunction(address="")


def _address(found: Found) -> str:
    return _function(found).address


def _driver(found: Found) -> str:
    return _function(found).driver or (found.link.kind if found.link else "")


def _mac(found: Found) -> str:
    """The permanent address; a virtual link has none, so the one that it has."""
    if found.link is None:
        return ""
    return found.link.perm_mac or found.link.mac
