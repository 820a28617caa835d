"""From one look at the machine, the settings and the holds, to the inventory: a pure function.

Devices that a living claim holds never leave the slices: what is published is what exists and is
offered, and what is held. A held device says what it said when it was prepared.

Source: network.md §1.2, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from berth.config.nic import NicGroup, NicTable
from berth.host.scan import HostScan
from berth.model.device import Device, Exclusion, Nic, NicKind, NicMode
from berth.model.inventory import Inventory
from berth.nic.config.devicefacts import DeviceFacts
from berth.nic.exclusion import Circumstances, exclude
from berth.nic.facts import Home, device_facts, hardware_addrs, home_of, own_addresses
from berth.nic.publication import Offer, publish
from berth.nic.survey import Found, ambiguous_macs, groups_of, survey
from berth.nic.uplink import uplinks
from berth.node.record import ClaimRecord, HeldDevice

Holds: TypeAlias = "Mapping[str, Sequence[tuple[ClaimRecord, HeldDevice]]]"
"""Who has each identity: every claim's record, with the entry of the device in it."""


@attrs.frozen(kw_only=True)
class Memory:
    """What a look keeps from the one before.

    Attributes:
        groups: Group of each identity, so that a rename re-sorts no device.
        speeds: Last speed seen with carrier in this boot, by identity, in Mbit/s.
    """

    groups: Mapping[str, str] = attrs.field(factory=dict)
    speeds: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Snapshot:
    """Everything that is decided from at one moment.

    Attributes:
        facts: By slice name, for NICs that a group takes and whose link is known.
        homes: Where the link of each of them is, by slice name.
        hardware_addrs: Addresses in use on the host, and by whom.
    """

    inventory: Inventory
    facts: Mapping[str, DeviceFacts]
    homes: Mapping[str, Home]
    hardware_addrs: Mapping[str, str]
    memory: Memory


@attrs.frozen(kw_only=True)
class Outlook:
    """What a look is judged by, besides the machine itself.

    Attributes:
        closed: Why no free NIC may be offered now, such as a runtime that is not connected;
            ``None`` when nothing speaks against it.
        refused: Devices that the API server does not take, by slice name, with its words.
        own_addresses: Addresses by which the node is reached.
    """

    table: NicTable
    records: Sequence[ClaimRecord] = ()
    closed: Exclusion | None = None
    refused: Mapping[str, str] = attrs.field(factory=dict)
    own_addresses: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class _Seen:
    """One device, judged."""

    found: Found
    name: str
    group: NicGroup | None
    exclusion: Exclusion | None


def judge(scan: HostScan, outlook: Outlook, memory: Memory) -> Snapshot:
    """What the machine has, what of it is offered, and why the rest is not."""
    groups = outlook.table.groups if outlook.table.enabled else ()
    held = _held(outlook.records)
    around = Circumstances(
        scan=scan,
        table=outlook.table,
        uplinks=uplinks(scan, own_addresses=outlook.own_addresses),
    )
    founds = survey(scan, groups)
    around = attrs.evolve(around, ambiguous_macs=ambiguous_macs(founds))
    seen = [_look(found, groups, held, around, memory) for found in founds]
    seen = [_close(one, held, outlook) for one in seen]
    publication = publish(_offers(seen, groups, held, scan, memory), outlook.table)
    names = {one.found.identity: one.name for one in seen}
    absent = [d for identity, d in held.items() if identity not in names]
    devices = (*publication.devices, *_held_devices(held))
    return Snapshot(
        inventory=Inventory(
            nics=tuple(sorted((*_nics(seen, held), *_absent(absent, held)), key=lambda n: n.name)),
            devices=_ordered(devices, groups),
            warnings=publication.warnings,
        ),
        facts={
            one.name: device_facts(
                one.found, one.group, scan, uplink=around.uplinks.get(_index(one.found), "")
            )
            for one in seen
            if one.group is not None and one.found.link is not None
        },
        homes={one.name: home for one in seen if (home := home_of(one.found)) is not None},
        hardware_addrs=hardware_addrs(
            scan, {_index(one.found): one.found.identity for one in seen if one.found.link}
        ),
        memory=_remember(seen, memory),
    )


def _look(
    found: Found,
    groups: Sequence[NicGroup],
    held: Holds,
    around: Circumstances,
    memory: Memory,
) -> _Seen:
    known = memory.groups.get(found.identity)
    for _, device in held.get(found.identity, ()):
        known = device.nic.group if device.nic is not None else known
    fitting: Sequence[NicGroup] = [group for group in groups if group.name == known]
    fitting = fitting or groups_of(found, groups)
    group = fitting[0] if len(fitting) == 1 else None
    return _Seen(
        found=found,
        name=found.name_in(group),
        group=group,
        exclusion=exclude(found, fitting, around),
    )


def _close(
    one: _Seen,
    held: Holds,
    outlook: Outlook,
) -> _Seen:
    """What keeps a device from being offered although nothing speaks against the device."""
    if one.exclusion is not None:
        return one
    away = [d for _, d in held.get(one.found.identity, ()) if _unrestored(d)]
    if away:
        fault = away[0].nic.fault if away[0].nic else ""
        return attrs.evolve(one, exclusion=Exclusion(reason="restore-failed", detail=fault))
    if one.name in outlook.refused:
        detail = outlook.refused[one.name]
        return attrs.evolve(one, exclusion=Exclusion(reason="unpublishable", detail=detail))
    return attrs.evolve(one, exclusion=outlook.closed) if outlook.closed is not None else one


def _unrestored(device: HeldDevice) -> bool:
    return device.nic is not None and not device.nic.is_child and bool(device.nic.fault)


def _held(records: Sequence[ClaimRecord]) -> Holds:
    held: dict[str, list[tuple[ClaimRecord, HeldDevice]]] = {}
    for record in records:
        for device in record.devices:
            if device.nic is not None:
                held.setdefault(device.identity, []).append((record, device))
    return held


def _living(held: Holds, identity: str) -> bool:
    return any(not record.revoked for record, _ in held.get(identity, ()))


def _offers(
    seen: Sequence[_Seen],
    groups: Sequence[NicGroup],
    held: Holds,
    scan: HostScan,
    memory: Memory,
) -> Iterator[Offer]:
    for one in seen:
        group, link = one.group, one.found.link
        if group is None or link is None:
            continue
        exclusive_held = group.mode is not NicMode.SHARED and one.found.identity in held
        kept = group.mode is NicMode.SHARED and _living(held, one.found.identity)
        if exclusive_held or (one.exclusion is not None and not kept):
            continue
        yield Offer(
            found=one.found,
            group=group,
            group_rank=groups.index(group),
            speed_mbps=memory.speeds.get(one.found.identity, 0),
            addresses=own_addresses(link, scan),
        )


def _held_devices(
    held: Holds,
) -> Iterator[Device]:
    """Devices that claims hold alone, as they were when they were prepared."""
    for identity, holders in held.items():
        for record, device in holders:
            if record.revoked or device.nic is None or device.nic.is_child:
                continue
            pf = device.attributes.get("pfPciBusID") or identity
            yield Device(
                name=device.result.device,
                identity=identity,
                type=device.type,
                group=device.nic.group,
                attributes=device.attributes,
                bucket=f"{device.nic.group}/{pf}",
            )
            break


def _ordered(devices: Sequence[Device], groups: Sequence[NicGroup]) -> tuple[Device, ...]:
    """One device per name; groups by their order, dedicated NICs before parents, then by place."""
    rank = {group.name: (group.order, number) for number, group in enumerate(groups)}
    unique = {device.name: device for device in devices}

    def place(device: Device) -> tuple[object, ...]:
        order, number = rank.get(device.group, (0, len(rank)))
        return order, device.shared, number, device.identity

    return tuple(sorted(unique.values(), key=place))


def _nics(seen: Sequence[_Seen], held: Holds) -> Iterator[Nic]:
    for one in seen:
        found, link = one.found, one.found.link
        yield Nic(
            identity=found.identity,
            name=one.name,
            kind=found.kind,
            group=one.group.name if one.group else "",
            mode=one.group.mode if one.group else NicMode.EXCLUSIVE,
            ifname=link.name if link else "",
            ifindex=link.index if link else 0,
            pci=found.function.address if found.function else "",
            driver=found.function.driver if found.function else (link.kind if link else ""),
            mac=(link.perm_mac or link.mac) if link else "",
            held_by=_holders(held, found.identity),
            exclusion=one.exclusion,
        )


def _absent(
    holders: Sequence[Sequence[tuple[ClaimRecord, HeldDevice]]],
    held: Holds,
) -> Iterator[Nic]:
    """Devices that a claim holds and that the host does not show: links in pods."""
    for entries in holders:
        _, device = entries[0]
        if device.nic is None:
            continue
        originals = device.nic.originals
        yield Nic(
            identity=device.identity,
            name=device.result.device,
            kind=NicKind(str(device.attributes.get("kind", NicKind.VIRTUAL.value))),
            group=device.nic.group,
            ifname=originals.name if originals else "",
            driver=str(device.attributes.get("driver", "")),
            mac=originals.mac if originals else "",
            held_by=_holders(held, device.identity),
        )


def _holders(held: Holds, identity: str) -> tuple[str, ...]:
    return tuple(str(record.claim) for record, _ in held.get(identity, ()))


def _index(found: Found) -> int:
    return found.link.index if found.link is not None else 0


def _remember(seen: Sequence[_Seen], memory: Memory) -> Memory:
    speeds = {
        one.found.identity: speed
        for one in seen
        if (speed := _speed(one.found) or memory.speeds.get(one.found.identity, 0))
    }
    groups = {one.found.identity: one.group.name for one in seen if one.group is not None}
    return Memory(groups=groups, speeds=speeds)


def _speed(found: Found) -> int:
    return (found.device.speed_mbps if found.device else None) or 0
