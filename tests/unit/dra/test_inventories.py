"""Whatever a node has: slices that an API server takes, and the fewest writes for one change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.slices import Verb, Write
from berth.kube.slices import slice_json
from berth.model.device import Device, Taint
from berth.rehearsal.apiserver.slicerules import check_slice
from tests.unit.dra.inventories import Inventory, device_of, inventories
from tests.unit.dra.shelf import Shelf

pytestmark = pytest.mark.slow

OTHER = Taint(key="berth.dev/other", value="test", effect="NoSchedule")


def faults(writes: Sequence[Write]) -> list[Any]:
    """What a server has against what is written."""
    specs = [slice_json(write.slice)["spec"] for write in writes if write.verb is not Verb.DELETE]
    return [problem for spec in specs for problem in check_slice(spec, None)]


@given(inventory=inventories(skips=True))
def test_any_inventory_is_taken_and_then_left_alone(inventory: Inventory) -> None:
    """Each device is in it once, in a whole pool, and a second look writes nothing."""

    shelf = Shelf()
    writes = shelf.sync(inventory.devices, inventory.sets)
    published = [name for pool in shelf.editions for name in shelf.read(pool) or ("incomplete",)]

    assert faults(writes) == []
    assert sorted(published) == sorted(device.name for device in inventory.devices)
    assert shelf.sync(inventory.devices, inventory.sets) == []


@given(inventory=inventories(skips=True), data=st.data())
def test_change_of_one_device_writes_one_slice(inventory: Inventory, data: st.DataObject) -> None:
    """Of its attributes, its amounts or its taints."""

    if not inventory.devices:
        return
    shelf = Shelf()
    shelf.sync(inventory.devices, inventory.sets)
    place = data.draw(st.integers(0, len(inventory.devices) - 1))
    old = inventory.devices[place]
    new = data.draw(
        st.sampled_from(
            [
                attrs.evolve(old, attributes={**old.attributes, "number": -1}),
                attrs.evolve(old, taints=(*old.taints, OTHER)),
            ]
        )
    )
    writes = shelf.sync(replaced(inventory.devices, place, new), inventory.sets)

    assert [write.verb for write in writes] == [Verb.UPDATE]
    assert faults(writes) == []


@given(inventory=inventories(skips=True), data=st.data())
def test_device_that_goes_and_comes_back_writes_one_slice_each(
    inventory: Inventory, data: st.DataObject
) -> None:
    """Unless a set goes with it that it alone drew on, or its kind's place in the order."""

    if not inventory.devices:
        return
    shelf = Shelf()
    shelf.sync(inventory.devices, inventory.sets)
    place = data.draw(st.integers(0, len(inventory.devices) - 1))
    left = replaced(inventory.devices, place)
    gone = shelf.sync(left, inventory.sets)
    again = shelf.sync(inventory.devices, inventory.sets)

    alone = is_alone(inventory.devices[place], left)
    assert alone or [write.verb for write in gone] == [Verb.UPDATE]
    assert alone or [write.verb for write in again] == [Verb.UPDATE]
    assert faults([*gone, *again]) == []


@given(inventory=inventories(most=1024, skips=True))
def test_new_device_writes_one_slice_where_one_has_room(inventory: Inventory) -> None:
    """Else all of them once, in a new generation."""

    if not inventory.devices:
        return
    shelf = Shelf()
    shelf.sync(inventory.devices, inventory.sets)
    last = inventory.devices[-1]
    new = attrs.evolve(device_of(attrs.evolve(last, consumes=()), 9999), bucket="")
    pool = [device for device in inventory.devices if pool_of(device) == pool_of(last)]
    # Those that kubelet skips lie in slices of their own, and others behind them in further ones.
    alike = list(takewhile(lambda device: device.skips == last.skips, reversed(pool)))
    writes = shelf.sync((*inventory.devices, new), inventory.sets)

    full = len(alike) % 64 == 0
    slices = sum(item.pool == shelf_pool(shelf, new) for item in shelf.slices.values())
    assert len(writes) == (slices if full else 1)
    assert faults(writes) == []


def replaced(devices: Sequence[Device], place: int, *new: Device) -> tuple[Device, ...]:
    """The devices with others, or none, in a place."""
    return (*devices[:place], *new, *devices[place + 1 :])


def is_alone(device: Device, others: Sequence[Device]) -> bool:
    """Whether nobody else is of its kind and group, or draws on a set of its."""
    same = any((one.type, one.group) == (device.type, device.group) for one in others)
    sets = {one.counter_set for one in device.consumes}
    drawn = {one.counter_set for other in others for one in other.consumes}
    return not same or not sets <= drawn


def pool_of(device: Device) -> bool:
    """Which of both pools a device lies in."""
    return device.type.startswith("nic")


def shelf_pool(shelf: Shelf, device: Device) -> str:
    """The pool that a device is read in."""
    return next(pool for pool in shelf.editions if device.name in (shelf.read(pool) or ()))
