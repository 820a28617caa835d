"""What a slice says of a NIC: attributes, capacities, order.

Every own attribute of a type stands on all devices of that type, with a neutral value where it is
unknown: a CEL selector that reads a key which one matching device lacks stops the allocation of
every pod that uses it (seen on 1.37.2). Only the standard ones are left out when unknown, since two
unknowns must not match each other.

Source: network.md §2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from berth.config.nic import AliasSet, NicGroup, NicTable
from berth.host.sysfs import PciFunction
from berth.model.device import (
    Attribute,
    Capacity,
    CapacityRange,
    Device,
    NicKind,
    NicMode,
    Version,
)
from berth.nic.survey import Found, link_type

KEYS_LIMIT: Final = 32
"""Most attributes and capacities of a device. Source: ``resource/v1/types.go``."""

TEXT_LIMIT: Final = 64
"""Longest string attribute, in bytes."""

_MEGABIT: Final = 1_000_000
_STANDARD: Final = "resource.kubernetes.io"

Attributes: TypeAlias = dict[str, Attribute]


@attrs.frozen(kw_only=True)
class Offer:
    """One NIC that is to be published.

    Attributes:
        speed_mbps: Last speed seen with carrier in this boot; 0 when none was.
    """

    found: Found
    group: NicGroup
    group_rank: int
    speed_mbps: int = 0
    addresses: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The attribute ``type``: how the device may be used."""
        return "nic-shared" if self.group.mode is NicMode.SHARED else "nic"


@attrs.frozen(kw_only=True)
class Publication:
    """The devices to publish, in order, and what an operator should know of them."""

    devices: tuple[Device, ...]
    warnings: tuple[str, ...] = ()


def publish(offers: Iterable[Offer], table: NicTable) -> Publication:
    """The devices of all offers, in the order in which the scheduler shall try them."""
    ordered = sorted(offers, key=_order)
    warnings: list[str] = []
    devices: dict[int, Device] = {}
    for type_ in sorted({offer.type for offer in ordered}):
        alike = [(n, offer) for n, offer in enumerate(ordered) if offer.type == type_]
        attributes, dropped = _attributes([offer for _, offer in alike], table)
        if dropped:
            warnings.append(
                f'devices of type "{type_}" have no room for {", ".join(dropped)}: '
                f"a device holds {KEYS_LIMIT} attributes and capacities"
            )
        for (number, offer), values in zip(alike, attributes, strict=True):
            devices[number] = _device(offer, values)
    return Publication(
        devices=tuple(devices[number] for number in range(len(ordered))), warnings=tuple(warnings)
    )


def _order(offer: Offer) -> tuple[object, ...]:
    shared = offer.group.mode is NicMode.SHARED
    return offer.group.order, shared, offer.group_rank, offer.found.identity


def _device(offer: Offer, attributes: Attributes) -> Device:
    pf = offer.found.function.physfn if offer.found.function else ""
    return Device(
        name=offer.found.name_in(offer.group),
        identity=offer.found.identity,
        type=offer.type,
        group=offer.group.name,
        attributes=attributes,
        capacity=_capacity(offer.group),
        shared=offer.group.mode is NicMode.SHARED,
        bucket=f"{offer.group.name}/{pf or offer.found.identity}",
    )


def _capacity(group: NicGroup) -> Mapping[str, Capacity]:
    if group.mode is not NicMode.SHARED:
        return {}
    shared = group.shared
    capacity = {"slots": Capacity(value=shared.slots, default=1, values=(1,))}
    if shared.bandwidth is not None:
        share = shared.bandwidth // shared.slots // _MEGABIT * _MEGABIT
        capacity["bandwidth"] = Capacity(
            value=shared.bandwidth,
            default=share,
            bounds=CapacityRange(minimum=_MEGABIT, step=_MEGABIT),
        )
    return capacity


def _attributes(
    offers: Sequence[Offer], table: NicTable
) -> tuple[list[Attributes], tuple[str, ...]]:
    """The attributes of devices of one type, and the keys for which there was no room."""
    own = _neutral_own(offers)
    capacities = max(len(_capacity(offer.group)) for offer in offers)
    # The standard ones may be absent from some devices, never too many on one.
    room = KEYS_LIMIT - capacities - len(own) - len(_CORE) - 3
    wanted = _optional(table)
    kept, dropped = wanted[: max(0, room)], wanted[max(0, room) :]
    result = []
    for offer in offers:
        values: Attributes = {name: _bounded(name, make(offer)) for name, make in _CORE}
        values.update(_standard(offer.found))
        values.update({name: _bounded(name, make(offer)) for name, make in kept})
        values.update({**own, **offer.group.attributes})
        result.append(values)
    return result, tuple(name for name, _ in dropped)


def _neutral_own(offers: Sequence[Offer]) -> Attributes:
    """The operator's attributes of all groups of the type, with the neutral value of each kind."""
    own: Attributes = {}
    for offer in offers:
        for name, value in offer.group.attributes.items():
            own.setdefault(name, _neutral(value))
    return own


def _neutral(value: Attribute) -> Attribute:
    if isinstance(value, Version):
        return Version("0.0.0")
    if isinstance(value, bool):
        return False
    return 0 if isinstance(value, int) else ""


def _standard(found: Found) -> Attributes:
    function = found.function
    if function is None:
        return {}
    values: Attributes = {}
    if function.is_standard:
        values[f"{_STANDARD}/pciBusID"] = function.address
        if function.pcie_root:
            values[f"{_STANDARD}/pcieRoot"] = function.pcie_root
    if function.numa_node is not None:
        values[f"{_STANDARD}/numaNode"] = function.numa_node
    return values


def _bounded(name: str, value: Attribute) -> Attribute:
    """Text that a slice can hold: descriptions are cut, what selectors compare becomes neutral."""
    if not isinstance(value, str) or len(value.encode()) <= TEXT_LIMIT:
        return value
    if name not in _DESCRIPTIVE:
        return ""
    return value.encode()[:TEXT_LIMIT].decode(errors="ignore")


_DESCRIPTIVE: Final = frozenset({"productName", "ipv4", "ipv6"})

_Maker: TypeAlias = Callable[[Offer], Attribute]
_Makers: TypeAlias = "tuple[tuple[str, _Maker], ...]"


def _function(offer: Offer) -> PciFunction:
    return offer.found.function or PciFunction(address="")


def _pf(offer: Offer) -> PciFunction:
    return offer.found.pf or PciFunction(address="")


def _mac(offer: Offer) -> str:
    link = offer.found.link
    if link is None or offer.found.kind is NicKind.VF:
        # A VF's permanent address is new after each bind; only an administrator's would stay.
        return ""
    return link.perm_mac or link.mac


def _speed(offer: Offer) -> int:
    device = offer.found.device
    return (device.speed_mbps if device else None) or offer.speed_mbps


def _addresses(version: int) -> _Maker:
    def make(offer: Offer) -> Attribute:
        sign = ":" if version == 6 else "."
        return ",".join(a for a in offer.addresses if sign in a)

    return make


_CORE: Final[_Makers] = (
    ("type", lambda o: o.type),
    ("group", lambda o: o.group.name),
    ("kind", lambda o: o.found.kind.value),
    ("ifName", lambda o: o.found.link.name if o.found.link else ""),
    ("driver", lambda o: _function(o).driver or (o.found.link.kind if o.found.link else "")),
    ("linkType", lambda o: link_type(o.found).value),
    ("vendorID", lambda o: _function(o).vendor),
    ("deviceID", lambda o: _function(o).device),
    ("productName", lambda _: ""),
    ("mac", _mac),
    ("mtu", lambda o: o.found.link.mtu if o.found.link else 0),
    ("speedMbps", _speed),
    ("sriov", lambda o: _function(o).total_vfs > 0),
    ("totalVFs", lambda o: _function(o).total_vfs),
    ("pfName", lambda o: o.found.pf_link.name if o.found.pf_link else ""),
    ("pfPciBusID", lambda o: _function(o).physfn),
    ("vfIndex", lambda o: -1 if (i := _function(o).vf_index) is None else i),
    ("rdma", lambda o: bool(_function(o).rdma)),
    ("rdmaDevice", lambda o: next(iter(_function(o).rdma), "")),
    ("iommuGroup", lambda o: -1 if (g := _function(o).iommu_group) is None else g),
)
"""Always there, so that classes and selectors may rely on them."""

_EXTRA: Final[_Makers] = (
    ("portName", lambda o: o.found.link.port_name if o.found.link else ""),
    ("subsystemID", lambda o: _subsystem(_function(o))),
    ("maxMTU", lambda o: o.found.link.max_mtu if o.found.link else 0),
    ("numVFs", lambda o: _function(o).num_vfs),
    ("pfDeviceID", lambda o: _pf(o).device),
    ("switchID", lambda o: o.found.link.switch_id if o.found.link else ""),
)

_VOLATILE: Final[_Makers] = (
    ("carrier", lambda o: bool(o.found.link and o.found.link.carrier)),
    ("operState", lambda o: o.found.link.operstate if o.found.link else "unknown"),
    ("ipv4", _addresses(4)),
    ("ipv6", _addresses(6)),
)

_SRIOV: Final = "sriovnetwork.k8snetworkplumbingwg.io"
_MULTUS: Final = "k8s.cni.cncf.io"

_ALIASES: Final[Mapping[AliasSet, _Makers]] = {
    AliasSet.DRA_NET: (
        ("pciAddress", lambda o: _function(o).address),
        ("numaNode", lambda o: -1 if (n := _function(o).numa_node) is None else n),
        ("encapsulation", lambda o: link_type(o.found).value),
        ("virtual", lambda o: o.found.kind is NicKind.VIRTUAL),
        ("sriovVfs", lambda o: _function(o).num_vfs),
        ("isSriovVf", lambda o: o.found.kind is NicKind.VF),
    ),
    AliasSet.SRIOV: (
        (f"{_SRIOV}/pciAddress", lambda o: _function(o).address),
        (f"{_SRIOV}/PFName", lambda o: o.found.pf_link.name if o.found.pf_link else ""),
        (f"{_SRIOV}/pfPciAddress", lambda o: _function(o).physfn),
        (f"{_SRIOV}/vendor", lambda o: _function(o).vendor),
        (f"{_SRIOV}/deviceID", lambda o: _function(o).device),
        (f"{_SRIOV}/pfDeviceID", lambda o: _pf(o).device),
        (f"{_SRIOV}/vfID", lambda o: -1 if (i := _function(o).vf_index) is None else i),
        (f"{_SRIOV}/linkType", lambda o: link_type(o.found).value),
        (f"{_SRIOV}/rdmaCapable", lambda o: bool(_function(o).rdma)),
    ),
    AliasSet.MULTUS: (
        (f"{_MULTUS}/deviceID", lambda o: _function(o).address),
        (f"{_MULTUS}/resourceName", lambda o: o.group.name),
    ),
}


def _subsystem(function: PciFunction) -> str:
    if not function.subsystem_vendor:
        return ""
    return f"{function.subsystem_vendor}:{function.subsystem_device}"


def _optional(table: NicTable) -> _Makers:
    """What is published where there is room, the most dispensable last."""
    aliases = tuple(item for name in table.aliases for item in _ALIASES[name])
    return (*aliases, *_EXTRA, *(_VOLATILE if table.publish_volatile else ()))
