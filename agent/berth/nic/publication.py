"""The devices of a slice: from NICs that are offered or held, in the order of their use.

Source: network.md §2.1, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from berth.config.nic import NicTable
from berth.config.nicgroup import NicGroup
from berth.model.device import Attribute, Capacity, CapacityRange, Device, NicMode, Taint
from berth.nic.attributes import KEYS_LIMIT, Attributes, Keys, Subject, keys_of

TEXT_LIMIT: Final = 64
"""Longest string attribute, in bytes."""

_DESCRIPTIVE: Final = frozenset({"productName", "ipv4", "ipv6"})
_MEGABIT: Final = 1_000_000

_Place: TypeAlias = "tuple[int, bool, int, str]"


@attrs.frozen(kw_only=True)
class Offer:
    """A NIC that is at home and free, or a parent that is shared.

    Attributes:
        name: Its slice name.
        slots: What is left of a parent that takes no new claims: the slots that were given out;
            ``None`` for one that does.
    """

    name: str
    subject: Subject
    slots: int | None = None


@attrs.frozen(kw_only=True)
class Held:
    """A NIC that somebody holds alone.

    Attributes:
        attributes: As they were when it was given.
        taints: What keeps claims from it besides that one has it.
    """

    name: str
    identity: str
    type: str
    group: str
    attributes: Attributes
    taints: tuple[Taint, ...] = ()


@attrs.frozen(kw_only=True)
class Publication:
    """The devices to publish, in order, and what an operator should know of them."""

    devices: tuple[Device, ...]
    warnings: tuple[str, ...] = ()


def publish(offers: Iterable[Offer], held: Iterable[Held], table: NicTable) -> Publication:
    """The devices, in the order in which the scheduler shall try them.

    Groups follow each other by their ``order``; among equals dedicated NICs come before parents,
    then the order of the file and the name decide. Names follow the places in the machine, and
    unlike the number of a virtual link they outlive its way into a pod and back.
    """
    offers, held = tuple(offers), tuple(held)
    types = sorted({*(offer.subject.type for offer in offers), *(one.type for one in held)})
    keys = {type_: keys_of(type_, table) for type_ in types}
    warnings = [_overflow(type_, keys[type_].dropped) for type_ in types if keys[type_].dropped]
    devices = []
    unfit: dict[tuple[str, str], list[str]] = {}
    for offer in offers:
        values = keys[offer.subject.type].values(offer.subject)
        fitting = {key: _fitting(key, value) for key, value in values.items()}
        for key, value in values.items():
            if fitting[key] != value:
                unfit.setdefault((key, str(value)), []).append(offer.name)
        devices.append(_offered(offer, fitting))
    devices += [_kept(one, keys[one.type]) for one in held]
    warnings += [_unfit(key, value, names) for (key, value), names in unfit.items()]
    places = {group.name: (number, group) for number, group in enumerate(table.groups)}
    costs = {group.name: group.node_cost for group in table.groups}
    priced = [attrs.evolve(device, costs=costs.get(device.group, {})) for device in devices]
    ordered = sorted(priced, key=lambda device: _place(device, places))
    return Publication(devices=tuple(ordered), warnings=tuple(warnings))


def _overflow(type_: str, dropped: Sequence[str]) -> str:
    return (
        f'devices of type "{type_}" have no room for {", ".join(dropped)}: '
        f"a device takes {KEYS_LIMIT} attributes and capacities, and all of a type carry the same"
    )


def _place(device: Device, places: Mapping[str, tuple[int, NicGroup]]) -> _Place:
    number, group = places.get(device.group, (len(places), None))
    return (group.order if group is not None else 0, device.shared, number, device.name)


def _offered(offer: Offer, attributes: Attributes) -> Device:
    subject = offer.subject
    identity = subject.found.identity
    return Device(
        name=offer.name,
        identity=identity,
        type=subject.type,
        group=subject.group.name,
        attributes=attributes,
        capacity=_capacity(subject.group, offer.slots),
        shared=subject.group.mode is NicMode.SHARED,
        bucket=f"{subject.group.name}/{subject.function.physfn or identity}",
    )


def _kept(held: Held, keys: Keys) -> Device:
    attributes = keys.kept(held.attributes)
    return Device(
        name=held.name,
        identity=held.identity,
        type=held.type,
        group=held.group,
        attributes=attributes,
        taints=held.taints,
        bucket=f"{held.group}/{attributes.get('pfPciBusID') or held.identity}",
    )


def _capacity(group: NicGroup, slots: int | None) -> Mapping[str, Capacity]:
    if group.mode is not NicMode.SHARED:
        return {}
    shared = group.shared
    count = shared.slots if slots is None else slots
    capacity = {"slots": Capacity(value=count, default=1, values=(1,))}
    if shared.bandwidth is not None:
        share = shared.bandwidth // shared.slots // _MEGABIT * _MEGABIT
        bounds = CapacityRange(minimum=_MEGABIT, step=_MEGABIT)
        capacity["bandwidth"] = Capacity(value=shared.bandwidth, default=share, bounds=bounds)
    return capacity


def _fitting(key: str, value: Attribute) -> Attribute:
    """Text within the limit: descriptions are cut, what selectors compare becomes neutral.

    A kernel string may hold bytes that are no text; no selector can name them.
    """
    if not isinstance(value, str) or (value.isascii() and len(value) <= TEXT_LIMIT):
        return value
    text = value.encode(errors="ignore")
    if len(text) <= TEXT_LIMIT and text.decode() == value:
        return value
    return text[:TEXT_LIMIT].decode(errors="ignore") if key in _DESCRIPTIVE else ""


def _unfit(key: str, value: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    done = "cut" if key in _DESCRIPTIVE else "left empty"
    return f"{key} of {names[0]}{more} is {done}, {value!r}: text of {TEXT_LIMIT} bytes fits"
