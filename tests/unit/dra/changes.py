"""Single changes of an inventory, and whether each fits into one slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from berth.model.device import CounterSet, Device, Taint
from tests.unit.dra.inventories import Inventory

OTHER = Taint(key="berth.dev/other", value="test", effect="NoSchedule")


@attrs.frozen(kw_only=True)
class Change:
    """One thing that is otherwise than before.

    Attributes:
        what: In words.
        inventory: All that is there then.
        fits: One slice can tell it, and tell it back; else a pool is written as a whole.
    """

    what: str
    inventory: Inventory
    fits: bool = True


def singles(inventory: Inventory, place: int) -> Iterator[Change]:
    """Every kind of single change that leaves as many slices, of the device in a place."""
    devices, old = inventory.devices, inventory.devices[place]
    ill = attrs.evolve(old, taints=(*old.taints, OTHER))
    other = attrs.evolve(old, attributes={**old.attributes, "number": -1})
    yield Change(what="a taint", inventory=with_devices(inventory, replaced(devices, place, ill)))
    yield Change(
        what="an attribute", inventory=with_devices(inventory, replaced(devices, place, other))
    )
    left = replaced(devices, place)
    yield Change(
        what="a device is gone",
        inventory=with_devices(inventory, left),
        fits=not is_alone(old, left),
    )
    if inventory.sets:
        first, *rest = inventory.sets
        more = attrs.evolve(first, counters=dict.fromkeys(first.counters, 2**40))
        yield Change(what="amounts of a set", inventory=with_sets(inventory, (more, *rest)))


def with_devices(inventory: Inventory, devices: Sequence[Device]) -> Inventory:
    """The inventory with other devices."""
    return attrs.evolve(inventory, devices=tuple(devices))


def with_sets(inventory: Inventory, sets: Sequence[CounterSet]) -> Inventory:
    """The inventory with other sets."""
    return attrs.evolve(inventory, sets=tuple(sets))


def replaced(devices: Sequence[Device], place: int, *new: Device) -> tuple[Device, ...]:
    """The devices with others, or none, in a place."""
    return (*devices[:place], *new, *devices[place + 1 :])


def is_alone(device: Device, others: Sequence[Device]) -> bool:
    """Whether nobody else is of its kind and group, or draws on a set of its."""
    same = any((one.type, one.group) == (device.type, device.group) for one in others)
    sets = {one.counter_set for one in device.consumes}
    drawn = {one.counter_set for other in others for one in other.consumes}
    return not same or not sets <= drawn
