"""Sixteen GPUs of seven parts each and 512 device nodes: from what is seen to what is told.

Run as a program, in a process of its own, it tells what that costs as one line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any, Final

import attrs

from berth.config.doors import Door as WrittenDoor
from berth.config.gpu import GpuTable
from berth.deviceplugin.messages import list_resource
from berth.dra.origin import Origin
from berth.dra.slices import plan
from berth.kube.slices import Owner
from berth.model.device import CounterSet
from berth.model.peripheral import Peripheral
from berth.model.resource import Resource, Unit
from berth.node.holders.equipment import equip, of_resource, published
from tests.bench.processes import rss_mb
from tests.unit.generic.nodes import DRIVER, group, surveyed, tty
from tests.unit.gpu.machine import divided, facts, function, part
from tests.unit.gpu.machine import look as look_at_gpus

GPUS: Final = 16
PARTS: Final = 7
OTHERS: Final = 512
ROUNDS: Final = 5

_ORIGIN: Final = Origin(driver=DRIVER, owner=Owner(name="node", uid="uid"))


def seen() -> dict[str, Any]:
    """What the witnesses say."""
    gpus = tuple(
        divided(
            number,
            *(
                part(number * PARTS + place, "1g.10gb", place, gi_id=place + 7)
                for place in range(PARTS)
            ),
        )
        for number in range(GPUS)
    )
    return {
        "gpus": gpus,
        "functions": [function(number) for number in range(GPUS)],
        "nodes": tuple(tty(number, serial=f"A{number:04d}") for number in range(OTHERS)),
    }


def survey(what: dict[str, Any]) -> tuple[tuple[Peripheral, ...], tuple[CounterSet, ...]]:
    """What it comes to."""
    table = attrs.evolve(GpuTable(), door=WrittenDoor.BOTH)
    gpus = look_at_gpus(what["gpus"], what["functions"], table=table, nodes=facts())
    serial = group("serial", 'door = "both"\nmatch = { path = ["/dev/ttyUSB*"] }')
    others = surveyed(what["nodes"], serial)
    return equip((*gpus.peripherals, *others.peripherals), (), ()), gpus.counter_sets


def told(found: tuple[Peripheral, ...], sets: tuple[CounterSet, ...]) -> dict[str, Any]:
    """Lists and slices as they are sent, and how many there are."""
    names = sorted({one.resource for one in found if one.resource})
    lists = [
        list_resource(Resource(name=name, units=_units(found, name))).answer.SerializeToString()
        for name in names
    ]
    devices = published(found, (), driver=DRIVER)
    plans = plan(_ORIGIN, devices, (), editions={}, accepted={}, counter_sets=sets)
    return {
        "ids": sum(len(one.ids) for one in found if one.exclusion is None),
        "bytes": sum(map(len, lists)),
        "devices": len(devices),
        "slices": sum(len(one.writes) for one in plans),
    }


def writes_for_one(found: tuple[Peripheral, ...], sets: tuple[CounterSet, ...]) -> int:
    """How many slices are written when one part is ill."""
    devices = published(found, (), driver=DRIVER)
    first = plan(_ORIGIN, devices, (), editions={}, accepted={}, counter_sets=sets)
    there = [
        attrs.evolve(write.slice, name=f"{write.slice.generate_name}aaaaa", uid="u")
        for one in first
        for write in one.writes
    ]
    editions = {one.pool: one.edition for one in first if one.edition is not None}
    place = next(n for n, one in enumerate(devices) if one.attributes.get("type") == "mig")
    changed = attrs.evolve(
        devices[place], attributes={**devices[place].attributes, "productName": "another"}
    )
    after = (*devices[:place], changed, *devices[place + 1 :])
    again = plan(_ORIGIN, after, there, editions=editions, accepted={}, counter_sets=sets)
    return sum(len(one.writes) for one in again)


def _units(found: tuple[Peripheral, ...], name: str) -> tuple[Unit, ...]:
    return tuple(
        Unit(id=id_, device=one.name, numa=one.numa, pcie_root=one.pcie_root)
        for one in of_resource(found, name)
        for id_ in one.ids
    )


def main() -> int:
    """Do it and tell."""
    what = seen()
    gc.collect()
    before_mb = rss_mb(os.getpid())
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found, sets = survey(what)
        figures = told(found, sets)
        times.append((time.perf_counter() - began) * 1000)
        if len(times) == 1:
            gc.collect()
            first_mb = rss_mb(os.getpid())
    writes = writes_for_one(found, sets)
    gc.collect()
    last_mb = rss_mb(os.getpid())
    grown = {"first_mb": first_mb - before_mb, "last_mb": last_mb - before_mb}
    print(json.dumps({"ms": times, "writes": writes, **grown, **figures}))  # noqa: T201 - a program's answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
