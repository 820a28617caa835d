"""The devices of a slice: order, capacities, buckets, text that fits, and those that are held."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.config.bandwidth import MEGABIT
from berth.config.nic import AliasSet, NicTable
from berth.config.nicgroup import NicGroup, NicShared
from berth.model.device import Capacity, CapacityRange, Device, NicMode
from berth.model.names import is_dns_label
from berth.model.nodecost import NodeCost
from berth.nic.attributes import Subject
from berth.nic.publication import TEXT_LIMIT, Held, Offer, Publication, publish
from berth.nic.survey import Found, survey
from tests.unit.nic.machine import Machine, group

PF = "0000:41:00.0"
GIGABIT = 10**9


def _offers(
    machine: Machine, groups: dict[str, NicGroup], *, slots: int | None = None, **facts: Any
) -> list[Offer]:
    """Offers of links, each in its group."""
    found = {f.link.name: f for f in survey(machine.topology(), [*groups.values()]) if f.link}
    return [_offer(found[name], of, slots, **facts) for name, of in groups.items()]


def _offer(found: Found, of: NicGroup, slots: int | None, **facts: Any) -> Offer:
    return Offer(
        name=found.name_in(of), slots=slots, subject=Subject(found=found, group=of, **facts)
    )


def _held(name: str, *, of: str = "fast", identity: str = f"pci:{PF}", **attributes: Any) -> Held:
    known = {"type": "nic", "group": of, "kind": "pci", "ifName": "ens1f0", **attributes}
    return Held(name=name, identity=identity, type="nic", group=of, attributes=known)


def _names(publication: Publication) -> list[str]:
    return [device.name for device in publication.devices]


def _one(publication: Publication) -> Device:
    (device,) = publication.devices
    return device


def test_nothing_to_publish_is_nothing() -> None:
    """Neither devices nor warnings."""

    assert publish([], [], NicTable()) == Publication(devices=())


def test_offer_becomes_a_device(machine: Machine) -> None:
    """With name, identity, type and group; attributes are tested beside them."""

    machine.nic("ens1f0", PF)
    fast = group()
    device = _one(publish(_offers(machine, {"ens1f0": fast}), [], NicTable(groups=(fast,))))

    assert (device.name, device.identity) == ("nic-0000-41-00-0", f"pci:{PF}")
    assert (device.type, device.group, device.shared) == ("nic", "fast", False)
    assert device.capacity == {}
    assert device.attributes["group"] == "fast"


# Order


def test_groups_follow_the_file_then_the_place_in_the_machine(machine: Machine) -> None:
    """First fit takes them in this order."""

    second, first = group("second"), group("first")
    machine.nic("a", "0000:41:00.1")
    machine.nic("b", "0000:41:00.0")
    machine.nic("c", "0000:01:00.0")
    table = NicTable(groups=(first, second))
    offers = _offers(machine, {"a": first, "c": second, "b": first})

    assert _names(publish(offers, [], table)) == [
        "nic-0000-41-00-0",
        "nic-0000-41-00-1",
        "nic-0000-01-00-0",
    ]


def test_parents_come_last(machine: Machine) -> None:
    """So dedicated NICs are taken before shared ones, wherever their group stands."""

    lan, fast = group("lan", mode=NicMode.SHARED), group("fast")
    machine.nic("a", "0000:01:00.0")
    machine.nic("b", "0000:41:00.0")
    offers = _offers(machine, {"a": lan, "b": fast})

    assert _names(publish(offers, [], NicTable(groups=(lan, fast)))) == [
        "nic-0000-41-00-0",
        "parent-0000-01-00-0",
    ]


def test_order_of_a_group_counts_before_all_else(machine: Machine) -> None:
    """Even parents may come first, and a group of the file's end too."""

    lan = group("lan", mode=NicMode.SHARED, order=-1)
    fast, late = group("fast"), group("late", order=1)
    machine.nic("a", "0000:01:00.0")
    machine.nic("b", "0000:02:00.0")
    machine.nic("c", "0000:03:00.0")
    offers = _offers(machine, {"a": late, "b": fast, "c": lan})

    assert _names(publish(offers, [], NicTable(groups=(late, fast, lan)))) == [
        "parent-0000-03-00-0",
        "nic-0000-02-00-0",
        "nic-0000-01-00-0",
    ]


def test_virtual_links_follow_their_names(machine: Machine) -> None:
    """Their numbers change with each way into a pod and back, which would rewrite the slice."""

    lab = group("lab", name=("v0", "v1", "v2"))
    for name, index in (("v2", 9), ("v0", 100), ("v1", 20)):
        machine.link(name, kind="veth", index=index)
    offers = _offers(machine, {"v2": lab, "v0": lab, "v1": lab})

    assert _names(publish(offers, [], NicTable(groups=(lab,)))) == [
        "nic-lab-v0",
        "nic-lab-v1",
        "nic-lab-v2",
    ]


def test_held_devices_keep_their_place(machine: Machine) -> None:
    """A device that goes into a pod does not move in its slice, which would rewrite it."""

    fast = group()
    for number in range(3):
        machine.nic(f"ens{number}", f"0000:4{number}:00.0")
    offers = _offers(machine, {f"ens{number}": fast for number in range(3)})
    table = NicTable(groups=(fast,))
    free = publish(offers, [], table)
    middle = _held("nic-0000-41-00-0")

    assert _names(publish([offers[0], offers[2]], [middle], table)) == _names(free)


def test_held_device_of_a_group_that_is_gone_comes_last(machine: Machine) -> None:
    """It is published all the same."""

    fast = group()
    machine.nic("ens2f0", "0000:42:00.0")
    offers = _offers(machine, {"ens2f0": fast})
    gone = _held("nic-0000-01-00-0", of="gone", identity="pci:0000:01:00.0")

    assert _names(publish(offers, [gone], NicTable(groups=(fast,)))) == [
        "nic-0000-42-00-0",
        "nic-0000-01-00-0",
    ]


# Buckets


def test_vfs_of_one_pf_share_a_bucket(machine: Machine) -> None:
    """What flaps together is written together; groups and PFs are kept apart."""

    machine.tree.function(PF, total_vfs=8)
    machine.tree.function("0000:42:00.0", total_vfs=8)
    for number in range(2):
        machine.vf(f"a{number}", f"0000:41:10.{number}", pf=PF, number=number)
    machine.vf("b0", "0000:42:10.0", pf="0000:42:00.0", number=0)
    fast = group()
    devices = publish(
        _offers(machine, {"a0": fast, "a1": fast, "b0": fast}), [], NicTable(groups=(fast,))
    ).devices

    assert [device.bucket for device in devices] == [
        "fast/0000:41:00.0",
        "fast/0000:41:00.0",
        "fast/0000:42:00.0",
    ]


def test_held_vf_stays_in_its_bucket() -> None:
    """By what it said of its PF; a NIC that is no VF has its own."""

    vf = _held("nic-0000-41-10-0", identity="pci:0000:41:10.0", pfPciBusID=PF)
    alone = _held("nic-0000-43-00-0", identity="pci:0000:43:00.0", pfPciBusID="")
    devices = publish([], [vf, alone], NicTable(groups=(group(),))).devices

    assert [device.bucket for device in devices] == [f"fast/{PF}", "fast/pci:0000:43:00.0"]


# Capacities


def _parent(machine: Machine, *, slots: int | None = None, **shared: Any) -> Device:
    machine.nic("ens1f0", PF)
    lan = group("lan", mode=NicMode.SHARED, shared=NicShared(**shared))
    offers = _offers(machine, {"ens1f0": lan}, slots=slots)
    return _one(publish(offers, [], NicTable(groups=(lan,))))


def test_parent_is_divided_into_slots(machine: Machine) -> None:
    """Each claim takes one."""

    device = _parent(machine, slots=None)

    assert (device.type, device.shared) == ("nic-shared", True)
    assert device.capacity == {"slots": Capacity(value=32, default=1, values=(1,))}


@pytest.mark.parametrize(
    ("bandwidth", "slots", "share"),
    [
        (25 * GIGABIT, 64, 390 * MEGABIT),
        (GIGABIT, 1, GIGABIT),
        (10 * MEGABIT, 3, 3 * MEGABIT),
        (64 * MEGABIT, 64, MEGABIT),
    ],
)
def test_bandwidth_is_divided_in_whole_megabits(
    machine: Machine, bandwidth: int, slots: int, share: int
) -> None:
    """The default share is a valid amount itself: at least the minimum, and a whole step."""

    machine.nic("ens1f0", PF)
    shared = NicShared(slots=slots, bandwidth=bandwidth)
    lan = group("lan", mode=NicMode.SHARED, shared=shared)
    device = _one(publish(_offers(machine, {"ens1f0": lan}), [], NicTable(groups=(lan,))))

    assert device.capacity["bandwidth"] == Capacity(
        value=bandwidth,
        default=share,
        bounds=CapacityRange(minimum=MEGABIT, step=MEGABIT),
    )
    assert device.capacity["slots"].value == slots
    assert share >= MEGABIT
    assert share % MEGABIT == 0


def test_parent_that_takes_no_new_claims_has_the_slots_it_gave(machine: Machine) -> None:
    """It stays for those who have it, and nobody else fits."""

    device = _parent(machine, slots=3)

    assert device.capacity["slots"] == Capacity(value=3, default=1, values=(1,))


# Text


@pytest.mark.parametrize(
    ("product", "told"),
    [
        ("x" * TEXT_LIMIT, "x" * TEXT_LIMIT),
        ("x" * 65, "x" * TEXT_LIMIT),
        ("x" * 63 + "é", "x" * 63),
        ("é" * 32, "é" * 32),
    ],
)
def test_long_description_is_cut_at_a_character(machine: Machine, product: str, told: str) -> None:
    """Case 10: a model name of 65 bytes, read from hardware."""

    machine.nic("ens1f0", PF)
    fast = group()
    publication = publish(
        _offers(machine, {"ens1f0": fast}, product=product), [], NicTable(groups=(fast,))
    )

    assert _one(publication).attributes["productName"] == told
    assert bool(publication.warnings) == (product != told)


@pytest.mark.parametrize("name", ["x" * 65, "ens\udcff"])
def test_name_that_does_not_fit_is_left_empty(machine: Machine, name: str) -> None:
    """A part of a name may be another's; bytes that are no text cannot be told at all."""

    machine.nic("ens1f0", PF, port_name=name)
    fast = group()
    publication = publish(_offers(machine, {"ens1f0": fast}), [], NicTable(groups=(fast,)))

    assert _one(publication).attributes["portName"] == ""
    assert publication.warnings == (
        f"portName of nic-0000-41-00-0 is left empty, {name!r}: text of 64 bytes fits",
    )


def test_text_of_many_devices_is_told_once(machine: Machine) -> None:
    """All VFs of a card have its model name."""

    fast = group()
    for number in range(3):
        machine.nic(f"ens{number}", f"0000:4{number}:00.0")
    offers = _offers(machine, {f"ens{number}": fast for number in range(3)}, product="x" * 65)
    (warning,) = publish(offers, [], NicTable(groups=(fast,))).warnings

    assert warning == (
        f"productName of nic-0000-40-00-0 and 2 more is cut, {'x' * 65!r}: text of 64 bytes fits"
    )


def test_keys_without_room_are_told_for_each_type(machine: Machine) -> None:
    """One warning with the list, whichever the devices."""

    fast = group(attributes={f"a{number}": 0 for number in range(2)})
    for number in range(2):
        machine.nic(f"ens{number}", f"0000:4{number}:00.0")
    offers = _offers(machine, {"ens0": fast, "ens1": fast})
    (warning,) = publish(offers, [], NicTable(groups=(fast,))).warnings

    assert warning == (
        'devices of type "nic" have no room for ptp: '
        "a device takes 32 attributes and capacities, and all of a type carry the same"
    )


# Many, and different


@pytest.mark.parametrize("count", [129, 300])
def test_many_devices_are_all_published(machine: Machine, count: int) -> None:
    """In the order of their places, each under a name of its own that is a label."""

    fast = group()
    addresses = [f"0000:41:{n // 8 % 32:02x}.{n % 8}" for n in range(128)]
    addresses += [f"0000:42:{n // 8 % 32:02x}.{n % 8}" for n in range(count - 128)]
    for address in addresses:
        machine.nic(f"ens{address}", address)
    offers = _offers(machine, {f"ens{address}": fast for address in reversed(addresses)})
    names = _names(publish(offers, [], NicTable(groups=(fast,))))

    assert names == [f"nic-{address.replace(':', '-').replace('.', '-')}" for address in addresses]
    assert all(is_dns_label(name) for name in names)


def test_devices_of_a_type_carry_the_same_own_keys(machine: Machine) -> None:
    """PF, VF, virtual and held ones, of groups with different attributes (R of NW §2.1)."""

    machine.tree.function(PF, total_vfs=8, numa_node=0)
    machine.nic("ens1f0", PF)
    machine.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    machine.link("v0", kind="veth")
    one = group("one", attributes={"rail": 3})
    two = group("two", name=("v0",), attributes={"rack": "b7"})
    three = group("three", attributes={"idle": True})
    table = NicTable(groups=(one, two, three), aliases=(AliasSet.MULTUS,))
    held = _held("nic-0000-51-00-0", of="one", identity="pci:0000:51:00.0", rail=7)
    offers = _offers(machine, {"ens1f0": one, "ens1f0v0": one, "v0": two})
    devices = publish(offers, [held], table).devices
    own = [{k for k in device.attributes if not k.startswith("resource.")} for device in devices]

    assert len(devices) == 4
    assert all(keys == own[0] for keys in own)
    assert {"rail", "rack", "idle", "k8s.cni.cncf.io/deviceID"} <= own[0]


def test_held_device_says_what_it_said() -> None:
    """As it was when the claim was prepared."""

    held = _held("nic-0000-41-00-0", mtu=9000, speedMbps=25000)
    device = _one(publish([], [held], NicTable(groups=(group(),))))

    assert (device.attributes["mtu"], device.attributes["speedMbps"]) == (9000, 25000)
    assert attrs.asdict(device, recurse=False) == {
        "name": "nic-0000-41-00-0",
        "identity": f"pci:{PF}",
        "type": "nic",
        "group": "fast",
        "attributes": device.attributes,
        "capacity": {},
        "shared": False,
        "taints": (),
        "bucket": f"fast/pci:{PF}",
        "consumes": (),
        "only_counted": False,
        "costs": {},
        "claimed": False,
        "lists": {},
        "binding": (),
        "failure": (),
        "only_awaited": False,
        "skips": (),
    }


def test_devices_of_a_group_cost_what_it_says(machine: Machine) -> None:
    """Held ones too: another pod may share their claim."""

    machine.nic("ens1f0", PF)
    cost = {"cpu": NodeCost(pod_milli=500)}
    dear, cheap = attrs.evolve(group("dear"), node_cost=cost), group("cheap")
    held = [_held("nic-a", of="dear", identity="pci:a"), _held("nic-b", of="cheap", identity="b")]
    table = NicTable(groups=(dear, cheap))
    found = publish(_offers(machine, {"ens1f0": dear}), held, table).devices

    assert {one.name: one.costs for one in found} == {
        "nic-0000-41-00-0": cost,
        "nic-a": cost,
        "nic-b": {},
    }
