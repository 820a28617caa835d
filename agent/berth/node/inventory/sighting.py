"""One device at one moment, judged: its name, its group, and why it is not offered.

What the settings came to for a device when it appeared is remembered, and what is held keeps
the name and group that it had then. So neither a rename nor other settings re-sort devices that
are in use.

Source: network.md §1.2, §1.4, §2.3; gpu-and-health.md L13; daemon.md §4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from berth.config.nic import NicTable
from berth.config.nicgroup import Attach, NicGroup
from berth.errors import printable
from berth.model.device import (
    RESTORE_FAILED,
    RETURNING,
    CounterSet,
    Exclusion,
    Nic,
    NicKind,
    NicMode,
)
from berth.model.names import device_name
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Door, Peripheral
from berth.nic.exclusion import Circumstances, exclude
from berth.nic.listing import terms_of
from berth.nic.survey import Found, groups_of
from berth.node.holders.holding import Holding
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord


@attrs.frozen(kw_only=True)
class Pin:
    """What the settings came to for one identity when it appeared.

    Attributes:
        driver: That its function had then; under another one it is another device to its users.
    """

    group: str
    name: str
    driver: str = ""


@attrs.frozen(kw_only=True)
class Memory:
    """What a look keeps from the one before.

    Attributes:
        pins: Group and slice name of each identity, so that a rename re-sorts no device.
        speeds: Last speed seen with carrier in this boot, by identity, in Mbit/s.
    """

    pins: Mapping[str, Pin] = attrs.field(factory=dict)
    speeds: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Outlook:
    """What a look is judged by, besides the machine itself.

    Attributes:
        closed: Why no free NIC may be offered now, such as a runtime that is not connected;
            ``None`` when nothing speaks against it.
        refused: Devices that the API server does not take, by slice name, with its words.
        own_addresses: Addresses by which the node is reached.
        driver: Our driver's name, the domain of taints.
        auto: What ``door = "auto"`` comes to.
        peripherals: What the sources of other devices saw last.
        counter_sets: What parts of divided devices draw on, by the same sources.
        costs: What other devices cost the node of its own resources, by identity.
        given: What the device plugin has given.
        remarks: What those sources have to say of the settings.
        skipped: What claims hold that kubelet does not ask for, as if it had.
        skips: What kubelet need not ask for, by generic group.
    """

    table: NicTable
    records: Sequence[ClaimRecord] = ()
    closed: Exclusion | None = None
    refused: Mapping[str, str] = attrs.field(factory=dict)
    own_addresses: tuple[str, ...] = ()
    driver: str = ""
    auto: Door = Door.DRA
    peripherals: tuple[Peripheral, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    costs: Mapping[str, NodeCosts] = attrs.field(factory=dict)
    given: Sequence[Given] = ()
    remarks: tuple[str, ...] = ()
    skipped: Sequence[ClaimRecord] = ()
    skips: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Sighting:
    """One device, judged.

    Attributes:
        group: The group that takes it, as it is set now.
        selecting: Names of all groups whose conditions it meets or met.
        exclusion: Why it is not offered at any door, or not to claims.
        against: What of it speaks against the device itself.
    """

    found: Found
    name: str
    group: NicGroup | None
    selecting: tuple[str, ...]
    exclusion: Exclusion | None
    against: Exclusion | None = None
    holding: Holding | None = None


def sight(
    found: Found,
    held: Mapping[str, Holding],
    outlook: Outlook,
    around: Circumstances,
    memory: Memory,
) -> Sighting:
    """Judge one device.

    Args:
        held: Everything that somebody holds, by identity.
        memory: From the look before.
    """
    holding = held.get(found.identity)
    if holding is not None:
        return _sight_held(found, holding, outlook, around)
    groups = outlook.table.groups
    pin = memory.pins.get(found.identity)
    if pin is not None and pin.driver != found.function_driver:
        pin = None
    pinned = [group for group in groups if pin is not None and group.name == pin.group]
    fitting = pinned or groups_of(found, groups)
    group = fitting[0] if len(fitting) == 1 else None
    name = pin.name if pin is not None and pinned else found.name_in(group)
    against = exclude(found, fitting, around)
    return Sighting(
        found=found,
        name=name,
        group=group,
        selecting=tuple(group.name for group in fitting),
        exclusion=against or _shut(name, group, outlook),
        against=against,
    )


def _sight_held(
    found: Found, holding: Holding, outlook: Outlook, around: Circumstances
) -> Sighting:
    group = _group_then(holding, outlook.table)
    against = _against_held(found, group, holding, around)
    closed = _shut(holding.name, group, outlook) if holding.is_parent else None
    return Sighting(
        found=found,
        name=holding.name,
        group=group,
        selecting=(holding.group,),
        exclusion=against or closed,
        against=against,
        holding=holding,
    )


def _group_then(holding: Holding, table: NicTable) -> NicGroup | None:
    """The group that gave a held device, unless it is gone or now means something else."""
    for group in table.groups:
        if group.name == holding.group and group.mode is _mode(None, holding):
            return group
    return None


def _against_held(
    found: Found,
    group: NicGroup | None,
    holding: Holding,
    around: Circumstances,
) -> Exclusion | None:
    if holding.is_parent:
        if group is None:
            detail = f'{", ".join(holding.holders)} had it of group "{holding.group}"'
            return Exclusion(reason="held", detail=detail)
        return exclude(found, [group], around)
    if not holding.is_living:
        return _on_its_way(holding)
    if group is None or found.link is None:
        return None
    return exclude(found, [group], around)


def _on_its_way(holding: Holding) -> Exclusion:
    """Why a device is not free although its claim is over."""
    if holding.fault:
        return Exclusion(reason=RESTORE_FAILED, detail=holding.fault)
    return Exclusion(reason=RETURNING, detail=f"from {', '.join(holding.holders)}")


def _shut(name: str, group: NicGroup | None, outlook: Outlook) -> Exclusion | None:
    """What keeps a device from being offered although nothing speaks against the device."""
    if not outlook.table.enabled:
        return Exclusion(reason="not-selected", detail="[nic] enabled is false")
    if name in outlook.refused:
        return Exclusion(reason="unpublishable", detail=outlook.refused[name])
    return outlook.closed if group is None or _needs_runtime(group, outlook) else None


def _needs_runtime(group: NicGroup, outlook: Outlook) -> bool:
    """Whether a hook of the runtime moves what the group gives.

    Else a CNI plugin does, or nobody needs to: a function that is bound to vfio-pci stays.
    """
    if group.mode is NicMode.VFIO:
        return False
    terms = terms_of(group, driver=outlook.driver, auto=outlook.auto)
    return terms.door.opens_dra or terms.attach is Attach.NRI


def tell_apart(seen: Sequence[Sighting]) -> list[Sighting]:
    """One device per name: whoever is held has it, else whoever comes first in the machine.

    Configured names that differ only in signs that a slice does not know come to one name.
    """
    owners: dict[str, str] = {}
    for one in sorted(seen, key=lambda one: one.holding is None):
        owners.setdefault(one.name, one.found.identity)
    return [
        one if owners[one.name] == one.found.identity else _renamed(one, owners[one.name])
        for one in seen
    ]


def _renamed(one: Sighting, owner: str) -> Sighting:
    detail = f"its name {one.name} is that of {owner}"
    return attrs.evolve(
        one,
        name=device_name(one.name, one.found.identity),
        exclusion=one.exclusion or Exclusion(reason="unpublishable", detail=detail),
    )


def show(one: Sighting) -> Nic:
    """What is told of a device that was seen, offered or not."""
    found, link, holding = one.found, one.found.link, one.holding
    originals = holding.originals if holding is not None else None
    return Nic(
        identity=found.identity,
        name=one.name,
        kind=_kind_then(holding) if holding is not None and link is None else found.kind,
        group=holding.group if holding is not None else (one.group.name if one.group else ""),
        mode=_mode(one.group, holding),
        ifname=printable(link.name if link else (originals.name if originals else "")),
        ifindex=link.index if link else 0,
        pci=found.function.address if found.function else "",
        driver=found.driver,
        mac=found.mac or _mac_then(holding),
        held_by=holding.holders if holding is not None else (),
        exclusion=_printable(one.exclusion),
    )


def show_absent(identity: str, holding: Holding) -> Nic:
    """A device that a claim holds and that the host does not show: a link in a pod."""
    originals = holding.originals
    address = identity.removeprefix("pci:").partition("/")[0]
    return Nic(
        identity=identity,
        name=holding.name,
        kind=_kind_then(holding),
        group=holding.group,
        mode=_mode(None, holding),
        ifname=printable(originals.name if originals else ""),
        pci=address if identity.startswith("pci:") else "",
        driver=str(holding.first.attributes.get("driver", "")),
        mac=_mac_then(holding),
        held_by=holding.holders,
        exclusion=_against_absent(holding),
    )


def _printable(exclusion: Exclusion | None) -> Exclusion | None:
    if exclusion is None or exclusion.detail.isprintable():
        return exclusion
    return attrs.evolve(exclusion, detail=printable(exclusion.detail))


def _against_absent(holding: Holding) -> Exclusion | None:
    if holding.is_parent:
        return Exclusion(reason="link-elsewhere", detail="its link is in no namespace of ours")
    return None if holding.is_living else _on_its_way(holding)


def _kind_then(holding: Holding) -> NicKind:
    """The kind that a held device had at home; without its link it may seem another."""
    kind = holding.first.attributes.get("kind")
    return next((known for known in NicKind if known.value == kind), NicKind.VIRTUAL)


def _mac_then(holding: Holding | None) -> str:
    originals = holding.originals if holding is not None else None
    return (originals.perm_mac or originals.mac) if originals is not None else ""


def _mode(group: NicGroup | None, holding: Holding | None) -> NicMode:
    if group is not None:
        return group.mode
    if holding is None:
        return NicMode.EXCLUSIVE
    if holding.is_function:
        return NicMode.VFIO
    return NicMode.SHARED if holding.is_parent else NicMode.EXCLUSIVE
