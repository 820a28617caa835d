"""What an older program left on disk: an upgrade loses no hold, and a way back is told of.

The files in ``golden/older`` were written by the program of commit 3de3f98, which knew neither NICs
at the device plugin's door nor functions that are bound for claims; ``holds.json`` is what its
ledger made of them. They are never written anew.
"""

from __future__ import annotations

import json
import os
import shutil
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from berth.cdi.store import CdiStore
from berth.model.inventory import Inventory
from berth.model.structure import fields_of
from berth.node.claims.recovery import holds_of
from berth.node.holders.equipment import equip
from berth.node.ledger import Ledger
from berth.node.plugin.allotments import Allotments, given_shelf
from berth.node.plugin.cdifiles import PluginFiles
from berth.node.records.document import KnownGpus, gpus_from_bytes, memory_from_bytes
from berth.node.records.given import Given
from berth.node.records.record import SCHEMA, ClaimRecord
from berth.node.records.records import Records
from berth.runtime.latest import Latest
from tests.unit.gpu.machine import facts, function, look, node

GOLDEN = Path(__file__).parent / "golden"
BOOT = "5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11"


@pytest.fixture(name="state")
def _state(tmp_path: Path) -> Path:
    """A state folder as the older program left it."""
    return Path(shutil.copytree(GOLDEN / "older", tmp_path / "state"))


async def test_every_hold_outlives_the_upgrade(state: Path) -> None:
    """No record is set aside, and nobody has more or less than before."""

    ledger = Ledger()
    records = Records(state / "claims")
    assert await records.load() == ()
    for record in records.all():
        ledger.restore(holds_of(record))
    given = given_shelf(state / "given")
    allotments = Allotments(
        given,
        ledger=ledger,
        inventory=Latest(Inventory()),
        files=PluginFiles(CdiStore("berth.dev", state / "cdi")),
        boot_id=BOOT,
    )
    await allotments.load()

    assert [one.uid for one in given.all()] == ["g1", "g2"]
    assert sorted(
        [h.key, h.device, h.holder.uid, h.share or "", h.slots, h.limit] for h in ledger.holds()
    ) == json.loads((state / "holds.json").read_text())


async def test_older_records_want_nothing_done(state: Path) -> None:
    """No function of theirs is berth's to give back, and NICs are where they were left."""

    records = Records(state / "claims")
    await records.load()

    nics, others = records.all()
    assert [nic.stage.value for nic in nics.nics if nic is not None] == ["attached"]
    assert (others.bindings, others.is_home, others.prepared) == ((), True, True)
    assert [len(device.edits.nodes) for device in others.devices] == [1, 3, 2, 1, 1]


async def test_older_records_are_written_as_those_of_now(state: Path) -> None:
    """The next start reads the same values from what this one wrote."""

    records = Records(state / "claims")
    await records.load()
    for record in records.all():
        await records.put(record)
    again = Records(state / "claims")

    assert await again.load() == ()
    assert again.all() == records.all()
    assert json.loads((state / "claims/u1.json").read_text())["schema"] == SCHEMA


async def test_gpu_for_machines_is_shown_once_and_held(state: Path) -> None:
    """It was known as the whole GPU is, whose place it takes in no list now."""

    records = Records(state / "claims")
    await records.load()
    nodes = facts(nodes=dict([node("/dev/vfio/vfio", 10, 196), node("/dev/vfio/44", 236, 0)]))
    seen = look((), [function(4, driver="vfio-pci")], nodes=nodes).peripherals
    shown = equip(seen, records.all(), ())

    (one,) = (one for one in shown if one.kind == "vfio")
    assert (one.name, one.held_by, one.unhealthy) == ("vfio-0000-1f-00-0", ("team/train",), "")
    assert records.all()[1].devices[2].identity == one.identity


def test_what_was_learnt_outlives_the_upgrade(state: Path) -> None:
    """Numbers of devices in their groups, and what NVML said of each GPU."""

    memory = memory_from_bytes((state / "stock.json").read_bytes(), where="stock.json")
    (one,) = gpus_from_bytes((state / "gpus.json").read_bytes(), where="gpus.json")

    assert dict(memory.indexes) == {"modem/usb:0403-6001-0": 3}
    assert (one.gpu.address, len(one.gpu.mig_devices)) == ("0000:1c:00.0", 2)


def forms(kind: Any, found: dict[str, list[str]]) -> None:
    """Fields of a class and members of an enumeration, and of all that they consist of."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        found[f"{kind.__module__}.{kind.__qualname__}"] = sorted(
            str(member.value) for member in kind
        )
    elif isinstance(kind, type) and attrs.has(kind):
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name not in found:
            fields = fields_of(kind)
            found[name] = sorted(fields)
            for hint, _ in fields.values():
                forms(hint, found)
    else:
        for part in get_args(kind):
            forms(part, found)


def test_form_changes_with_the_schema_alone() -> None:
    """A program of the schema before would set a record of another form aside, and lose its hold.

    Whoever gives a value of a record a field raises `SCHEMA`, once for all changes between two
    released versions, and writes the form anew (``GOLDEN=write``).
    """

    found: dict[str, list[str]] = {}
    for kind in (ClaimRecord, Given, KnownGpus):
        forms(kind, found)
    path = GOLDEN / f"form-{SCHEMA}.json"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

    assert found == json.loads(path.read_text())
