"""From one look at the machine, the settings and the holds, to the inventory: a pure function.

Devices that a living claim holds never leave the slices: what is published is what exists and is
offered, and what is held. A held device says what it said when it was prepared; a parent that takes
no new claims stays with the slots that it has given out. What cannot be put back as it was stays
with a taint, until it is.

Source: network.md §1.2, §2.3; daemon.md §4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from berth.errors import printable
from berth.health.taints import FAULT, NO_SCHEDULE
from berth.host.scan import HostScan
from berth.model.device import RESTORE_FAILED, Exclusion, NicMode, Taint
from berth.model.edits import DeviceNode
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.nic.access import rdma_of
from berth.nic.attributes import Subject
from berth.nic.config.devicefacts import DeviceFacts
from berth.nic.counting import counted
from berth.nic.exclusion import Circumstances, is_beside_vfs
from berth.nic.facts import Home, device_facts, hardware_addrs, home_of
from berth.nic.listing import KIND, terms_of
from berth.nic.publication import Held, Offer, publish
from berth.nic.survey import Found, ambiguous_macs, survey
from berth.nic.topology import Topology
from berth.nic.uplink import uplinks
from berth.node.holders.equipment import equip, published, taint_of_plugin
from berth.node.holders.holding import Holding, holdings
from berth.node.inventory.niclistings import listings
from berth.node.inventory.sighting import (
    Memory,
    Outlook,
    Pin,
    Sighting,
    show,
    show_absent,
    sight,
    tell_apart,
)
from berth.node.records.given import Given


@attrs.frozen(kw_only=True)
class Snapshot:
    """Everything that is decided from at one moment.

    Attributes:
        facts: By slice name, for NICs that a group takes and whose link is known.
        homes: Where the link of each NIC is, by slice name.
        hardware_addrs: Addresses in use on the host, and by whom.
        rdma: Nodes of each NIC's RDMA devices, by slice name.
    """

    inventory: Inventory
    facts: Mapping[str, DeviceFacts]
    homes: Mapping[str, Home]
    hardware_addrs: Mapping[str, str]
    memory: Memory
    rdma: Mapping[str, tuple[DeviceNode, ...]] = attrs.field(factory=dict)


def judge(scan: HostScan, outlook: Outlook, memory: Memory) -> Snapshot:
    """What the machine has, what of it is offered, and why the rest is not."""
    topology = Topology(scan)
    held = holdings(outlook.records, outlook.given)
    around = Circumstances(
        topology=topology,
        uplinks=uplinks(topology, own_addresses=outlook.own_addresses),
        uplink_ok=outlook.table.uplink_ok,
        ambiguous_macs=ambiguous_macs(topology),
        held=_alone(held, outlook),
    )
    founds = survey(topology, outlook.table.groups, memory.pins.keys() | held.keys())
    seen = tell_apart([sight(found, held, outlook, around, memory) for found in founds])
    here = {one.found.identity for one in seen}
    publication = publish(
        _offers(seen, topology, outlook, memory), _holds(held, outlook), outlook.table
    )
    counting = counted(publication.devices, topology, _beside_vfs(seen), held=frozenset(held))
    nics = [show(one) for one in seen]
    nics += [show_absent(identity, held[identity]) for identity in held.keys() - here]
    others = _others(outlook.given)
    peripherals = equip(_taken(outlook), (*outlook.records, *outlook.skipped), others)
    return Snapshot(
        inventory=Inventory(
            nics=tuple(sorted(nics, key=lambda nic: nic.name)),
            peripherals=peripherals,
            listings=listings(
                seen, held, outlook, published=publication.devices, topology=topology
            ),
            devices=(
                *published(
                    peripherals,
                    others,
                    driver=outlook.driver,
                    costs=outlook.costs,
                    skips=outlook.skips,
                ),
                *counting.devices,
            ),
            counter_sets=(*outlook.counter_sets, *counting.counter_sets),
            warnings=(
                *publication.warnings,
                *outlook.remarks,
                *_remarks(seen, held, outlook, around),
            ),
            has_uplink=bool(around.uplinks),
        ),
        facts=_facts(seen, topology, around.uplinks),
        homes={one.name: home for one in seen if (home := home_of(one.found)) is not None},
        hardware_addrs=hardware_addrs(
            topology, {_index(one.found): one.found.identity for one in seen}
        ),
        memory=_remember(seen, memory),
        rdma=_rdma(seen, scan),
    )


def _facts(
    seen: Sequence[Sighting], topology: Topology, uplink_paths: Mapping[int, str]
) -> Mapping[str, DeviceFacts]:
    """What a claim's settings are judged by, for NICs that a claim could get at all."""
    return {
        one.name: device_facts(
            one.found, one.group, topology, uplink=uplink_paths.get(_index(one.found), "")
        )
        for one in seen
        if one.group is not None and (one.found.link is not None or one.group.mode is NicMode.VFIO)
    }


def _rdma(seen: Sequence[Sighting], scan: HostScan) -> Mapping[str, tuple[DeviceNode, ...]]:
    """Nodes of RDMA devices that go with NICs into a pod."""
    return {
        one.name: nodes
        for one in seen
        if one.group is not None and (nodes := rdma_of(one.found, one.group, scan.nodes).nodes)
    }


def _alone(held: Mapping[str, Holding], outlook: Outlook) -> Mapping[str, str]:
    """Who has what, of PFs that are offered beside their VFs and of VFs, by PCI address."""
    beside = {group.name for group in outlook.table.groups if group.beside_vfs}
    return {
        identity.removeprefix("pci:"): f"{one.name}, which {', '.join(one.holders)} has"
        for identity, one in held.items()
        if beside and not one.is_parent
    }


def _beside_vfs(seen: Iterable[Sighting]) -> frozenset[str]:
    """Identities of PFs that are offered beside their VFs, in whichever state they are."""
    return frozenset(
        one.found.identity
        for one in seen
        if one.group is not None and is_beside_vfs(one.found, one.group)
    )


def _offers(
    seen: Iterable[Sighting], topology: Topology, outlook: Outlook, memory: Memory
) -> Iterator[Offer]:
    """Everything at home that is free for claims, and parents that living claims share."""
    for one in seen:
        group, link, parent = one.group, one.found.link, one.holding
        if group is None or one.name in outlook.refused:
            continue
        if link is None and group.mode is not NicMode.VFIO:
            continue
        if parent is not None and not parent.is_parent:
            continue
        terms = terms_of(group, driver=outlook.driver, auto=outlook.auto)
        closed = one.exclusion is not None or not terms.door.opens_dra
        given_out = parent.slots if parent is not None else 0
        if closed and not given_out:
            continue
        yield Offer(
            name=one.name,
            slots=given_out if closed else None,
            subject=Subject(
                found=one.found,
                group=group,
                product=_product(one.found, topology),
                rdma_netns=topology.scan.rdma_netns,
                speed_mbps=memory.speeds.get(one.found.identity, 0),
                addresses=tuple(str(a.ip) for a in topology.set_addresses(_index(one.found))),
            ),
        )


def _taken(outlook: Outlook) -> Iterator[Peripheral]:
    """What the sources saw, less what the API server does not take."""
    for one in outlook.peripherals:
        detail = outlook.refused.get(one.name)
        reason = Exclusion(reason="unpublishable", detail=detail) if detail is not None else None
        yield one if reason is None else attrs.evolve(one, exclusion=one.exclusion or reason)


def _product(found: Found, topology: Topology) -> str:
    if found.function is not None:
        return topology.scan.products.get(found.function.model, "")
    return found.device.bearer.product if found.device is not None else ""


def _holds(held: Mapping[str, Holding], outlook: Outlook) -> Iterator[Held]:
    """What one holder has alone, wherever it is, or has not given back, if claims may have it."""
    for identity, holding in held.items():
        first = holding.first
        if holding.is_parent or not first.is_published:
            continue
        if not holding.is_living and not holding.fault:
            continue
        if holding.name not in outlook.refused:
            yield Held(
                name=holding.name,
                identity=identity,
                type=first.type,
                group=holding.group,
                attributes=first.attributes,
                taints=tuple(_taints(holding, outlook.driver)),
            )


def _taints(holding: Holding, driver: str) -> Iterator[Taint]:
    """What keeps claims from it; its holder tells nobody how it is before it is told as sick."""
    if not holding.is_living:
        yield Taint(key=f"{driver}/{FAULT}", value=RESTORE_FAILED, effect=NO_SCHEDULE)
    elif holding.first.given is not None:
        yield taint_of_plugin(driver)


def _others(given: Iterable[Given]) -> tuple[Given, ...]:
    """What the device plugin gave that is no NIC."""
    kept = (
        attrs.evolve(one, devices=tuple(d for d in one.devices if d.peripheral.kind != KIND))
        for one in given
    )
    return tuple(one for one in kept if one.devices)


def _remarks(
    seen: Sequence[Sighting], held: Mapping[str, Holding], outlook: Outlook, around: Circumstances
) -> Iterator[str]:
    """What an operator should know of the settings, as they turn out on this machine."""
    selecting = {name for one in seen for name in one.selecting}
    selecting |= {holding.group for holding in held.values()}
    for group in outlook.table.groups:
        if group.name not in selecting:
            left = f" and is not left to {', '.join(group.excepts)}" if group.excepts else ""
            yield f'group "{group.name}" selects no NIC: nothing here meets {group.match}{left}'
    by_identity = {one.found.identity: one for one in seen}
    for identity in outlook.table.uplink_ok:
        one = by_identity.get(identity)
        if one is None:
            yield f"uplink_ok names {identity}, which is not seen here"
        elif path := around.uplinks.get(_index(one.found)):
            path = printable(path)
            yield f"uplink_ok lets {one.name} be offered although it is an uplink: {path}"
        else:
            yield f"uplink_ok lets {one.name} be offered also when it is an uplink"


def _index(found: Found) -> int:
    return found.link.index if found.link is not None else 0


def _remember(seen: Sequence[Sighting], memory: Memory) -> Memory:
    speeds = {
        one.found.identity: speed
        for one in seen
        if (speed := _speed(one.found) or memory.speeds.get(one.found.identity, 0))
    }
    pins = {
        one.found.identity: Pin(
            group=one.group.name, name=one.name, driver=one.found.function_driver
        )
        for one in seen
        if one.group is not None
    }
    return Memory(pins=pins, speeds=speeds)


def _speed(found: Found) -> int:
    return (found.device.speed_mbps if found.device is not None else None) or 0
