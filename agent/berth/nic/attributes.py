"""Which attributes devices of a type carry, and what each of them says of a NIC.

Every own attribute of a type stands on all devices of that type, with a neutral value where it is
unknown: a CEL selector that reads a key which one matching device lacks stops the allocation of
every pod that uses it (seen on 1.37.2). Only the standard ones are left out when unknown, since two
unknowns must not match each other.

So which keys a type has follows from the settings alone, never from the NICs that are there.

Source: network.md §2.1, §2.2; KC §4.7 for the standard ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from berth.config.match import NicMatch
from berth.config.nic import AliasSet, NicTable
from berth.config.nicgroup import NicGroup
from berth.host.hardware import PciFunction
from berth.model.device import Attribute, NicKind, NicMode, Version
from berth.nic.survey import Found

KEYS_LIMIT: Final = 32
"""Most attributes and capacities of a device. Source: ``resource/v1/types.go``."""

STANDARD: Final = "resource.kubernetes.io"
"""Domain of the attributes that drivers have in common."""

VFIO_TYPE: Final = "nic-vfio"
"""Type of a NIC that is given as a PCI function."""

_STANDARD_KEYS: Final = ("pciBusID", "pcieRoot", "numaNode")

Attributes: TypeAlias = Mapping[str, Attribute]


@attrs.frozen(kw_only=True)
class Subject:
    """A NIC that is to be described.

    Attributes:
        product: What its model is called; empty when unknown.
        speed_mbps: Last speed seen with carrier in this boot; 0 when none was.
        addresses: Addresses that the host has on it, in text.
        rdma_netns: Which namespaces see RDMA devices: ``shared`` or ``exclusive``.
    """

    found: Found
    group: NicGroup
    product: str = ""
    rdma_netns: str = ""
    speed_mbps: int = 0
    addresses: tuple[str, ...] = ()

    @property
    def function(self) -> PciFunction:
        """Its PCI function; one without any facts where it is none."""
        return self.found.function or PciFunction(address="")

    @property
    def rdma(self) -> tuple[str, ...]:
        """Names of its RDMA devices."""
        return self.found.rdma_in(self.group)

    @property
    def type(self) -> str:
        """The attribute ``type``: how the device may be used."""
        return type_of(self.group)


SHARED: Final = "nic-shared"
"""Type of a parent that is divided among several."""


def type_of(group: NicGroup) -> str:
    """The type of the devices of a group."""
    return _TYPES[group.mode]


_TYPES: Final = {
    NicMode.EXCLUSIVE: "nic",
    NicMode.SHARED: SHARED,
    NicMode.VFIO: VFIO_TYPE,
}


@attrs.frozen(kw_only=True)
class Keys:
    """The attributes of one type.

    Attributes:
        makers: What gives the value of each, but for the operators' own.
        neutral: The neutral value of every attribute, the operators' own among them.
        dropped: Those for which there was no room.
    """

    makers: Mapping[str, Maker]
    neutral: Attributes
    dropped: tuple[str, ...] = ()

    def values(self, subject: Subject) -> Attributes:
        """All attributes of a NIC, the standard ones as far as they are known."""
        return {
            **self.neutral,
            **standard(subject.found),
            **{name: make(subject) for name, make in self.makers.items()},
            **subject.group.attributes,
        }

    def kept(self, values: Attributes) -> Attributes:
        """The attributes of a NIC that is held: what it said then, under the keys of now.

        What changes by itself is not known of a NIC that is away.
        """
        known = {
            name: value
            for name, value in values.items()
            if name.startswith(f"{STANDARD}/")
            or (name not in VOLATILE and type(value) is type(self.neutral.get(name)))
        }
        return {**self.neutral, **known}


def keys_of(type_: str, table: NicTable) -> Keys:
    """Which attributes the devices of a type carry under these settings.

    What does not fit is dropped for the whole type: what changes by itself first, then extra ones
    from the bottom of their table, then the names of other drivers from the last set on.
    """
    groups = [group for group in table.groups if type_of(group) == type_]
    own: dict[str, Attribute] = {}
    for group in groups:
        for name, value in group.attributes.items():
            own.setdefault(name, _neutral(value))
    capacities = 0
    if type_ == type_of(_ANY_SHARED):
        capacities = 2 if any(group.shared.bandwidth for group in groups) else 1
    room = KEYS_LIMIT - capacities - len(own) - len(_CORE) - len(_STANDARD_KEYS)
    optional = [*(item for name in table.aliases for item in _ALIASES[name].items())]
    optional += EXTRA.items()
    optional += VOLATILE.items() if table.publish_volatile else ()
    fitting, dropped = optional[: max(0, room)], optional[max(0, room) :]
    makers = {**_CORE, **dict(fitting)}
    neutral = {name: _neutral(make(_BLANK)) for name, make in makers.items()}
    return Keys(
        makers=makers,
        neutral={**neutral, **dict.fromkeys(_NOT_ZERO & neutral.keys(), -1), **own},
        dropped=tuple(name for name, _ in dropped),
    )


def _neutral(value: Attribute) -> Attribute:
    if isinstance(value, Version):
        return Version("0.0.0")
    if isinstance(value, bool):
        return False
    return 0 if isinstance(value, int) else ""


def standard(found: Found) -> Attributes:
    """The attributes that drivers have in common, as far as they are known."""
    function = found.function
    if function is None:
        return {}
    values: dict[str, Attribute] = {}
    if function.is_standard:
        values[f"{STANDARD}/pciBusID"] = function.address
        if function.pcie_root:
            values[f"{STANDARD}/pcieRoot"] = function.pcie_root
    if function.numa_node is not None:
        values[f"{STANDARD}/numaNode"] = function.numa_node
    return values


Maker: TypeAlias = Callable[[Subject], Attribute]
"""Gives the value of one attribute."""

_ANY_SHARED: Final = NicGroup(name="", match=NicMatch(), mode=NicMode.SHARED)
_BLANK: Final = Subject(
    found=Found(identity="", kind=NicKind.VIRTUAL), group=NicGroup(name="", match=NicMatch())
)
_NO_MAC: Final = "00:00:00:00:00:00"


def _mac(subject: Subject) -> str:
    found = subject.found
    if found.kind is not NicKind.VF:
        return found.mac
    # A VF's permanent address is new after each bind; one that an administrator set stays.
    vfs = found.pf_link.vfs if found.pf_link is not None else ()
    number = subject.function.vf_index
    mac = next((vf.mac for vf in vfs if vf.number == number), "")
    return "" if mac == _NO_MAC else mac


def _name(subject: Subject) -> str:
    """Of what has no link in its pod, and none on the host while it is held, nobody is told one."""
    link = subject.found.link
    return "" if link is None or subject.group.mode is NicMode.VFIO else link.name


def _speed(subject: Subject) -> int:
    device = subject.found.device
    return (device.speed_mbps if device is not None else None) or subject.speed_mbps


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number


def _subsystem(function: PciFunction) -> str:
    if not function.subsystem_vendor:
        return ""
    return f"{function.subsystem_vendor}:{function.subsystem_device}"


def _pf_name(subject: Subject) -> str:
    return subject.found.pf_link.name if subject.found.pf_link is not None else ""


def _pf_device(subject: Subject) -> str:
    return subject.found.pf.device if subject.found.pf is not None else ""


def _addresses(sign: str) -> Maker:
    return lambda subject: ",".join(a for a in subject.addresses if sign in a)


_CORE: Final[Mapping[str, Maker]] = {
    "type": lambda s: s.type,
    "group": lambda s: s.group.name,
    "kind": lambda s: s.found.kind.value,
    "ifName": _name,
    "driver": lambda s: s.found.driver,
    "linkType": lambda s: s.found.link_type.value,
    "vendorID": lambda s: s.function.vendor,
    "deviceID": lambda s: s.function.device,
    "productName": lambda s: s.product,
    "mac": _mac,
    "mtu": lambda s: s.found.link.mtu if s.found.link else 0,
    "speedMbps": _speed,
    "sriov": lambda s: s.function.total_vfs > 0,
    "totalVFs": lambda s: s.function.total_vfs,
    "pfName": _pf_name,
    "pfPciBusID": lambda s: s.function.physfn,
    "vfIndex": lambda s: _or_unknown(s.function.vf_index),
    "rdma": lambda s: bool(s.rdma),
    "rdmaDevice": lambda s: next(iter(s.rdma), ""),
    "iommuGroup": lambda s: _or_unknown(s.function.iommu_group),
}
"""Always there, so that classes and selectors may rely on them."""

EXTRA: Final[Mapping[str, Maker]] = {
    "portName": lambda s: s.found.link.port_name if s.found.link else "",
    "subsystemID": lambda s: _subsystem(s.function),
    "maxMTU": lambda s: s.found.link.max_mtu if s.found.link else 0,
    "numVFs": lambda s: s.function.num_vfs,
    "pfDeviceID": _pf_device,
    "switchID": lambda s: s.found.link.switch_id if s.found.link else "",
    "rdmaNetns": lambda s: s.rdma_netns if s.rdma else "",
    "ptp": lambda s: s.found.device is not None and s.found.device.port.ptp,
}
"""On all devices of a type, or on none; the most dispensable last."""

VOLATILE: Final[Mapping[str, Maker]] = {
    "carrier": lambda s: bool(s.found.link and s.found.link.carrier),
    "operState": lambda s: s.found.link.operstate if s.found.link else "",
    "ipv4": _addresses("."),
    "ipv6": _addresses(":"),
}
"""What changes by itself; published on request."""

_SRIOV: Final = "sriovnetwork.k8snetworkplumbingwg.io"
_MULTUS: Final = "k8s.cni.cncf.io"

_ALIASES: Final[Mapping[AliasSet, Mapping[str, Maker]]] = {
    AliasSet.DRA_NET: {
        "pciAddress": lambda s: s.function.address,
        "numaNode": lambda s: _or_unknown(s.function.numa_node),
        "encapsulation": lambda s: s.found.link_type.value,
        "virtual": lambda s: s.found.kind is NicKind.VIRTUAL,
        "sriovVfs": lambda s: s.function.num_vfs,
        "isSriovVf": lambda s: s.found.kind is NicKind.VF,
    },
    AliasSet.SRIOV: {
        f"{_SRIOV}/pciAddress": lambda s: s.function.address,
        f"{_SRIOV}/PFName": _pf_name,
        f"{_SRIOV}/pfPciAddress": lambda s: s.function.physfn,
        f"{_SRIOV}/vendor": lambda s: s.function.vendor,
        f"{_SRIOV}/deviceID": lambda s: s.function.device,
        f"{_SRIOV}/pfDeviceID": _pf_device,
        f"{_SRIOV}/vfID": lambda s: _or_unknown(s.function.vf_index),
        f"{_SRIOV}/linkType": lambda s: s.found.link_type.value,
        f"{_SRIOV}/rdmaCapable": lambda s: bool(s.rdma),
        # Only devlink tells it, which is not asked yet.
        f"{_SRIOV}/EswitchMode": lambda _: "",
    },
    AliasSet.MULTUS: {
        f"{_MULTUS}/deviceID": lambda s: s.function.address,
        f"{_MULTUS}/resourceName": lambda s: s.group.name,
    },
}
"""Names of other drivers; what those call like ours means the same, and is not told twice."""

_NOT_ZERO: Final = frozenset({"vfIndex", "iommuGroup", "numaNode", f"{_SRIOV}/vfID"})
"""Numbers of which 0 is one."""

PUBLISHED: Final = frozenset(
    {*_CORE, *EXTRA, *VOLATILE, *(name for names in _ALIASES.values() for name in names)}
)
"""Every name that may be published, but for the standard ones and the operators' own."""
