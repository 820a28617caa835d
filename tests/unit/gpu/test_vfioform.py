"""GPUs that claims may have bound to vfio-pci: both forms, and what keeps them apart."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.config.doors import Door as WrittenDoor
from berth.config.gpu import GpuGroup, GpuShare, GpuTable, GpuVfio
from berth.config.gpumatch import GpuMatch, GpuType
from berth.gpu.counters import SLICES_LIMIT, whole_set
from berth.gpu.survey import GpuSurvey
from berth.gpu.witness import Remembered
from berth.host.nvidiafiles import FunctionFiles
from berth.model.gpu import MigProfile, Placement
from berth.model.peripheral import Door, Peripheral
from tests.unit.gpu.machine import (
    BOOT,
    DRIVER,
    address_of,
    divided,
    engines,
    facts,
    function,
    gpu,
    look,
    node,
    part,
)

WHOLE = "gpu-0000-1b-00-0"
FORM = "vfio-0000-1b-00-0"
REBIND = GpuVfio(rebind=True)
MACHINES = GpuGroup(name="vm", match=GpuMatch(type=(GpuType.VFIO,)), vfio=REBIND)
TABLE = GpuTable(groups=(MACHINES,))
MEMORY = (Remembered(gpu=gpu(0), boot_id=BOOT, driver=DRIVER),)


def forms(found: GpuSurvey) -> dict[str, Peripheral]:
    """Everything that was seen, by name."""
    return {each.name: each for each in found.peripherals}


def one(**changes: Any) -> GpuSurvey:
    """One GPU of whose forms a group lets claims have either."""
    values: dict[str, Any] = {"table": TABLE, **changes}
    return look(values.pop("gpus", [gpu(0)]), values.pop("functions", [function(0)]), **values)


def test_both_forms_draw_all_of_one_set() -> None:
    """So the scheduler gives one of them; the keys say so too, for the node."""

    found = one()
    whole, form = forms(found)[WHOLE], forms(found)[FORM]

    assert (whole.exclusion, form.exclusion) == (None, None)
    (counters,) = found.counter_sets
    assert counters == whole_set(gpu(0))
    assert [each.counters for each in (*whole.consumes, *form.consumes)] == [counters.counters] * 2
    assert counters.counters["memory"] == 80896 << 20
    assert counters.counters["memory-slice-7"] == 1
    assert (whole.only_counted, form.only_counted) == (False, True)
    assert set(whole.keys) & set(form.keys) >= {"pci:0000:1b:00.0"}
    assert whole.identity != form.identity
    assert (form.group, whole.group) == ("vm", "")
    assert (form.lacking, form.unhealthy) == ((), "")


def test_gpu_of_which_nothing_is_counted_draws_its_memory() -> None:
    """Neither profiles nor engines are known of it; with no memory either it is one piece."""

    plain = gpu(0, mig_profiles=(), memory_bytes=2**34)

    assert whole_set(plain).counters == {"memory": 2**34}
    assert whole_set(attrs.evolve(plain, memory_bytes=None)).counters == {"memory": 1}
    far = MigProfile(
        id=1,
        name="1g.1gb",
        engines=engines(1, 1, 1),
        placements=(Placement(start=SLICES_LIMIT, size=1),),
    )
    wide = whole_set(attrs.evolve(plain, mig_profiles=(far,)))
    assert not any(name.startswith("memory-slice") for name in wide.counters)


def test_engines_of_a_whole_are_told_beside_counters() -> None:
    """Where the driver says them of the GPU itself."""

    whole = forms(one(gpus=[gpu(0, engines=engines(132, 8, 80896))]))[WHOLE]

    assert whole.capacity["multiprocessors"].value == 132
    assert whole.capacity["memory"].value == 85520809984


def test_node_of_the_iommu_makes_the_other_way_possible() -> None:
    """Whether the function gets a node of its own is known when it is bound."""

    there = dict([node("/dev/iommu", 10, 126)])
    with_it = facts(nodes={**facts().nodes, **there})

    assert forms(one())[FORM].attributes["iommufd"] is False
    assert forms(one(nodes=with_it))[FORM].attributes["iommufd"] is True


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"functions": [function(0), function(0, address="0000:1b:00.1", class_code=0x040300)]},
            "iommu-group: 0000:1b:00.1 of the same group is bound to nvidia",
        ),
        ({"functions": [function(0, iommu_group=None)]}, "iommu-group: it is in no IOMMU group"),
        (
            {"table": GpuTable(groups=(MACHINES,), door=WrittenDoor.PLUGIN)},
            "door: its door is plugin, and only a claim has it bound",
        ),
        (
            {
                "table": GpuTable(
                    groups=(
                        MACHINES,
                        GpuGroup(
                            name="s",
                            match=GpuMatch(type=(GpuType.GPU,)),
                            share=GpuShare(slots=4),
                        ),
                    )
                )
            },
            f"shared: {WHOLE} is offered in 4 shares",
        ),
    ],
)
def test_form_is_not_offered_and_the_whole_is(changes: dict[str, Any], reason: str) -> None:
    """What keeps it from being bound, in words."""

    found = forms(one(**changes))

    assert str(found[FORM].exclusion).startswith(reason)
    assert found[WHOLE].exclusion is None


@pytest.mark.parametrize(
    "changes",
    [
        {"table": GpuTable()},
        {"gpus": [], "functions": [function(0, driver="nouveau")]},
        {"gpus": [divided(0, part(1, "1g.10gb", 0, gi_id=1))]},
        {"gpus": [gpu(0, mig_pending=True)]},
        {"gpus": [], "state": "driver-absent"},
    ],
)
def test_there_is_no_other_form(changes: dict[str, Any]) -> None:
    """Nobody asked for it, the driver does not have the GPU, or has divided it."""

    assert FORM not in forms(one(**changes))


def test_plugin_lists_no_form_that_has_to_be_bound() -> None:
    """What it gives is never given back in time; the whole is listed as before."""

    found = forms(one(table=GpuTable(groups=(MACHINES,), door=WrittenDoor.BOTH)))

    assert (found[FORM].door, found[FORM].ids) == (Door.DRA, ())
    assert (found[WHOLE].door, len(found[WHOLE].ids)) == (Door.BOTH, 1)


@pytest.mark.parametrize("table", [TABLE, GpuTable()])
def test_lent_gpu_is_told_in_both_forms(table: GpuTable) -> None:
    """NVML has it no more, and it comes back: names, counters and keys stay as they were."""

    bound = function(0, driver="vfio-pci")
    files = facts(functions={address_of(0): FunctionFiles(vfio="vfio3")})
    changes: dict[str, Any] = {"gpus": [], "functions": [bound], "memory": MEMORY, "nodes": files}
    found = one(**changes, lent={address_of(0): ""}, table=table)
    before = forms(one())

    now = forms(found)
    assert set(now) == {WHOLE, FORM}
    for name in now:
        assert (now[name].keys, now[name].consumes) == (before[name].keys, before[name].consumes)
        assert (now[name].unhealthy, now[name].exclusion) == ("", None)
    assert found.lost == ()


def test_lent_gpu_whose_driver_does_not_let_go_is_unhealthy() -> None:
    """In both forms, by the same word."""

    stuck = function(0, driver="")
    found = forms(one(gpus=[], functions=[stuck], memory=MEMORY, lent={address_of(0): "busy"}))

    assert {each.unhealthy for each in found.values()} == {"busy"}


def test_lent_gpu_that_nobody_remembers_is_told_as_such() -> None:
    """The state folder was lost: its claim keeps the form, and nobody gets the whole."""

    bound = function(0, driver="vfio-pci")

    found = forms(one(gpus=[], functions=[bound], lent={address_of(0): ""}))

    assert str(found[WHOLE].exclusion).startswith("lent: a claim has it")
    assert found[FORM].exclusion is None
    assert found[FORM].consumes == ()


def test_lent_gpu_that_was_pulled_out_is_lost() -> None:
    """There is no function any more."""

    found = one(gpus=[], functions=[], memory=MEMORY, lent={address_of(0): ""})

    assert set(forms(found)) == {WHOLE}
    assert found.lost == (address_of(0),)
