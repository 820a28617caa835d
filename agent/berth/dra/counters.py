"""Counters of a pool: which sets its devices draw on, and in which slices the sets lie.

A reader takes a pool for invalid when a device draws on a set or a counter that is not there. So
what no set covers is left out of the device: a server that takes no counters is simply one for
which there are no sets. Sets lie behind all devices, in slices of their own: 1.34 has another
layout and refuses them, even when its gate is open.

Source: KC §4.1 to §4.4, §9.3; gpu-and-health.md §1.5, §1.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import attrs

from berth.dra.placement import Slots
from berth.model.device import Consumption, CounterSet, Device

SETS_LIMIT: Final = 8
"""Most counter sets of a slice."""


@attrs.frozen(kw_only=True)
class Content:
    """What one pool is to offer.

    Attributes:
        devices: In the order of publication, drawing only on ``sets``.
        sets: Those on which a device draws.
    """

    devices: tuple[Device, ...]
    sets: tuple[CounterSet, ...]


def counted(devices: Iterable[Device], sets: Mapping[str, CounterSet]) -> Content:
    """The devices with what the sets cover of their counters, and the sets that this needs.

    A device that counters alone keep from being given twice is left out without them.
    """
    within = (_within(device, sets) for device in devices)
    kept = tuple(device for device in within if device.consumes or not device.only_counted)
    drawn = {one.counter_set for device in kept for one in device.consumes}
    return Content(devices=kept, sets=tuple(sets[name] for name in sets if name in drawn))


def ungrouped(device: Device) -> Device:
    """The device without compatibility groups, which are told of all or of none."""
    if not any(one.groups for one in device.consumes):
        return device
    return attrs.evolve(
        device, consumes=tuple(attrs.evolve(one, groups=()) for one in device.consumes)
    )


def tells_kind(devices: Iterable[Mapping[str, Any]], name: str) -> bool:
    """Whether a slice of these may say that an attribute tells what part each is.

    Some must draw on counters, and all that do must have it, as a text.

    Args:
        name: The attribute's, bare.
    """
    drawing = [device for device in devices if device.get("consumesCounters")]
    return bool(drawing) and all(
        "string" in device.get("attributes", {}).get(name, {}) for device in drawing
    )


def place_sets(previous: Slots, names: Sequence[str]) -> Slots:
    """Distribute sets to slices: each stays where it is, unless the number of slices changes."""
    packed = tuple(
        tuple(names[start : start + SETS_LIMIT]) for start in range(0, len(names), SETS_LIMIT)
    )
    before = list(chain.from_iterable(previous))
    known = set(before)
    sound = len(known) == len(before) and all(len(slot) <= SETS_LIMIT for slot in previous)
    if len(packed) != len(previous) or not sound:
        return packed
    slots = [[name for name in slot if name in names] for slot in previous]
    for name in names:
        if name not in known:
            # There is one: as many slices as are needed cannot all be full.
            next(slot for slot in slots if len(slot) < SETS_LIMIT).append(name)
    return tuple(map(tuple, slots))


def slots_needed(count: int) -> int:
    """How many slices that many sets take."""
    return -(-count // SETS_LIMIT)


def _within(device: Device, sets: Mapping[str, CounterSet]) -> Device:
    if not device.consumes:
        return device
    kept = (_covered(one, sets.get(one.counter_set)) for one in device.consumes)
    return attrs.evolve(device, consumes=tuple(one for one in kept if one.counters))


def _covered(one: Consumption, counters: CounterSet | None) -> Consumption:
    there = counters.counters if counters is not None else {}
    return attrs.evolve(
        one, counters={name: amount for name, amount in one.counters.items() if name in there}
    )
