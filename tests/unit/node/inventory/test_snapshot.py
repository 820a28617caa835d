"""From looks, settings and holds to the inventory: what is offered, and why the rest is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.config.match import PciPattern, PfPattern
from berth.config.nic import AliasSet, NicTable
from berth.config.nicgroup import NicGroup, NicShared
from berth.model.device import CounterSet, Device, Exclusion, Nic, NicKind, NicMode, Taint
from berth.nic.facts import Home
from berth.node.inventory.sighting import Memory, Outlook, Pin
from berth.node.inventory.snapshot import Snapshot, judge
from berth.node.records.record import ClaimRecord
from tests.unit.nic.machine import BOOT, Machine, group
from tests.unit.node.holds import child, held, record, seen_only

PF = "0000:41:00.0"
NIC = f"pci:{PF}"
NAME = "nic-0000-41-00-0"
PARENT = "parent-0000-41-00-0"
FAST = group("fast", vendor=("15b3",))
LAN = group("lan", vendor=("15b3",), mode=NicMode.SHARED)
CLOSED = Exclusion(reason="not-connected", detail="no NRI")


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with nothing but its loopback."""
    return Machine(tmp_path / "machine")


def _judge(
    machine: Machine,
    *groups: NicGroup,
    records: Sequence[ClaimRecord] = (),
    memory: Memory | None = None,
    table: NicTable | None = None,
    **outlook: Any,
) -> Snapshot:
    table = attrs.evolve(table or NicTable(), groups=groups)
    return judge(
        machine.scan(), Outlook(table=table, records=records, **outlook), memory or Memory()
    )


def _nic(snapshot: Snapshot, identity: str = NIC) -> Nic:
    return snapshot.inventory.nic_by_identity[identity]


def _published(snapshot: Snapshot) -> dict[str, Device]:
    return {device.name: device for device in snapshot.inventory.devices}


def test_counter_sets_go_with_the_inventory(machine: Machine) -> None:
    """Parts of divided devices draw on them."""

    sets = (CounterSet(name="gpu-0-counters", counters={"memory": 1}),)

    assert _judge(machine, counter_sets=sets).inventory.counter_sets == sets


# Free devices


def test_empty_machine_has_an_empty_inventory(machine: Machine) -> None:
    """The loopback is no NIC."""

    snapshot = _judge(machine)

    assert snapshot.inventory.nics == ()
    assert snapshot.inventory.devices == ()
    assert snapshot.inventory.warnings == ()


def test_free_nic_is_listed_and_published(machine: Machine) -> None:
    """With all that `berth devices` shows of it, its facts and its home."""

    link = machine.nic("ens1f0", PF, mac="02:00:5e:10:00:01")
    snapshot = _judge(machine, FAST)

    assert snapshot.inventory.nics == (
        Nic(
            identity=NIC,
            name=NAME,
            kind=NicKind.PCI,
            group="fast",
            mode=NicMode.EXCLUSIVE,
            ifname="ens1f0",
            ifindex=link.index,
            pci=PF,
            driver="mlx5_core",
            mac="02:00:5e:10:00:01",
        ),
    )
    assert list(_published(snapshot)) == [NAME]
    assert snapshot.facts[NAME].identity == NIC
    assert snapshot.homes[NAME] == Home(index=link.index, parent_device=PF, driver="mlx5_core")
    assert snapshot.hardware_addrs["02:00:5e:10:00:01"] == NIC


def test_nic_of_no_group_is_listed_alone(machine: Machine) -> None:
    """Without a group nothing is offered, and everything is shown."""

    machine.nic("ens1f0", PF)
    snapshot = _judge(machine)

    assert snapshot.inventory.devices == ()
    assert _nic(snapshot).exclusion == Exclusion(
        reason="not-selected", detail="no group's conditions hold for it"
    )
    assert snapshot.facts == {}


def test_excluded_nic_is_listed_with_its_reason(machine: Machine) -> None:
    """Its facts are known all the same, since a claim may hold it already."""

    machine.nic("ens1f0", PF)
    machine.route("0.0.0.0/0", "ens1f0")
    snapshot = _judge(machine, FAST)

    assert snapshot.inventory.devices == ()
    assert str(_nic(snapshot).exclusion) == "uplink: default route (table main) → ens1f0"
    assert snapshot.facts[NAME].uplink == "default route (table main) → ens1f0"


def test_own_address_guards_its_nic(machine: Machine) -> None:
    """Addresses of API connections and of the Node come with each look."""

    machine.nic("ens1f0", PF)
    machine.address("ens1f0", "192.0.2.7/24")
    fast = attrs.evolve(FAST, take_configured=True)

    assert _nic(_judge(machine, fast)).exclusion is None
    own = _judge(machine, fast, own_addresses=("192.0.2.7",))
    assert str(_nic(own).exclusion) == "uplink: address 192.0.2.7 → ens1f0"


def test_link_that_is_elsewhere_is_not_offered(machine: Machine) -> None:
    """Case 22: the function is bound, and no namespace of ours has its link."""

    machine.tree.function(PF)
    snapshot = _judge(machine, FAST)

    assert snapshot.inventory.devices == ()
    assert str(_nic(snapshot).exclusion) == (
        "link-elsewhere: driver mlx5_core is bound, its link is in no namespace of ours"
    )
    assert NAME not in snapshot.homes


def test_disabled_table_offers_nothing_and_says_so(machine: Machine) -> None:
    """What is held stays; what is selected is shown with the key to turn."""

    machine.nic("ens1f0", PF)
    machine.link("v0", kind="veth")
    groups = (FAST, group("lab", name=("v0",)))
    holder = record("a", held("pci:0000:42:00.0", "nic-0000-42-00-0"))
    snapshot = _judge(machine, *groups, records=[holder], table=NicTable(enabled=False))
    reasons = {str(nic.exclusion) for nic in snapshot.inventory.nics if not nic.held_by}

    assert list(_published(snapshot)) == ["nic-0000-42-00-0"]
    assert len(snapshot.inventory.nics) == 3
    assert reasons == {"not-selected: [nic] enabled is false"}


def test_closed_door_keeps_free_nics_in(machine: Machine) -> None:
    """Case 16: while the runtime is not connected; a reason of their own is told first."""

    machine.nic("ens1f0", PF)
    machine.nic("ens2f0", "0000:42:00.0")
    machine.route("0.0.0.0/0", "ens2f0")
    snapshot = _judge(machine, FAST, closed=CLOSED)

    assert snapshot.inventory.devices == ()
    assert _nic(snapshot).exclusion == CLOSED
    other = _nic(snapshot, "pci:0000:42:00.0").exclusion
    assert other is not None
    assert other.reason == "uplink"


def test_refused_device_is_left_out_with_the_servers_words(machine: Machine) -> None:
    """The others are published; only the name counts."""

    machine.nic("ens1f0", PF)
    machine.nic("ens2f0", "0000:42:00.0")
    snapshot = _judge(machine, FAST, refused={NAME: "spec.devices[0]: too long"})

    assert list(_published(snapshot)) == ["nic-0000-42-00-0"]
    assert _nic(snapshot).exclusion == Exclusion(
        reason="unpublishable", detail="spec.devices[0]: too long"
    )


def test_product_of_a_model_is_told(machine: Machine) -> None:
    """Of PCI from udev's database, of USB by the device itself."""

    machine.nic("ens1f0", PF)
    machine.products["15b3:1019:15b3:0069"] = "ConnectX-5 Ex"
    folder = machine.tree.usb("2", product="Ethernet Dongle")
    machine.on_device("enx1", folder, bus="usb")
    devices = _published(_judge(machine, FAST, group("usb", kind=(NicKind.USB,))))

    assert devices[NAME].attributes["productName"] == "ConnectX-5 Ex"
    assert devices["nic-pci-0000-00-14-0-usb-0-2-1-0"].attributes["productName"] == (
        "Ethernet Dongle"
    )


# What is remembered


def test_speed_is_remembered_without_carrier(machine: Machine) -> None:
    """And the next look tells it again."""

    machine.nic("ens1f0", PF, carrier=True, speed=25000)
    first = _judge(machine, FAST)
    machine.change("ens1f0", carrier=False)
    second = _judge(machine, FAST, memory=first.memory)
    third = _judge(machine, FAST, memory=second.memory)

    speeds = [_published(s)[NAME].attributes["speedMbps"] for s in (first, second, third)]
    assert speeds == [25000, 25000, 25000]


def test_rename_re_sorts_no_device(machine: Machine) -> None:
    """NW §1.4: a name is looked up once per appearance and then stands for the device."""

    machine.nic("ens1f0", PF)
    machine.link("v0", kind="veth")
    groups = (group("fast", name=("ens1f0",)), group("lab", name=("v0",)))
    first = _judge(machine, *groups)
    machine.change("ens1f0", name="eth0")
    machine.change("v0", name="v9")
    second = _judge(machine, *groups, memory=first.memory)

    assert [d.name for d in first.inventory.devices] == [NAME, "nic-lab-v0"]
    assert [d.name for d in second.inventory.devices] == [NAME, "nic-lab-v0"]
    assert _published(second)["nic-lab-v0"].attributes["ifName"] == "v9"


def test_name_of_a_pf_is_pinned_to_its_vfs(machine: Machine) -> None:
    """The PF is renamed, as in switchdev mode; its VFs stay in their group."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    machine.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    vfs = group("vfs", pf=(PfPattern("ens1f0", ((0, 3),)),))
    first = _judge(machine, vfs)
    machine.change("ens1f0", name="ens1f0np0")
    second = _judge(machine, vfs, memory=first.memory)

    assert list(_published(second)) == list(_published(first)) == ["nic-0000-41-10-0"]


def test_name_that_another_link_takes_moves_no_device(machine: Machine) -> None:
    """Two renames overlap at boot: who was ens1f0 first stays in the group of ens1f0."""

    machine.nic("ens1f0", PF)
    machine.nic("eth1", "0000:42:00.0")
    fast = group("fast", name=("ens1f0",))
    first = _judge(machine, fast)
    machine.change("ens1f0", name="eth7")
    machine.change("eth1", name="ens1f0")
    second = _judge(machine, fast, memory=first.memory)
    pinned = {nic.identity for nic in second.inventory.nics if nic.group == "fast"}

    assert NIC in pinned


def test_device_that_goes_is_forgotten(machine: Machine) -> None:
    """The next one at its place is resolved anew."""

    machine.nic("ens1f0", PF)
    fast = group("fast", name=("ens1f0",))
    first = _judge(machine, fast)
    machine.tree.remove(PF)
    machine.links.pop("ens1f0")
    second = _judge(machine, fast, memory=first.memory)

    assert first.memory.pins == {NIC: Pin(group="fast", name=NAME, driver="mlx5_core")}
    assert second.memory == Memory()


def test_function_that_an_operator_binds_elsewhere_changes_its_group(machine: Machine) -> None:
    """Without a reload: one group takes it with its link, another for virtual machines."""

    machine.nic("ens1f0", PF)
    fast = group("fast", driver=("mlx5_core",))
    machines = group("machines", mode=NicMode.VFIO, driver=("vfio-pci",))
    first = _judge(machine, fast, machines)
    machine.links.pop("ens1f0")
    machine.tree.bind(machine.tree.folder(PF), "vfio-pci")
    second = _judge(machine, fast, machines, memory=first.memory)

    assert _nic(first).group == "fast"
    assert _nic(second).group == "machines"


def test_other_settings_re_sort_free_devices(machine: Machine) -> None:
    """After a reload nothing is pinned but what is held."""

    machine.nic("ens1f0", PF)
    first = _judge(machine, group("one", name=("ens1f0",)))
    fresh = attrs.evolve(first.memory, pins={})
    second = _judge(machine, group("two", name=("ens1f0",)), memory=fresh)

    assert _nic(second).group == "two"


# Held alone


def test_held_device_stays_published_as_it_was(machine: Machine) -> None:
    """Its link is in a pod: function there, link nowhere; nothing speaks against it."""

    machine.tree.function(PF)
    holder = record("a", held(NIC, NAME, mtu=9000))
    snapshot = _judge(machine, FAST, records=[holder])

    assert _published(snapshot)[NAME].attributes["mtu"] == 9000
    assert _nic(snapshot) == Nic(
        identity=NIC,
        name=NAME,
        kind=NicKind.PCI,
        group="fast",
        ifname="ens1f0",
        pci=PF,
        driver="mlx5_core",
        mac="02:00:5e:10:00:01",
        held_by=("team/a",),
    )


def test_held_virtual_link_stays_published_while_it_is_gone(machine: Machine) -> None:
    """The host does not show it at all."""

    identity = f"link:{BOOT}:9"
    holder = record("a", held(identity, "nic-lab-v0", group="lab", kind="virtual", driver="veth"))
    snapshot = _judge(machine, group("lab", name=("v0",)), records=[holder])
    nic = _nic(snapshot, identity)

    assert list(_published(snapshot)) == ["nic-lab-v0"]
    assert (nic.kind, nic.driver, nic.held_by) == (NicKind.VIRTUAL, "veth", ("team/a",))
    assert (nic.pci, nic.ifname, nic.exclusion) == ("", "ens1f0", None)
    assert snapshot.inventory.warnings == ()


def test_held_device_at_home_is_not_offered_twice(machine: Machine) -> None:
    """Prepared, and not yet in its pod: one device, with what it said then."""

    machine.nic("ens1f0", PF, mtu=9000)
    snapshot = _judge(machine, FAST, records=[record("a", held(NIC, NAME, mtu=1500))])

    assert [device.name for device in snapshot.inventory.devices] == [NAME]
    assert _published(snapshot)[NAME].attributes["mtu"] == 1500


def test_held_device_that_becomes_an_uplink_stays_and_says_so(machine: Machine) -> None:
    """Case 13: a default route that came between publication and Prepare is caught there."""

    machine.nic("ens1f0", PF)
    machine.route("0.0.0.0/0", "ens1f0")
    snapshot = _judge(machine, FAST, records=[record("a", held(NIC, NAME))])

    assert list(_published(snapshot)) == [NAME]
    assert str(_nic(snapshot).exclusion) == "uplink: default route (table main) → ens1f0"


def test_held_device_keeps_its_group_while_the_file_moves_it(machine: Machine) -> None:
    """NW §1.4, GH L13: until it is free."""

    machine.nic("ens1f0", PF)
    holder = record("a", held(NIC, NAME, group="fast"))
    table = (group("slow", vendor=("15b3",)), group("fast", vendor=("8086",)))
    snapshot = _judge(machine, *table, records=[holder])

    assert _nic(snapshot).group == "fast"
    assert _published(snapshot)[NAME].group == "fast"
    assert snapshot.facts[NAME].group == "fast"
    assert _nic(_judge(machine, *table)).group == "slow"


def test_held_device_keeps_name_and_group_that_are_gone(machine: Machine) -> None:
    """A virtual link is called by its group: other settings must not rename it under a claim."""

    link = machine.link("v0", kind="veth")
    identity = f"link:{BOOT}:{link.index}"
    holder = record("a", held(identity, "nic-lab-v0", group="lab", kind="virtual"))
    snapshot = _judge(machine, group("new", name=("v0",)), records=[holder])

    assert _nic(snapshot, identity).name == "nic-lab-v0"
    assert _nic(snapshot, identity).group == "lab"
    assert list(_published(snapshot)) == ["nic-lab-v0"]
    assert list(_published(_judge(machine, group("new", name=("v0",))))) == ["nic-new-v0"]


def test_held_device_has_the_keys_of_its_type(machine: Machine) -> None:
    """Settings of now add a key: the held one carries it, neutral."""

    machine.nic("ens2f0", "0000:42:00.0")
    holder = record("a", held(NIC, NAME))
    table = NicTable(aliases=(AliasSet.DRA_NET,))
    devices = _published(_judge(machine, FAST, records=[holder], table=table))
    keys = [{k for k in d.attributes if "/" not in k} for d in devices.values()]

    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_refused_device_leaves_the_slice_even_when_held(machine: Machine) -> None:
    """Else the server would refuse the whole slice again and again."""

    machine.tree.function(PF)
    holder = record("a", held(NIC, NAME))
    snapshot = _judge(machine, FAST, records=[holder], refused={NAME: "no"})

    assert snapshot.inventory.devices == ()
    assert _nic(snapshot).held_by == ("team/a",)


def test_closed_door_does_not_touch_held_devices(machine: Machine) -> None:
    """They are in use, whoever is connected."""

    machine.tree.function(PF)
    snapshot = _judge(machine, FAST, records=[record("a", held(NIC, NAME))], closed=CLOSED)

    assert list(_published(snapshot)) == [NAME]


@pytest.mark.parametrize("at_home", [True, False])
def test_device_of_an_undone_claim_is_not_free_yet(machine: Machine, at_home: bool) -> None:
    """It is on its way home, or being put back as it was; its name stays."""

    if at_home:
        machine.nic("ens1f0", PF)
    else:
        machine.tree.function(PF)
    snapshot = _judge(machine, FAST, records=[record("a", held(NIC, NAME), revoked=True)])

    assert snapshot.inventory.devices == ()
    assert _nic(snapshot).exclusion == Exclusion(reason="returning", detail="from team/a")


def test_device_that_was_not_restored_stays_and_keeps_everybody_away(machine: Machine) -> None:
    """Daemon.md §4: free but not as it was; the fault names the field."""

    machine.nic("ens1f0", PF)
    fault = "MTU 1500 was refused"
    undone = record("a", held(NIC, NAME, fault=fault), revoked=True)
    snapshot = _judge(machine, FAST, records=[undone], driver="berth.dev")

    (device,) = snapshot.inventory.devices
    assert (device.name, device.attributes["ifName"]) == (NAME, "ens1f0")
    assert device.taints == (
        Taint(key="berth.dev/fault", value="restore-failed", effect="NoSchedule"),
    )
    assert _nic(snapshot).exclusion == Exclusion(reason="restore-failed", detail=fault)


def test_virtual_link_of_an_undone_claim_is_listed_until_it_is_back(machine: Machine) -> None:
    """It is nowhere at home now."""

    identity = f"link:{BOOT}:9"
    undone = record("a", held(identity, "nic-lab-v0", group="lab", kind="virtual"), revoked=True)
    snapshot = _judge(machine, group("lab", name=("v0",)), records=[undone])
    nic = _nic(snapshot, identity)

    assert snapshot.inventory.devices == ()
    assert nic.exclusion is not None
    assert nic.exclusion.reason == "returning"


def test_virtual_link_that_came_home_under_another_name_is_offered(machine: Machine) -> None:
    """Its own name was taken: the name is no identity (NW §4.5)."""

    link = machine.link("berth9", kind="veth")
    identity = f"link:{BOOT}:{link.index}"
    lab = group("lab", name=("v0",))
    holder = record("a", held(identity, "nic-lab-v0", group="lab", kind="virtual"))
    while_held = _judge(machine, lab, records=[holder])
    free = _judge(machine, lab, memory=while_held.memory)

    assert list(_published(free)) == ["nic-lab-v0"]
    assert _nic(free, identity).ifname == "berth9"


def test_admin_access_holds_nothing(machine: Machine) -> None:
    """The device stays as it is for all others."""

    machine.nic("ens1f0", PF)
    snapshot = _judge(machine, FAST, records=[record("a", seen_only(NIC, NAME))])

    assert _nic(snapshot).held_by == ()
    assert list(_published(snapshot)) == [NAME]


def test_other_port_of_a_function_keeps_its_identity(machine: Machine) -> None:
    """One of two ports is in a pod; both are published, each under its own name."""

    machine.nic("ens6d0", PF, dev_port=0)
    holder = record("a", held(f"{NIC}/1", f"{NAME}-p1"))
    snapshot = _judge(machine, FAST, records=[holder])

    assert list(_published(snapshot)) == [f"{NAME}-p0", f"{NAME}-p1"]
    assert {nic.identity for nic in snapshot.inventory.nics} == {f"{NIC}/0", f"{NIC}/1"}
    assert _nic(snapshot, f"{NIC}/1").pci == PF


# Parents


def test_parent_is_published_with_all_its_slots_while_claims_have_some(machine: Machine) -> None:
    """The scheduler counts what is consumed."""

    machine.nic("ens1f0", PF)
    records = [record(name, child(NIC, PARENT)) for name in ("a", "b")]
    snapshot = _judge(machine, LAN, records=records)

    assert _published(snapshot)[PARENT].capacity["slots"].value == 32
    assert (_nic(snapshot).held_by, _nic(snapshot).exclusion) == (("team/a", "team/b"), None)
    assert _nic(snapshot).mode is NicMode.SHARED


@pytest.mark.parametrize("closed", [True, False])
def test_parent_that_takes_no_new_claims_stays_for_its_claims(
    machine: Machine, closed: bool
) -> None:
    """With as many slots as they have, so that no further claim is sent here."""

    machine.nic("ens1f0", PF, master=0 if closed else 77)
    records = [record(name, child(NIC, PARENT)) for name in ("a", "b")]
    snapshot = _judge(machine, LAN, records=records, closed=CLOSED if closed else None)

    assert _published(snapshot)[PARENT].capacity["slots"].value == 2
    assert _nic(snapshot).exclusion is not None


def test_parent_that_nobody_has_leaves_when_something_speaks_against_it(
    machine: Machine,
) -> None:
    """A claim that is undone holds no slot any more."""

    machine.nic("ens1f0", PF, master=77)
    records = [record("a", child(NIC, PARENT), revoked=True)]

    assert _judge(machine, LAN, records=records).inventory.devices == ()


@pytest.mark.parametrize(
    "groups",
    [
        (),
        (group("lan", vendor=("15b3",)),),
        (group("other", vendor=("15b3",)),),
        (group("other", vendor=("15b3",), mode=NicMode.SHARED),),
    ],
)
def test_parent_whose_group_is_gone_is_nobodys_until_it_is_free(
    machine: Machine, groups: tuple[NicGroup, ...]
) -> None:
    """GH L13: neither moved under its children nor given to new ones."""

    machine.nic("ens1f0", PF)
    snapshot = _judge(machine, *groups, records=[record("a", child(NIC, PARENT))])

    assert snapshot.inventory.devices == ()
    assert _nic(snapshot).exclusion == Exclusion(
        reason="held", detail='team/a had it of group "lan"'
    )
    assert (_nic(snapshot).name, _nic(snapshot).mode) == (PARENT, NicMode.SHARED)


def test_parent_whose_link_is_gone_is_listed(machine: Machine) -> None:
    """Its children died with it."""

    identity = f"link:{BOOT}:9"
    holder = record("a", child(identity, "nic-lan-v0"))
    snapshot = _judge(machine, group("lan", name=("v0",), mode=NicMode.SHARED), records=[holder])

    assert snapshot.inventory.devices == ()
    assert str(_nic(snapshot, identity).exclusion) == (
        "link-elsewhere: its link is in no namespace of ours"
    )


def test_parents_capacity_follows_its_group(machine: Machine) -> None:
    """Slots and bandwidth of the file, whatever was given out before."""

    machine.nic("ens1f0", PF)
    lan = attrs.evolve(LAN, shared=NicShared(slots=4, bandwidth=10**9))
    snapshot = _judge(machine, lan, records=[record("a", child(NIC, PARENT))])
    capacity = _published(snapshot)[PARENT].capacity

    assert (capacity["slots"].value, capacity["bandwidth"].value) == (4, 10**9)


# Names


def test_names_that_come_to_the_same_are_told_apart(machine: Machine) -> None:
    """A slice knows no underscore: two links would be one device, and the wrong one moved."""

    first = machine.link("v_0", kind="veth")
    second = machine.link("v-0", kind="veth")
    snapshot = _judge(machine, group("lab", name=("v_0", "v-0")))
    names = [nic.name for nic in snapshot.inventory.nics]

    assert list(_published(snapshot)) == ["nic-lab-v-0"]
    assert _published(snapshot)["nic-lab-v-0"].identity == f"link:{BOOT}:{first.index}"
    assert len(set(names)) == 2
    assert str(_nic(snapshot, f"link:{BOOT}:{second.index}").exclusion) == (
        f"unpublishable: its name nic-lab-v-0 is that of link:{BOOT}:{first.index}"
    )


def test_held_device_has_its_name_before_all_others(machine: Machine) -> None:
    """Whoever comes later in the machine, or earlier."""

    first = machine.link("v_0", kind="veth")
    second = machine.link("v-0", kind="veth")
    identity = f"link:{BOOT}:{second.index}"
    holder = record("a", held(identity, "nic-lab-v-0", group="lab", kind="virtual"))
    snapshot = _judge(machine, group("lab", name=("v_0", "v-0")), records=[holder])

    assert _published(snapshot)["nic-lab-v-0"].identity == identity
    free = _nic(snapshot, f"link:{BOOT}:{first.index}").exclusion
    assert free is not None
    assert free.reason == "unpublishable"


@pytest.mark.parametrize("name", ["ens\udcff", "ens\x1b[2J"])
def test_name_that_is_no_text_is_shown_escaped(machine: Machine, name: str) -> None:
    """No link's name can stop a listing, break its line or command a terminal."""

    machine.nic(name, PF)
    machine.nic("ens2f0", "0000:42:00.0")
    machine.link(f"{name}.5", kind="vlan", parent=name)
    machine.route("0.0.0.0/0", f"{name}.5")
    table = NicTable(uplink_ok=("pci:0000:42:00.0", NIC))
    shown = _judge(machine, FAST)
    overridden = _judge(machine, FAST, table=table)
    texts = [
        *(f"{nic.ifname} {nic.exclusion}" for nic in shown.inventory.nics),
        *overridden.inventory.warnings,
    ]

    assert shown.inventory.devices[0].name == "nic-0000-42-00-0"
    assert all(text.isprintable() for text in texts)
    assert "ens\\" in texts[0]


# What an operator should know


def test_group_that_selects_nothing_is_told_with_its_selector(machine: Machine) -> None:
    """Case 19."""

    machine.nic("ens1f0", PF)
    snapshot = _judge(machine, FAST, group("intel", vendor=("8086",), numa=(1,)))

    assert snapshot.inventory.warnings == (
        'group "intel" selects no NIC: nothing here meets { vendor = ["8086"], numa = [1] }',
    )


def test_group_whose_nics_are_all_left_to_others_is_told_with_those(machine: Machine) -> None:
    """It may be meant so, on this node."""

    machine.nic("ens1f0", PF)
    first = group("first", vendor=("15b3",))
    second = group("second", pci=(PciPattern("0000:41:*"),), excepts=("first",))
    snapshot = _judge(machine, first, second)

    assert snapshot.inventory.warnings == (
        (
            'group "second" selects no NIC: '
            'nothing here meets { pci = ["0000:41:*"] } and is not left to first'
        ),
    )


@pytest.mark.parametrize("reason", ["overlap", "away", "uplink"])
def test_group_that_selects_something_is_not_told(machine: Machine, reason: str) -> None:
    """Whatever then keeps it from being offered."""

    machine.nic("ens1f0", PF)
    groups = [FAST]
    records = []
    if reason == "overlap":
        groups.append(group("other", name=("ens1f0",)))
    if reason == "away":
        identity = f"link:{BOOT}:99"
        records.append(record("a", held(identity, "nic-lab-v0", group="lab", kind="virtual")))
        groups.append(group("lab", name=("v0",)))
    if reason == "uplink":
        machine.route("0.0.0.0/0", "ens1f0")

    assert _judge(machine, *groups, records=records).inventory.warnings == ()


def test_overrides_are_told_as_they_turn_out(machine: Machine) -> None:
    """NW §1.3: which are in force, and which name nothing."""

    machine.nic("ens1f0", PF)
    machine.nic("ens2f0", "0000:42:00.0")
    machine.route("0.0.0.0/0", "ens1f0")
    table = NicTable(uplink_ok=(NIC, "pci:0000:42:00.0", "pci:0000:99:00.0"))
    fast = attrs.evolve(FAST, take_configured=True)
    snapshot = _judge(machine, fast, table=table)

    assert list(_published(snapshot)) == [NAME, "nic-0000-42-00-0"]
    uplink = f"uplink_ok lets {NAME} be offered although it is an uplink: "
    assert snapshot.inventory.warnings == (
        f"{uplink}default route (table main) → ens1f0",
        "uplink_ok lets nic-0000-42-00-0 be offered also when it is an uplink",
        "uplink_ok names pci:0000:99:00.0, which is not seen here",
    )


def test_overlap_names_both_groups(machine: Machine) -> None:
    """Only a look at the machine sees it; the device belongs to neither."""

    machine.nic("ens1f0", PF)
    snapshot = _judge(machine, FAST, group("other", name=("ens1f0",)))

    assert snapshot.inventory.devices == ()
    assert str(_nic(snapshot).exclusion) == 'overlap: groups "fast", "other" all select it'
    assert _nic(snapshot).group == ""


def test_same_look_gives_the_same_inventory(machine: Machine) -> None:
    """So nobody is woken by a look that found nothing new."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF, carrier=True, speed=25000)
    machine.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    records = [record("a", held("pci:0000:41:10.0", "nic-0000-41-10-0", kind="vf"))]
    first = _judge(machine, FAST, records=records)
    second = _judge(machine, FAST, records=records, memory=first.memory)

    assert first.inventory == second.inventory
    assert first.memory == second.memory
