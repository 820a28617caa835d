"""Peripherals of GPUs, from what NVML, the PCI bus and the memory say."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.config.doors import Door as WrittenDoor
from berth.config.gpu import GpuGroup, GpuShare, GpuTable, GpuVfio, ShareMemory
from berth.config.gpumatch import Glob, GpuMatch, GpuType
from berth.config.match import PciPattern
from berth.gpu.survey import GpuSurvey
from berth.gpu.witness import Remembered
from berth.host.nvidiafiles import FunctionFiles
from berth.model.device import Version
from berth.model.names import is_dns_label
from berth.model.nodecost import NodeCost
from berth.model.peripheral import Door, Peripheral
from berth.model.structure import from_json, to_json
from tests.unit.gpu.machine import (
    address_of,
    divided,
    facts,
    function,
    gpu,
    look,
    node,
    part,
    uuid_of,
)

GOLDEN = Path(__file__).parent / "golden" / "eight.json"
EIGHT = (
    *(gpu(number) for number in range(6)),
    divided(
        6,
        part(60, "3g.40gb", 0, gi_id=2),
        part(61, "1g.10gb", 4, gi_id=7),
        part(62, "1g.10gb", 6, gi_id=9),
    ),
    divided(
        7,
        part(70, "2g.20gb", 0, gi_id=3),
        part(71, "2g.20gb", 2, gi_id=5),
        part(72, "1g.10gb", 4, gi_id=11),
        part(73, "1g.10gb", 5, gi_id=13),
    ),
)
FUNCTIONS = tuple(function(number) for number in range(8))


def offered(found: GpuSurvey) -> dict[str, Peripheral]:
    """What is offered, by name."""
    return {each.name: each for each in found.peripherals if each.exclusion is None}


def reasons(found: GpuSurvey) -> dict[str, str]:
    """Why the others are not, by name."""
    return {
        each.name: str(each.exclusion) for each in found.peripherals if each.exclusion is not None
    }


def test_eight_gpus_of_which_two_are_divided_are_as_golden() -> None:
    """Names, ids, keys, attributes, capacities, counters and edits of a whole machine.

    The golden file was made by this code (``GOLDEN=write``); its names, identities and keys, one
    part as a whole and the counter sets were looked over against GH §1.2 to §1.5, §3.3.
    """

    found = look(EIGHT, FUNCTIONS)
    devices = to_json(found.peripherals)
    (common,) = {json.dumps(device.pop("common"), sort_keys=True) for device in devices}
    seen = {
        "common": json.loads(common),
        "devices": devices,
        "counter_sets": to_json(found.counter_sets),
    }
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    assert seen == json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert found.warnings == ()
    assert len(offered(found)) == 13


def test_every_device_fits_a_slice() -> None:
    """Names are labels of their own, and attributes and capacities together are below 32."""

    group = GpuGroup(name="a", match=GpuMatch(), share=GpuShare(slots=4))
    for table in (GpuTable(), GpuTable(groups=(group,))):
        devices = offered(look(EIGHT, FUNCTIONS, table=table))
        keys: dict[str, set[str]] = {}
        for name, each in devices.items():
            assert is_dns_label(name)
            assert len(each.attributes) + len(each.capacity) < 32
            keys.setdefault(each.type, set()).update(each.attributes)
        assert all(keys[each.type] == each.attributes.keys() for each in devices.values())


def test_order_and_numbers_change_no_name() -> None:
    """NVML's order and the numbers of nodes are another at each boot."""

    shuffled = list(EIGHT)
    random.Random(4).shuffle(shuffled)  # noqa: S311 - no secret, the same each time
    renumbered = [
        gpu(int(each.address[5:7], 16) - 0x1B, minor=7 - (each.minor or 0)) for each in shuffled
    ]

    first, second = look(EIGHT, FUNCTIONS), look(shuffled, reversed(FUNCTIONS))
    third = look(renumbered, FUNCTIONS)

    assert to_json(first.peripherals) == to_json(second.peripherals)
    wholes = {e.name: (e.identity, e.keys) for e in first.peripherals if e.type == "gpu"}
    assert wholes == {e.name: (e.identity, e.keys) for e in third.peripherals}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mig_current": True, "mig_pending": True}, "mig-empty"),
        ({"mig_pending": True}, "mig-mode-pending"),
        ({"uuid": "", "missing": {"uuid": "Unknown Error"}}, "identity: Unknown Error"),
        ({"minor": None}, "identity"),
        ({"uuid": "GPU-" + "0" * 60}, "identity"),
        ({"uuid": uuid_of(1)}, "identity: another one has the same UUID"),
        ({"minor": 1}, "identity: another one has the same node, /dev/nvidia1"),
    ],
)
def test_gpu_that_cannot_be_offered_has_a_reason(changes: dict[str, Any], reason: str) -> None:
    """No GPU vanishes silently, and no other is touched."""

    found = look([gpu(0, **changes), gpu(1), gpu(2)], FUNCTIONS[:3])

    assert reasons(found)["gpu-0000-1b-00-0"].startswith(reason)
    assert "gpu-0000-1d-00-0" in offered(found)


def test_whole_gpu_is_offered_to_nobody_while_it_is_divided() -> None:
    """Only its parts are, and it says why."""

    found = look([EIGHT[6]], [FUNCTIONS[6]])

    assert reasons(found) == {"gpu-0000-21-00-0": "mig-on: its 3 parts are offered"}
    assert {each.type for each in offered(found).values()} == {"mig"}


def test_odd_part_hides_no_sibling() -> None:
    """A part without a place or a UUID, and one of an unknown profile, leave the others alone."""

    odd = divided(
        0,
        part(1, "1g.10gb", 0, gi_id=7, gi_placement=None, ci_placement=None),
        part(2, "1g.10gb", 1, gi_id=8, name="NVIDIA H100 MIG 9z", gi_profile=77),
        part(3, "1g.10gb", 2, gi_id=9, uuid=""),
        part(4, "1g.10gb", 3, gi_id=10, engines=None),
    )

    found = look([odd], FUNCTIONS[:1])

    assert list(offered(found)) == [
        "gpu-0000-1b-00-0-mig-1g10gb-3",
        "gpu-0000-1b-00-0-mig-1g10gb-gi7-ci0",
        "gpu-0000-1b-00-0-mig-part-1",
    ]
    assert found.counter_sets == ()
    assert [each.consumes for each in found.peripherals] == [()] * 5


def test_several_compute_instances_are_told_apart() -> None:
    """Parts of one GPU instance are called by their own place too, and have no counters."""

    parts = [
        part(
            number,
            "3g.40gb",
            4,
            gi_id=1,
            ci_id=number,
            name="NVIDIA H100 MIG 1c.3g.40gb",
            ci_placement=part(0, "1g.10gb", number, gi_id=0).gi_placement,
        )
        for number in range(3)
    ]

    found = look([divided(0, *parts)], FUNCTIONS[:1])

    assert [each.name.rpartition("mig-")[2] for each in offered(found).values()] == [
        "1c3g40gb-4-0",
        "1c3g40gb-4-1",
        "1c3g40gb-4-2",
    ]
    assert found.counter_sets == ()


def test_counters_block_nothing_that_is_there() -> None:
    """A set holds at least what exists, though no profile told so much."""

    parts = (part(1, "3g.40gb", 0, gi_id=1), part(2, "3g.40gb", 4, gi_id=2))
    bare = divided(0, *parts, mig_profiles=())

    (counters,) = look([bare], FUNCTIONS[:1]).counter_sets

    assert counters.counters["multiprocessors"] == 120
    assert counters.counters["memory-slice-7"] == 1
    assert "encoders" not in counters.counters


def test_node_of_unknown_number_is_named_and_stands_in_the_way() -> None:
    """No container is made without a node that it needs."""

    (found,) = look([gpu(0)], FUNCTIONS[:1], nodes=facts(majors={})).peripherals

    assert (found.unhealthy, found.lacking[0]) == ("nodes-missing", "/dev/nvidia-uvm")
    assert "/dev/nvidia-uvm" in found.obstacle


def test_session_that_is_down_keeps_what_it_said(tmp_path: Path) -> None:
    """Devices stay under their names and ids; by our own doing they are not even unhealthy."""

    before = look(EIGHT, FUNCTIONS)
    for state, unhealthy in (("mismatch", "driver-mismatch"), ("released", "")):
        after = look((), FUNCTIONS, state=state, driver=None, memory=before.memory)

        assert offered(after).keys() == offered(before).keys()
        assert {each.unhealthy for each in offered(after).values()} == {unhealthy}
        assert after.memory == before.memory
        for name, each in offered(after).items():
            assert each.attributes == offered(before)[name].attributes


def test_gpu_that_is_lost_is_kept_until_the_next_boot() -> None:
    """Its ids stay, sick; after a reboot it is a gap with a reason, or gone with its function."""

    memory = look(EIGHT[:2], FUNCTIONS[:2]).memory
    lost = look(EIGHT[:1], FUNCTIONS[:1], memory=memory)
    booted = look(EIGHT[:1], FUNCTIONS[:2], memory=memory, nodes=facts(boot_id="another"))

    assert offered(lost)["gpu-0000-1c-00-0"].unhealthy == "lost"
    assert reasons(booted) == {"gpu-0000-1c-00-0": "lost: NVML does not list it"}
    assert [each.gpu.address for each in booted.memory] == [address_of(0)]


def test_gpu_that_may_be_the_one_that_does_not_answer_is_not_lost() -> None:
    """NVML lists one that does not say who it is: nobody can say that another is away."""

    memory = look(EIGHT[:2], FUNCTIONS[:2]).memory
    found = look(EIGHT[:1], FUNCTIONS[:2], memory=memory, mute=True)

    assert offered(found)["gpu-0000-1c-00-0"].unhealthy == "no-answer"
    assert found.lost == ()
    gone = look(EIGHT[:1], FUNCTIONS[:1], memory=memory, mute=True)
    assert offered(gone)["gpu-0000-1c-00-0"].unhealthy == "lost"


def test_node_of_a_lost_gpu_that_is_another_ones_now_is_not_given_for_it() -> None:
    """The driver numbers the GPUs that are left anew; the lost one stays, and gives nothing."""

    memory = look(EIGHT[:2], FUNCTIONS[:2]).memory
    found = offered(look([gpu(1, minor=0)], FUNCTIONS[:2], memory=memory))

    lost, left = found["gpu-0000-1b-00-0"], found["gpu-0000-1c-00-0"]
    assert (lost.unhealthy, lost.lacking, lost.edits.nodes) == ("lost", ("/dev/nvidia?",), ())
    assert [each.path for each in left.edits.nodes] == ["/dev/nvidia0"]


def test_two_witnesses_that_differ_are_told() -> None:
    """A function without NVML's word and a word without a function are no silent gap."""

    functions = [function(1), function(2, driver="nouveau"), function(3, driver="")]

    found = look([gpu(0)], functions)

    assert {name[-7:-5]: reason.partition(":")[0] for name, reason in reasons(found).items()} == {
        "1b": "no-function",
        "1c": "lost",
        "1d": "foreign-driver",
        "1e": "no-driver",
    }
    assert offered(found) == {}


def test_part_whose_uuid_another_gpu_reports_is_offered_by_neither() -> None:
    """Each is told with the other's place; their siblings are offered, and no id comes twice."""

    one = divided(0, part(7, "1g.10gb", 0, gi_id=9), part(8, "1g.10gb", 1, gi_id=10))
    other = divided(1, part(7, "1g.10gb", 0, gi_id=9), part(9, "1g.10gb", 1, gi_id=10))
    table = attrs.evolve(GpuTable(), door=WrittenDoor.BOTH)

    found = look([one, other], FUNCTIONS[:2], table=table)

    said = {name: reason for name, reason in reasons(found).items() if "-mig-" in name}
    assert said == {
        "gpu-0000-1b-00-0-mig-1g10gb-0": "identity: a part of 0000:1c:00.0 has the same UUID",
        "gpu-0000-1c-00-0-mig-1g10gb-0": "identity: a part of 0000:1b:00.0 has the same UUID",
    }
    ids = [id_ for each in offered(found).values() for id_ in each.ids]
    assert ids == [uuid_of(8, "MIG"), uuid_of(9, "MIG")]


def test_part_of_a_lost_gpu_is_no_reason_against_a_living_one() -> None:
    """What is remembered gives way to what is reported."""

    parts = (part(7, "1g.10gb", 0, gi_id=9), part(8, "1g.10gb", 1, gi_id=10))
    memory = look([divided(0, *parts)], FUNCTIONS[:1]).memory

    found = look([divided(1, *parts)], FUNCTIONS[1:2], memory=memory)

    assert {name[:16] for name in offered(found)} == {"gpu-0000-1c-00-0"}
    assert "a part of 0000:1c:00.0 has the same UUID" in str(reasons(found))


def test_swapped_card_is_told_and_its_history_dropped() -> None:
    """Another UUID at the same place is another card."""

    memory = look([gpu(0)], [function(0)]).memory

    found = look([gpu(0, uuid=uuid_of(99))], [function(0)], memory=memory)

    assert found.swapped == (address_of(0),)
    assert "another card is there" in found.warnings[0]
    assert found.memory[0].gpu.uuid == uuid_of(99)


def test_card_that_was_swapped_while_the_node_was_off_is_told() -> None:
    """The memory of the last boot is kept for that, until NVML has said who is there."""

    memory = look([gpu(0), gpu(1)], FUNCTIONS[:2]).memory
    booted = facts(boot_id="another")
    down = look((), FUNCTIONS[:2], state="driver-absent", driver=None, memory=memory, nodes=booted)
    assert down.memory == memory
    assert offered(down) == {}
    cards = [gpu(0, uuid=uuid_of(99)), gpu(1)]
    found = look(cards, FUNCTIONS[:2], memory=down.memory, nodes=booted)

    assert found.swapped == (address_of(0),)
    assert {one.boot_id for one in found.memory} == {"another"}


def test_layouts_are_of_the_drivers_gpus() -> None:
    """With their parts by the ids of events; lost ones too, but none that nobody can have."""

    memory = look(EIGHT, FUNCTIONS).memory
    functions = (
        function(0),
        function(1, driver="vfio-pci"),
        function(2),
        function(3, driver="snd"),
        *FUNCTIONS[4:],
    )
    seen = [one for one in EIGHT if one.address not in {address_of(2), address_of(3)}]
    found = look(seen, functions, memory=memory, lent={address_of(4): ""})

    assert [one.address for one in found.layouts] == [address_of(n) for n in (0, 2, 5, 6, 7)]
    parted = found.layouts[-2]
    assert (parted.subject, parted.uuid) == (f"pci:{address_of(6)}", uuid_of(6))
    assert sorted(parted.parts) == [(2, 0), (7, 0), (9, 0)]
    identities = {one.identity for one in found.peripherals if one.type == "mig"}
    assert {*parted.parts.values()} < identities


def test_memory_outlives_a_restart() -> None:
    """It is written as JSON and read back equal."""

    memory = look(EIGHT, FUNCTIONS).memory

    written = json.loads(json.dumps(to_json(memory)))
    assert tuple(from_json(Remembered, each, where="memory") for each in written) == memory


def test_shares_are_counted_and_have_ids() -> None:
    """A slice says how many may have it and how much memory, the plugin gets an id for each."""

    group = GpuGroup(
        name="shared",
        match=GpuMatch(pci=(PciPattern(address_of(0)),)),
        door=WrittenDoor.BOTH,
        share=GpuShare(slots=4),
    )

    found = look([gpu(0), gpu(1)], FUNCTIONS[:2], table=GpuTable(groups=(group,)))

    one, other = found.peripherals
    assert (one.slots, one.resource, one.door) == (4, "nvidia.com/gpu.shared", Door.BOTH)
    assert one.ids == tuple(f"{uuid_of(0)}::{number}" for number in range(4))
    assert one.capacity["slots"].value == 4
    memory = one.capacity["memory"]
    assert memory.bounds is not None
    assert memory.value == 85520809984 // 2**20 * 2**20
    assert memory.default == memory.value // 4 // 2**20 * 2**20
    assert (memory.bounds.minimum, memory.bounds.step) == (2**20, 2**20)
    assert (other.slots, other.resource, other.ids, other.group) == (1, "", (), "")


def test_free_memory_consumes_nothing_unless_asked() -> None:
    """The default of a request is nothing then."""

    share = GpuShare(slots=2, memory=ShareMemory.FREE)
    group = GpuGroup(name="a", match=GpuMatch(type=(GpuType.GPU,)), share=share)

    (one,) = look([gpu(0)], FUNCTIONS[:1], table=GpuTable(groups=(group,))).peripherals

    assert one.capacity["memory"].default == 0


@pytest.mark.parametrize(
    ("match", "names"),
    [
        (GpuMatch(product=(Glob("NVIDIA H100*"),)), 14),
        (GpuMatch(product=(Glob("* MIG 1g.10gb"),)), 4),
        (GpuMatch(uuid=(uuid_of(6),)), 4),
        (GpuMatch(uuid=(uuid_of(61, "MIG"),)), 1),
        (GpuMatch(pci=(PciPattern("0000:22:*"),)), 5),
        (GpuMatch(numa=(0,)), 4),
        (GpuMatch(profile=("1g.10gb",)), 4),
        (GpuMatch(type=(GpuType.MIG,), numa=(1,)), 7),
        (GpuMatch(type=(GpuType.VFIO,)), 0),
    ],
)
def test_group_selects_by_all_its_conditions(match: GpuMatch, names: int) -> None:
    """Each condition is about the device or the GPU that it is a part of."""

    table = GpuTable(groups=(GpuGroup(name="x", match=match),))

    found = look(EIGHT, FUNCTIONS, table=table)

    expected = names + (1 if names == 14 else 0)
    assert sum(each.group == "x" for each in found.peripherals) == expected


def test_device_of_two_groups_is_offered_to_nobody() -> None:
    """Which of them was meant cannot be guessed."""

    groups = tuple(GpuGroup(name=name, match=GpuMatch(type=(GpuType.GPU,))) for name in ("a", "b"))

    found = look([gpu(0)], FUNCTIONS[:1], table=GpuTable(groups=groups))

    assert reasons(found) == {"gpu-0000-1b-00-0": 'overlap: groups "a", "b" all select it'}


def test_auto_door_is_what_it_came_to() -> None:
    """A part is listed under a resource of its profile."""

    table = GpuTable(door=WrittenDoor.AUTO)

    found = look(EIGHT, FUNCTIONS, table=table, auto=Door.PLUGIN)

    resources = {each.resource for each in offered(found).values()}
    assert {each.door for each in found.peripherals} == {Door.PLUGIN}
    assert "nvidia.com/mig-1g.10gb" in resources
    assert "nvidia.com/gpu" in resources


def test_hostile_texts_are_cut_and_told_once() -> None:
    """Text beyond 64 bytes, text that is none, and versions of no form do not pass."""

    name = "ж" * 40 + "\udcff"
    odd = [gpu(number, name=name, brand="\ud800x") for number in range(2)]

    found = look(odd, FUNCTIONS[:2], driver=None)

    attributes = found.peripherals[0].attributes
    assert attributes["productName"] == "ж" * 32
    assert attributes["brand"] == "x"
    assert attributes["driverVersion"] == Version("0.0.0")
    assert len(found.warnings) == 1


def test_function_for_machines_is_offered_with_its_group() -> None:
    """What is bound to vfio-pci is told by the bus and the files alone."""

    other = function(0, address="0000:1b:00.1", class_code=0x040300, driver="vfio-pci")
    bridge = function(0, address="0000:1a:00.0", class_code=0x060400, driver="pcieport")
    nodes = facts(
        nodes=dict([node("/dev/vfio/vfio", 10, 196), node("/dev/vfio/40", 236, 0)]),
        functions={address_of(0): FunctionFiles(bar_bytes=2**37, vfio="vfio0")},
    )

    (one,) = look((), [function(0, driver="vfio-pci"), other, bridge], nodes=nodes).peripherals

    assert (one.name, one.kind, one.unhealthy, one.exclusion) == (
        "vfio-0000-1b-00-0",
        "vfio",
        "",
        None,
    )
    assert one.keys == ("iommu:40", "pci:0000:1b:00.0", "pci:0000:1b:00.1")
    assert one.capacity["barMemory"].value == 2**37
    assert (one.attributes["iommuGroup"], one.attributes["iommufd"]) == (40, False)
    assert [each.path for each in one.edits.nodes] == ["/dev/vfio/vfio", "/dev/vfio/40"]


GROUPS = dict([node("/dev/vfio/vfio", 10, 196), node("/dev/vfio/40", 236, 0)])
IOMMUFD = dict([node("/dev/iommu", 10, 126), node("/dev/vfio/devices/vfio0", 240, 0)])


@pytest.mark.parametrize(
    ("door", "iommufd", "nodes", "lacking", "given"),
    [
        ("dra", False, IOMMUFD, (), []),
        ("plugin", False, {**GROUPS, **IOMMUFD}, (), ["/dev/vfio/vfio", "/dev/vfio/40"]),
        ("plugin", True, {**GROUPS, **IOMMUFD}, (), ["/dev/iommu", "/dev/vfio/devices/vfio0"]),
        ("plugin", False, IOMMUFD, ("/dev/vfio/vfio", "/dev/vfio/40"), []),
        ("both", False, IOMMUFD, ("/dev/vfio/vfio", "/dev/vfio/40"), []),
        ("both", True, IOMMUFD, (), ["/dev/iommu", "/dev/vfio/devices/vfio0"]),
        ("plugin", True, GROUPS, ("/dev/iommu", "/dev/vfio/devices/vfio0"), []),
    ],
)
def test_resource_is_given_by_the_nodes_that_its_group_says(
    door: str, iommufd: bool, nodes: Any, lacking: tuple[str, ...], given: list[str]
) -> None:
    """All of them or nothing; a claim says so itself, so either way will do for it."""

    group = GpuGroup(
        name="vm",
        match=GpuMatch(type=(GpuType.VFIO,)),
        door=WrittenDoor(door),
        vfio=GpuVfio(iommufd=iommufd),
    )
    around = facts(nodes=nodes, functions={address_of(0): FunctionFiles(vfio="vfio0")})
    functions = [function(0, driver="vfio-pci")]
    (one,) = look((), functions, nodes=around, table=GpuTable(groups=(group,))).peripherals

    assert (one.lacking, one.unhealthy) == (lacking, "nodes-missing" if lacking else "")
    assert [each.path for each in one.edits.nodes] == given


@pytest.mark.parametrize(
    ("changes", "driver", "reason"),
    [
        ({}, "snd_hda_intel", "iommu-group: 0000:1b:00.1 of the same group"),
        ({"iommu_group": None}, "vfio-pci", "iommu-group: it is in no IOMMU group"),
    ],
)
def test_function_that_is_not_isolated_is_not_offered(
    changes: dict[str, Any], driver: str, reason: str
) -> None:
    """What shares its group with a driver of the host stays here, and the member is named."""

    other = function(0, address="0000:1b:00.1", class_code=0x040300, driver=driver)

    found = look((), [function(0, driver="vfio-pci", **changes), other])

    assert reasons(found)["vfio-0000-1b-00-0"].startswith(reason)


def test_survey_tells_what_each_device_costs() -> None:
    """Of the devices that a group selects, and of no others."""

    cost = {"hugepages-2Mi": NodeCost(device_milli=64)}
    dear = GpuGroup(name="dear", match=GpuMatch(profile=("1g.10gb",)), node_cost=cost)
    found = look(EIGHT, FUNCTIONS, table=GpuTable(groups=(dear,)))

    assert found.costs == {
        each.identity: cost for each in found.peripherals if each.group == "dear"
    }
    assert len(found.costs) == 4
