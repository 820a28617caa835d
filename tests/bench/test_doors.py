"""What the ledger and the two doors cost with as many devices as a node may have.

Each part is measured by itself, beside something that anybody can do for the same devices.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from berth.deviceplugin.listing import read_pods
from berth.deviceplugin.messages import list_resource
from berth.dra.origin import Origin
from berth.dra.placement import place
from berth.dra.slices import plan
from berth.kube.slices import Owner
from berth.model.device import Exclusion
from berth.model.inventory import Inventory
from berth.model.peripheral import Door, Peripheral
from berth.model.resource import Resource, Unit
from berth.node.holders.equipment import equip, published
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.evidence import Look, judge
from berth.pb import podresources_v1_pb2 as pb
from berth.runtime.latest import Latest
from tests.bench.conftest import Report
from tests.bench.figures import SOLE, Aim, Row
from tests.unit.node.peripherals import RESOURCE, given, modem
from tests.unit.node.plugin.test_allotments import Named

PARTS = 16 * 7
OTHERS = 512
PODS = 200
ROUNDS = 50


def machine() -> tuple[Peripheral, ...]:
    """A hundred and twelve parts of GPUs, and 512 devices of groups."""
    return tuple(
        attrs.evolve(
            modem(number),
            type="mig" if number < PARTS else "generic",
            name=f"device-{number:04d}",
            ids=(f"device-{number:04d}",),
            door=Door.BOTH,
        )
        for number in range(PARTS + OTHERS)
    )


def timed(work: Callable[[], object]) -> tuple[float, ...]:
    """How long it takes, again and again, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return tuple(times)


def test_first_list_of_many(report: Report) -> None:
    """From what was seen to the list that kubelet gets, beside JSON of the same ids."""

    seen = machine()

    def listed() -> object:
        found = equip(seen, (), ())
        units = tuple(Unit(id=one.ids[0], device=one.name, numa=one.numa) for one in found)
        return list_resource(Resource(name=RESOURCE, units=units)).answer.SerializeToString()

    plain = timed(lambda: json.dumps([one.ids for one in seen]))
    report(
        Row(
            name=f"list of {len(seen)} devices for kubelet",
            unit="ms",
            samples=timed(listed),
            beside=plain,
            beside_name="JSON of the ids",
        )
    )


def test_slices_of_many(report: Report) -> None:
    """One device that changes is one write."""

    seen = machine()
    origin = Origin(driver="berth.dev", owner=Owner(name="node", uid="uid"))
    devices = published(seen, (), driver="berth.dev")
    (first,) = plan(origin, devices, (), editions={}, accepted={})
    assert first.edition is not None
    there = [
        attrs.evolve(write.slice, name=f"{write.slice.generate_name}aaaaa", uid="u")
        for write in first.writes
    ]
    changed = (attrs.evolve(devices[300], attributes={"type": "generic", "group": "x"}),)
    after = (*devices[:300], *changed, *devices[301:])
    editions = {first.pool: first.edition}
    (again,) = plan(origin, after, there, editions=editions, accepted={})

    report(
        Row(
            name=f"writes for one changed device of {len(devices)}",
            unit="",
            samples=(float(len(again.writes)),),
            aims=(Aim(of=SOLE, most=1),),
        )
    )
    report(
        Row(
            name=f"plan of the slices of {len(devices)} devices",
            unit="ms",
            samples=timed(lambda: plan(origin, after, there, editions=editions, accepted={})),
            beside=timed(lambda: place((), devices)),
            beside_name="placing them alone",
        )
    )


def test_allocate(report: Report, tmp_path: Path) -> None:
    """One device, on disk before the answer, beside a bare synced write."""

    taken, bare = trio.run(_allocations, tmp_path)

    report(
        Row(
            name="Allocate of one device, ledger and disk",
            unit="ms",
            samples=taken,
            beside=bare,
            beside_name="a record written alone",
        )
    )


async def _allocations(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    shelf, other = given_shelf(folder / "ledger"), given_shelf(folder / "bare")
    inventory = Latest(Inventory(peripherals=equip([modem(0)], (), ())))
    door = Allotments(shelf, ledger=Ledger(), inventory=inventory, files=Named(), boot_id="boot")
    await door.load()
    await other.load()
    taken, bare = [], []
    for number in range(ROUNDS * 2):
        began = time.perf_counter()
        await door.allocate(RESOURCE, ("modem-0",))
        taken.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await other.put(given(modem(0), uid=f"g{number}"))
        bare.append((time.perf_counter() - began) * 1000)
    return tuple(taken), tuple(bare)


def test_round_of_lists(report: Report) -> None:
    """Kubelet's answer about 200 pods, read and held against what was given."""

    answer = pb.ListPodResourcesResponse()
    for number in range(PODS):
        entry = answer.pod_resources.add(name=f"pod-{number}", namespace="team")
        part = entry.containers.add(name="main")
        part.devices.add(resource_name=RESOURCE, device_ids=[f"device-{number:04d}"])
    kept = [given(one, uid=one.name) for one in machine()[:PODS]]
    raw = answer.SerializeToString()

    def judged() -> object:
        usages = read_pods(pb.ListPodResourcesResponse.FromString(raw).pod_resources).usages
        look = Look(at_s=1.0, usages=usages, kubelet_age_s=100.0)
        return [judge(one, look, absence=None, known_since_s=0.0, is_live=False) for one in kept]

    report(
        Row(
            name=f"a round of kubelet's lists with {PODS} pods",
            unit="ms",
            samples=timed(judged),
            beside=timed(lambda: pb.ListPodResourcesResponse.FromString(raw)),
            beside_name="reading the answer alone",
        )
    )


def test_exclusion_is_told(report: Report) -> None:
    """What each change costs: the whole inventory is judged anew."""

    seen = machine()
    out = attrs.evolve(seen[5], exclusion=Exclusion(reason="overlap"))

    def again() -> object:
        found = equip((*seen[:5], out, *seen[6:]), (), ())
        return published(found, (), driver="berth.dev")

    report(Row(name=f"judging {len(seen)} devices anew", unit="ms", samples=timed(again)))
