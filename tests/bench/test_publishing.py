"""Slices of the largest node: what it takes to plan them, and how many a change writes."""

from __future__ import annotations

import time

import attrs

from berth.model.device import Device, Taint
from tests.bench.conftest import Report
from tests.bench.figures import SOLE, Aim, Row
from tests.unit.dra.shelf import Shelf, nic

MOST = 4096
FACTS = {f"fact{number}": f"value {number}" for number in range(20)}
DEVICES = tuple(nic(number, **FACTS) for number in range(MOST))
ROUNDS = 9
SICK = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")
NAME = f"slices of {MOST} devices"


def test_publishing(report: Report) -> None:
    """Planned from nothing, planned again with nothing new, and with one device of many changed."""

    shelf = Shelf()
    first_ms, created = timed(shelf, DEVICES)
    same = [timed(shelf, DEVICES) for _ in range(ROUNDS)]
    sick, fewer = [], []
    for place in range(0, MOST, MOST // ROUNDS):
        before, after = DEVICES[:place], DEVICES[place + 1 :]
        ill = attrs.evolve(DEVICES[place], taints=(SICK,))
        sick += [timed(shelf, (*before, ill, *after)), timed(shelf, DEVICES)]
        fewer += [timed(shelf, (*before, *after)), timed(shelf, DEVICES)]

    slices = f"{created} slices"
    report(Row(name=f"{NAME}: planned from nothing", unit="ms", samples=(first_ms,), note=slices))
    for what, rounds, most in (
        ("nothing has changed", same, 0.0),
        ("one falls ill or is well again", sick, 1.0),
        ("one goes or comes back", fewer, 1.0),
    ):
        report(
            Row(
                name=f"{NAME}: {what}",
                unit="ms",
                samples=tuple(took_ms for took_ms, _ in rounds),
                beside=(first_ms,),
                beside_name="from nothing",
            )
        )
        report(
            Row(
                name=f"{NAME}: {what}: written at most",
                unit="",
                samples=(max(written for _, written in rounds),),
                aims=(Aim(of=SOLE, most=most),),
            )
        )


def timed(shelf: Shelf, devices: tuple[Device, ...]) -> tuple[float, int]:
    """How long it took in milliseconds, and how many slices were written."""
    began = time.perf_counter()
    writes = shelf.sync(devices)
    return (time.perf_counter() - began) * 1000, len(writes)
