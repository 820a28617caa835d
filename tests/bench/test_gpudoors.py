"""What a GPU costs at either door, and what a node full of parts and other devices does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import attrs
import trio

from berth.cdi.store import CdiStore
from berth.config.doors import Door as WrittenDoor
from berth.config.gpu import GpuTable
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.holders.equipment import equip
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.cdifiles import PluginFiles
from berth.runtime.latest import Latest
from tests.bench.claimnode import ClaimNode
from tests.bench.conftest import ROOT, Report
from tests.bench.figures import Row
from tests.bench.manydevices import GPUS, OTHERS, PARTS
from tests.unit.gpu.machine import function, gpu
from tests.unit.gpu.machine import look as look_at_gpus
from tests.unit.node.machine import DRIVER, claim, result
from tests.unit.node.peripherals import given

ROUNDS = 100


def one_gpu() -> Peripheral:
    """A whole GPU that both doors show."""
    table = attrs.evolve(GpuTable(), door=WrittenDoor.BOTH)
    (found,) = look_at_gpus([gpu(0)], [function(0)], table=table).peripherals
    return found


def test_allocate_and_prepare_of_a_gpu(report: Report, tmp_path: Path) -> None:
    """Records and CDI files on disk before the answer, beside a bare synced write."""

    allocated, bare = trio.run(_allocations, tmp_path)
    prepared, undone = trio.run(_prepares, tmp_path)
    for name, samples, note in (
        ("Allocate of a GPU", allocated, ""),
        ("prepare of a claim for a GPU", prepared, "the API server answers at once"),
        ("unprepare of it", undone, ""),
    ):
        report(
            Row(
                name=name,
                unit="ms",
                samples=samples,
                beside=bare,
                beside_name="a record written alone",
                note=note,
            )
        )


async def _allocations(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    device = one_gpu()
    shelf, other = given_shelf(folder / "ledger"), given_shelf(folder / "bare")
    inventory = Latest(Inventory(peripherals=equip([device], (), ())))
    (folder / "cdi").mkdir()
    files = PluginFiles(CdiStore(DRIVER, folder / "cdi"))
    door = Allotments(shelf, ledger=Ledger(), inventory=inventory, files=files, boot_id="boot")
    await door.load()
    await other.load()
    taken, bare = [], []
    for number in range(ROUNDS):
        began = time.perf_counter()
        await door.allocate(device.resource, device.ids)
        taken.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await other.put(given(device, uid=f"g{number}"))
        bare.append((time.perf_counter() - began) * 1000)
    return tuple(taken), tuple(bare)


async def _prepares(folder: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    device = one_gpu()
    node = ClaimNode(folder / "claims", device)
    await node.records.load()
    taken, undone = [], []
    async with trio.open_nursery() as nursery:
        await nursery.start(node.nics.run)
        await nursery.start(node.ending.run)
        for number in range(ROUNDS):
            asked = claim(result(device.name, "gpu"), name=f"gpu-{number}")
            node.server.claims[asked.ref.uid] = asked
            began = time.perf_counter()
            await node.claims.prepare(asked.ref)
            taken.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            await node.claims.unprepare(asked.ref)
            undone.append((time.perf_counter() - began) * 1000)
        nursery.cancel_scope.cancel()
    return tuple(taken), tuple(undone)


def test_node_full_of_devices(report: Report) -> None:
    """From what the witnesses say to lists and slices, in a process of its own."""

    command = [sys.executable, "-m", "tests.bench.manydevices"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    what = f"{GPUS} GPUs of {PARTS} parts and {OTHERS} device nodes"
    assert told["devices"] == GPUS * PARTS + OTHERS
    note = f"{told['ids']} ids, {told['bytes']} bytes of lists, {told['slices']} slices"

    report(Row(name=f"first full list of {what}", unit="ms", samples=(told["ms"][0],), note=note))
    report(Row(name="the same again", unit="ms", samples=tuple(told["ms"][1:])))
    report(Row(name="memory that the first takes", unit="MB", samples=(told["first_mb"],)))
    report(Row(name="memory after all of them", unit="MB", samples=(told["last_mb"],)))
    report(Row(name="slices written for one changed part", unit="", samples=(told["writes"],)))
