"""Whatever a node has: slices that an API server takes, and the fewest writes for one change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import attrs
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from berth.dra.origin import NIC_TYPES
from berth.dra.slices import Verb, Write
from berth.kube.slices import slice_json
from berth.model.device import Device
from berth.rehearsal.apiserver.slicerules import check_slice
from tests.unit.dra.changes import singles
from tests.unit.dra.inventories import MOST, Inventory, device_of, everything, inventories
from tests.unit.dra.shelf import Shelf

pytestmark = pytest.mark.slow


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
def test_single_change_writes_one_slice_and_one_when_it_is_undone(
    inventory: Inventory, data: st.DataObject
) -> None:
    """Of a device's attributes or taints, of a set's amounts, of a device that goes and comes back.

    Unless a set goes with the device that it alone drew on, or its kind's place in the order.
    """

    if not inventory.devices:
        return
    shelf = Shelf()
    shelf.sync(inventory.devices, inventory.sets)
    place = data.draw(st.integers(0, len(inventory.devices) - 1))
    for change in singles(inventory, place):
        done = shelf.sync(change.inventory.devices, change.inventory.sets)
        undone = shelf.sync(inventory.devices, inventory.sets)

        note(change.what)
        assert not change.fits or [write.verb for write in done] == [Verb.UPDATE]
        assert not change.fits or [write.verb for write in undone] == [Verb.UPDATE]
        assert faults([*done, *undone]) == []


@pytest.mark.parametrize("gated", [False, True])
def test_fullest_devices_are_taken_beside_each_other(gated: bool) -> None:
    """As many of each type, each with all that a server takes, in few slices."""

    shelf, inventory = Shelf(), everything(gated=gated)
    writes = shelf.sync(inventory.devices, inventory.sets)

    assert faults(writes) == []
    assert len(writes) == MOST // 64 + len(inventory.sets) // 8


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


def pool_of(device: Device) -> bool:
    """Which of both pools a device lies in."""
    return device.type in NIC_TYPES


def shelf_pool(shelf: Shelf, device: Device) -> str:
    """The pool that a device is read in."""
    return next(pool for pool in shelf.editions if device.name in (shelf.read(pool) or ()))
