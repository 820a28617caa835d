"""Slices of the largest node: what it takes to plan them, and how many a change writes."""

from __future__ import annotations

import time

import attrs
import pytest

from berth.model.device import Taint
from tests.bench.conftest import Report
from tests.bench.figures import SOLE, Aim, Row
from tests.unit.dra.changes import replaced, with_devices
from tests.unit.dra.inventories import MOST, Inventory, everything
from tests.unit.dra.shelf import Shelf, nic

FACTS = {f"fact{number}": f"value {number}" for number in range(20)}
NICS = Inventory(devices=tuple(nic(number, **FACTS) for number in range(MOST)), sets=())
ROUNDS = 9
SICK = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")


@pytest.mark.parametrize(
    ("what", "inventory"),
    [("devices", NICS), ("devices with all there is", everything())],
    ids=["plain", "full"],
)
def test_publishing(what: str, inventory: Inventory, report: Report) -> None:
    """Planned from nothing, planned again with nothing new, and with one device of many changed."""

    name, devices = f"slices of {MOST} {what}", inventory.devices
    shelf = Shelf()
    first_ms, created = timed(shelf, inventory)
    same = [timed(shelf, inventory) for _ in range(ROUNDS)]
    sick, fewer = [], []
    for place in range(0, MOST, MOST // ROUNDS):
        old = devices[place]
        ill = replaced(devices, place, attrs.evolve(old, taints=(*old.taints, SICK)))
        left = replaced(devices, place)
        sick += [timed(shelf, with_devices(inventory, ill)), timed(shelf, inventory)]
        fewer += [timed(shelf, with_devices(inventory, left)), timed(shelf, inventory)]

    slices = f"{created} slices"
    report(Row(name=f"{name}: planned from nothing", unit="ms", samples=(first_ms,), note=slices))
    for change, rounds, most in (
        ("nothing has changed", same, 0.0),
        ("one falls ill or is well again", sick, 1.0),
        ("one goes or comes back", fewer, 1.0),
    ):
        report(
            Row(
                name=f"{name}: {change}",
                unit="ms",
                samples=tuple(took_ms for took_ms, _ in rounds),
                beside=(first_ms,),
                beside_name="from nothing",
            )
        )
        report(
            Row(
                name=f"{name}: {change}: written at most",
                unit="",
                samples=(max(written for _, written in rounds),),
                aims=(Aim(of=SOLE, most=most),),
            )
        )


def timed(shelf: Shelf, inventory: Inventory) -> tuple[float, int]:
    """How long it took in milliseconds, and how many slices were written."""
    began = time.perf_counter()
    writes = shelf.sync(inventory.devices, inventory.sets)
    return (time.perf_counter() - began) * 1000, len(writes)
