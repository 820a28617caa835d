"""The peripherals of the node: what the sources see, and what somebody holds.

What is held keeps the name, door and ids that it was given under, however the settings turn, and
stays in its lists though the machine does not show it any more: its holder is told so, and nobody
else gets it.

Source: gpu-and-health.md §4 (hotplug), §5.1, L9, L13.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from berth.generic.attributes import TYPE as GENERIC
from berth.model.device import Device, Exclusion, Taint
from berth.model.names import device_name
from berth.model.nodecost import NodeCosts
from berth.model.peripheral import Peripheral
from berth.node.records.given import Given
from berth.node.records.record import ClaimRecord

_ORDER: Final = ("gpu", "mig", "vfio", "generic")
"""Types in the order in which the scheduler shall try them; others follow."""

HELD: Final = "held"
"""Taint of a device that the other door has given (L9)."""


@attrs.frozen(kw_only=True)
class _Holding:
    """Who has one device, and as what it was given."""

    peripheral: Peripheral
    holders: tuple[str, ...]


def equip(
    seen: Iterable[Peripheral], records: Iterable[ClaimRecord], given: Iterable[Given]
) -> tuple[Peripheral, ...]:
    """Every peripheral, seen or held, by name."""
    held = _holdings(records, given)
    here = {one.identity: one for one in seen}
    owners = {key: holding for holding in held.values() for key in holding.peripheral.keys}
    names = {holding.peripheral.name for holding in held.values()}
    every = [
        _as_held(one, held[identity])
        if identity in held
        else _called_apart(_kept_free(one, owners), names)
        for identity, one in here.items()
    ]
    every += [
        attrs.evolve(holding.peripheral.absent(), held_by=holding.holders)
        for identity, holding in held.items()
        if identity not in here
    ]
    return tuple(sorted(every, key=lambda one: one.name))


def published(
    peripherals: Iterable[Peripheral],
    given: Iterable[Given],
    *,
    driver: str,
    costs: Mapping[str, NodeCosts] = MappingProxyType({}),
    skips: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> tuple[Device, ...]:
    """What claims are offered, in the order of publication.

    Args:
        driver: Domain of the taint on what the device plugin has given.
        costs: What a device costs the node of its own resources, by identity.
        skips: What kubelet need not ask for, by generic group.
    """
    # By keys: what was given may be offered to claims in another form as well.
    by_plugin = {
        key
        for one in given
        for device in one.devices
        if device.peripheral.slots == 1
        for key in device.peripheral.keys
    }
    offered = [
        attrs.evolve(
            _device(one, "" if by_plugin.isdisjoint(one.keys) else driver),
            costs=costs.get(one.identity, {}),
            skips=skips.get(one.group, ()) if one.type == GENERIC else (),
        )
        for one in peripherals
        if one.door.opens_dra and (one.exclusion is None or one.held_by)
    ]
    return tuple(sorted(offered, key=_place))


def _place(device: Device) -> tuple[int, str, str]:
    number = _ORDER.index(device.type) if device.type in _ORDER else len(_ORDER)
    return number, device.group, device.name


def taint_of_plugin(driver: str) -> Taint:
    """What keeps claims from a device that the device plugin has given."""
    return Taint(key=f"{driver}/{HELD}", value="device-plugin", effect="NoSchedule")


def _device(one: Peripheral, held_by_plugin_of: str) -> Device:
    return Device(
        name=one.name,
        identity=one.identity,
        type=one.type,
        group=one.group,
        attributes=one.attributes,
        capacity=one.capacity,
        shared=one.slots > 1,
        taints=(taint_of_plugin(held_by_plugin_of),) if held_by_plugin_of else (),
        bucket=f"{one.type}/{one.group}",
        consumes=one.consumes,
        # What somebody has is told, whatever the server takes.
        only_counted=one.only_counted and not one.held_by,
    )


def _holdings(records: Iterable[ClaimRecord], given: Iterable[Given]) -> Mapping[str, _Holding]:
    found: dict[str, _Holding] = {}
    for record in records:
        for device in record.devices:
            if device.peripheral is not None and device.keys:
                _add(found, device.peripheral, str(record.claim))
    for one in given:
        for unit in one.devices:
            _add(found, unit.peripheral, str(one.holder))
    return found


def _add(found: dict[str, _Holding], one: Peripheral, holder: str) -> None:
    known = found.get(one.identity, _Holding(peripheral=one, holders=()))
    found[one.identity] = attrs.evolve(known, holders=(*known.holders, holder))


def _as_held(seen: Peripheral, holding: _Holding) -> Peripheral:
    then = holding.peripheral
    return attrs.evolve(
        seen,
        name=then.name,
        group=then.group,
        door=then.door,
        resource=then.resource,
        ids=then.ids,
        slots=then.slots,
        capacity=then.capacity,
        # What is excluded draws on nothing by itself, but is still there while it is held.
        consumes=seen.consumes or then.consumes,
        held_by=holding.holders,
    )


def _kept_free(one: Peripheral, owners: Mapping[str, _Holding]) -> Peripheral:
    """A free device, unless it is what somebody holds under another identity.

    A node becomes another device when a twin with its serial number is plugged in, or when its
    number was another's before; its keys tell. What excludes each other by counters in the slices
    is left to the scheduler.
    """
    holding = next((owners[key] for key in one.keys if key in owners), None)
    if holding is None or one.exclusion is not None or _are_forms(one, holding.peripheral):
        return one
    detail = f"it is {holding.peripheral.name}, which {', '.join(holding.holders)} has"
    return attrs.evolve(one, exclusion=Exclusion(reason="held", detail=detail))


def _are_forms(one: Peripheral, held: Peripheral) -> bool:
    """Whether two are forms of one thing, which counters tell apart."""
    sets = {draw.counter_set for draw in one.consumes}
    drawn = not sets.isdisjoint(draw.counter_set for draw in held.consumes)
    return drawn and (one.only_counted or held.only_counted)


def _called_apart(one: Peripheral, taken: Container[str]) -> Peripheral:
    """A free device, under a name of its own.

    Names are made of what devices say of themselves, so one that comes may be called as one that is
    held and away. A slice with a name twice is refused as a whole.
    """
    if one.name not in taken:
        return one
    reason = Exclusion(reason="name-taken", detail=f"{one.name} is held, and is another device")
    name = device_name(one.name, one.identity)
    return attrs.evolve(one, name=name, exclusion=one.exclusion or reason)


def of_resource(peripherals: Sequence[Peripheral], resource: str) -> tuple[Peripheral, ...]:
    """What the device plugin lists under one resource: offered there, or held through it."""
    return tuple(one for one in peripherals if one.is_listed and one.resource == resource)
