"""Which NICs a machine has, what each of them is and is called, and which conditions it meets."""

from __future__ import annotations

import attrs
import pytest

from berth.config.match import LinkType, NicMatch, PciPattern, PfPattern
from berth.config.nicgroup import NicGroup
from berth.host.netlink.link import ARPHRD_INFINIBAND
from berth.model.device import NicKind, NicMode
from berth.nic.survey import Found, ambiguous_macs, groups_of, link_mac, survey
from tests.sysfs_tree import INFINIBAND
from tests.unit.nic.machine import BOOT, Machine, group

PF = "0000:41:00.0"


def _found(machine: Machine, *groups: NicGroup, known: tuple[str, ...] = ()) -> dict[str, Found]:
    """What is found, by the name of its link, else by its identity."""
    found = survey(machine.topology(), groups, known)
    return {one.link.name if one.link is not None else one.identity: one for one in found}


def _only(machine: Machine, *groups: NicGroup) -> Found:
    (found,) = survey(machine.topology(), groups)
    return found


# Kinds, identities, names


def test_function_with_a_link_is_a_pci_nic(machine: Machine) -> None:
    """Known by its place, whatever it is called."""

    machine.nic("ens1f0", PF)
    found = _only(machine)

    assert (found.kind, found.identity, found.name_in(None)) == (
        NicKind.PCI,
        "pci:0000:41:00.0",
        "nic-0000-41-00-0",
    )


def test_function_that_can_have_vfs_is_a_pf(machine: Machine) -> None:
    """Whether it has any now or not."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)

    assert _only(machine).kind is NicKind.PF


def test_vf_knows_its_pf_and_the_pfs_link(machine: Machine) -> None:
    """Its own place is its identity; the PF is what matchers and attributes speak of."""

    machine.tree.function(PF, total_vfs=8)
    pf = machine.nic("ens1f0", PF)
    machine.vf("ens1f0v0", "0000:41:10.2", pf=PF, number=1)
    found = _found(machine)["ens1f0v0"]

    assert (found.kind, found.identity) == (NicKind.VF, "pci:0000:41:10.2")
    assert found.name_in(group(pci=())) == "nic-0000-41-10-2"
    assert found.pf is not None
    assert (found.pf.address, found.pf_link) == (PF, pf)


def test_vf_whose_pf_has_no_link_here_is_still_a_vf(machine: Machine) -> None:
    """The PF's link may be in a pod."""

    machine.tree.function(PF, total_vfs=8)
    machine.vf("ens1f0v0", "0000:41:10.2", pf=PF, number=1)
    found = _found(machine)["ens1f0v0"]

    assert (found.kind, found.pf_link) == (NicKind.VF, None)


def test_virtio_nic_is_the_function_under_it(machine: Machine) -> None:
    """Its link hangs from virtio3, which is no address; its driver is virtio's."""

    machine.tree.function(PF, driver="virtio-pci")
    folder = machine.tree.virtio("virtio3", on=PF)
    machine.on_device("ens3", folder, bus="virtio")
    found = _only(machine)

    assert (found.kind, found.identity) == (NicKind.PCI, "pci:0000:41:00.0")
    assert found.driver == "virtio_net"


def test_usb_nic_is_known_by_where_it_is_plugged_in(machine: Machine) -> None:
    """By the ports, as udev does."""

    folder = machine.tree.usb("2.4")
    machine.on_device("enx001122334455", folder, bus="usb")
    found = _only(machine)

    assert (found.kind, found.identity) == (NicKind.USB, "usb:pci-0000:00:14.0-usb-0:2.4:1.0")
    assert found.name_in(None) == "nic-pci-0000-00-14-0-usb-0-2-4-1-0"


def test_virtual_link_is_known_by_boot_and_number(machine: Machine) -> None:
    """It is called what the configuration calls it, in its group."""

    link = machine.link("Uplink_0", kind="veth")
    found = _only(machine, group("lab", name=("Uplink_0",)))

    assert (found.kind, found.identity) == (NicKind.VIRTUAL, f"link:{BOOT}:{link.index}")
    assert found.name_in(group("lab", name=("x",))) == "nic-lab-uplink-0"


def test_virtual_link_that_nobody_names_is_nobody(machine: Machine) -> None:
    """A node has hundreds of them."""

    machine.link("cali0", kind="veth")

    assert survey(machine.topology(), [group(kind=(NicKind.VIRTUAL,))]) == ()


@pytest.mark.parametrize(
    ("match", "name"),
    [
        (NicMatch(name=("v0",)), "nic-lab-v0"),
        (NicMatch(altname=("slot-one",)), "nic-lab-slot-one"),
        (NicMatch(mac=("02:00:5e:10:00:01",)), "nic-lab-02-00-5e-10-00-01"),
    ],
)
def test_virtual_link_is_called_as_it_is_configured(
    machine: Machine, match: NicMatch, name: str
) -> None:
    """By name, altname or address; what else it is called does not matter."""

    machine.link("v0", kind="veth", altnames=("slot-one",), mac="02:00:5e:10:00:01")
    lab = NicGroup(name="lab", match=match)

    assert _only(machine, lab).name_in(lab) == name


def test_known_virtual_link_is_found_under_any_name(machine: Machine) -> None:
    """NW §1.4: a rename re-sorts nothing, so what was ours stays ours."""

    link = machine.link("renamed", kind="veth")
    identity = f"link:{BOOT}:{link.index}"
    (found,) = survey(machine.topology(), [group(name=("v0",))], {identity})

    assert (found.identity, found.called) == (identity, "")


def test_link_on_another_bus_is_named_like_a_virtual_one(machine: Machine) -> None:
    """A sub-function is not its PF, and the PF stays what it is."""

    machine.nic("ens1f0", PF)
    part = machine.tree.subfunction("mlx5_core.sf.4", on=PF)
    machine.on_device("ens1f0s4", part, bus="auxiliary")
    found = _found(machine, group(name=("ens1f0s4",)))

    assert found["ens1f0"].identity == "pci:0000:41:00.0"
    assert found["ens1f0s4"].kind is NicKind.VIRTUAL


def test_parent_of_shared_children_is_called_parent(machine: Machine) -> None:
    """NW §1.1; a virtual one keeps its own form."""

    machine.nic("ens1f0", PF)
    machine.link("v0", kind="veth")
    lan = group("lan", mode=NicMode.SHARED, name=("ens1f0", "v0"))
    found = _found(machine, lan)

    assert found["ens1f0"].name_in(lan) == "parent-0000-41-00-0"
    assert found["v0"].name_in(lan) == "nic-lan-v0"


def test_hca_without_a_link_is_rdma(machine: Machine) -> None:
    """Its class says InfiniBand, or nothing of networks at all."""

    machine.tree.function(PF, class_code=INFINIBAND, rdma=("mlx5_0",))
    machine.tree.function("0000:42:00.0", class_code=0x0C0600, rdma=("mthca0",))
    found = _found(machine)

    assert {one.kind for one in found.values()} == {NicKind.RDMA}
    assert found["pci:0000:41:00.0"].name_in(None) == "rdma-0000-41-00-0"
    assert found["pci:0000:41:00.0"].link_type is LinkType.INFINIBAND


def test_ethernet_nic_with_rdma_whose_link_is_away_is_no_hca(machine: Machine) -> None:
    """Its RDMA device stays at home when its link goes into a pod."""

    machine.tree.function(PF, rdma=("mlx5_0",))

    assert _only(machine).kind is NicKind.PCI


def test_domain_of_five_digits_keeps_them(machine: Machine) -> None:
    """Behind a VMD controller."""

    machine.nic("ens1f0", "10000:01:00.0")
    found = _only(machine)

    assert (found.identity, found.name_in(None)) == ("pci:10000:01:00.0", "nic-10000-01-00-0")


def test_long_name_is_cut_by_a_hash(machine: Machine) -> None:
    """A label has 63 bytes; two names that differ only behind them stay two."""

    long = group("g" * 40, altname=("a" * 100, "a" * 99 + "b"))
    machine.link("v0", kind="veth", altnames=("a" * 100,))
    machine.link("v1", kind="veth", altnames=("a" * 99 + "b",))
    names = {one.name_in(long) for one in _found(machine, long).values()}

    assert len(names) == 2
    assert {len(name) for name in names} == {63}


# Functions with several links


def test_ports_of_one_function_are_told_apart(machine: Machine) -> None:
    """By their port numbers."""

    machine.nic("ens6d0", PF, dev_port=0)
    machine.nic("ens6d1", PF, dev_port=1)
    found = _found(machine)

    assert found["ens6d0"].identity == "pci:0000:41:00.0/0"
    assert found["ens6d1"].identity == "pci:0000:41:00.0/1"
    assert found["ens6d1"].name_in(None) == "nic-0000-41-00-0-p1"


def test_only_link_of_a_function_needs_no_port_number(machine: Machine) -> None:
    """Some drivers number the ports of a card, one on each function."""

    machine.nic("ens6d1", PF, dev_port=1)

    assert _only(machine).identity == "pci:0000:41:00.0"


def test_port_keeps_its_identity_while_the_other_is_away(machine: Machine) -> None:
    """One of two is in a pod; the one that stays must not become another device."""

    machine.nic("ens6d0", PF, dev_port=0)
    (found,) = survey(machine.topology(), [], {"pci:0000:41:00.0/1"})

    assert found.identity == "pci:0000:41:00.0/0"


def test_function_whose_ports_are_all_away_is_not_a_third_device(machine: Machine) -> None:
    """Its two ports are held; the function itself is neither."""

    machine.tree.function(PF)

    assert survey(machine.topology(), [], {"pci:0000:41:00.0/0", "pci:0000:41:00.0/1"}) == ()


def test_ports_with_one_number_are_marked(machine: Machine) -> None:
    """Nothing tells them apart after they were away."""

    machine.nic("eth0", PF)
    machine.nic("eth1", PF)

    assert {one.alike for one in _found(machine).values()} == {True}


@pytest.mark.parametrize("port", ["pf0vf1", "pf1sf88", "c1pf0vf3", "p0pf1vf2", "pf0hpf", "c1pf0"])
def test_representor_is_not_its_pf(machine: Machine, port: str) -> None:
    """In switchdev mode the PF's function has a link for each port of its switch."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF, port_name="p0")
    machine.nic("ens1f0r", PF, port_name=port)
    found = _found(machine)

    assert (found["ens1f0"].identity, found["ens1f0"].stands_for) == ("pci:0000:41:00.0", "")
    assert (found["ens1f0r"].identity, found["ens1f0r"].stands_for) == (
        f"pci:0000:41:00.0/{port}",
        port,
    )
    assert not found["ens1f0"].alike


def test_link_of_a_pf_is_never_a_representor(machine: Machine) -> None:
    """A VF's PF is named by the link that carries the traffic, wherever it stands in the dump."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0r", PF, port_name="pf0vf0")
    machine.nic("ens1f0", PF, port_name="p0")
    machine.vf("ens1f0v0", "0000:41:10.2", pf=PF, number=0)
    found = _found(machine)["ens1f0v0"]

    assert found.pf_link is not None
    assert found.pf_link.name == "ens1f0"


# What netlink and sysfs say at different moments


def test_hardware_link_that_sysfs_does_not_show_is_no_virtual_link(machine: Machine) -> None:
    """A NIC that leaves while it is looked at must not be published under another identity."""

    machine.link("ens1f0", parent_device=PF, parent_bus="pci")
    found = _only(machine, group(name=("ens1f0",)))

    assert (found.kind, found.identity) == (NicKind.PCI, "pci:0000:41:00.0")


# Matchers


@pytest.fixture(name="vf")
def _vf(machine: Machine) -> Found:
    """A VF with a value for every condition."""
    machine.tree.function(PF, total_vfs=8, numa_node=1)
    machine.nic("ens1f0", PF, altnames=("enp65s0f0",))
    machine.tree.vf(
        "0000:41:10.2",
        pf=PF,
        number=1,
        vendor="15b3",
        device="101e",
        subsystem=("15b3", "0069"),
        driver="mlx5_core",
        numa_node=1,
        acpi_index=7,
        rdma=("mlx5_2",),
    )
    machine.nic("ens1v1", "0000:41:10.2", altnames=("slot-1",), port_name="p1")
    return _found(machine)["ens1v1"]


@pytest.mark.parametrize(
    ("condition", "good", "bad"),
    [
        ("pci", PciPattern("0000:41:10.2"), PciPattern("0000:41:10.3")),
        ("pci", PciPattern("0000:41:*"), PciPattern("0000:42:*")),
        ("pf", PfPattern("ens1f0"), PfPattern("ens2f0")),
        ("pf", PfPattern("enp65s0f0"), PfPattern("enp65s0f1")),
        ("pf", PfPattern(PF), PfPattern("0000:41:00.1")),
        ("pf", PfPattern("ens1f0", ((0, 1),)), PfPattern("ens1f0", ((2, 7),))),
        ("vendor", "15b3", "8086"),
        ("device", "101e", "1019"),
        ("subsystem", "0069", "15b3"),
        ("driver", "mlx5_core", "iavf"),
        ("kind", NicKind.VF, NicKind.PF),
        ("name", "ens1v1", "slot-1"),
        ("altname", "slot-1", "ens1v1"),
        ("mac", "02:5e:10:00:00:04", "02:5e:10:00:00:05"),
        ("port_name", "p1", "p0"),
        ("link_type", LinkType.ETHER, LinkType.INFINIBAND),
        ("numa", 1, 0),
        ("pcie_root", "pci0000:40", "pci0000:00"),
        ("acpi_index", 7, 1),
    ],
)
def test_condition_holds_for_what_it_names_alone(
    vf: Found, condition: str, good: object, bad: object
) -> None:
    """The items of one condition are alternatives."""

    wanted = group("good", **{condition: (bad, good)})
    other = group("bad", **{condition: (bad,)})

    assert groups_of(vf, [wanted, other]) == (wanted,)


@pytest.mark.parametrize("wanted", [True, False])
def test_rdma_is_a_condition_both_ways(machine: Machine, wanted: bool) -> None:
    """With, or without."""

    machine.tree.function(PF, rdma=("mlx5_0",) if wanted else ())
    machine.nic("ens1f0", PF)
    found = _only(machine)

    assert groups_of(found, [group(rdma=wanted)])
    assert not groups_of(found, [group(rdma=not wanted)])


def test_all_conditions_must_hold(vf: Found) -> None:
    """One that does not hold is enough."""

    assert groups_of(vf, [group(vendor=("15b3",), numa=(1,))])
    assert not groups_of(vf, [group(vendor=("15b3",), numa=(0,))])


def test_group_leaves_what_others_take(vf: Found) -> None:
    """Whatever meets the conditions of a group that it excepts, and nothing else."""

    first = group("first", driver=("mlx5_core",))
    second = group("second", vendor=("15b3",), excepts=("first",))
    third = group("third", numa=(1,), excepts=("first", "second"))
    other = group("other", driver=("iavf",))

    assert groups_of(vf, [first, second, third]) == (first,)
    assert groups_of(vf, [second, third]) == (second,)
    assert groups_of(vf, [other, attrs.evolve(second, excepts=("other",))])


def test_group_that_is_left_out_itself_still_has_its_conditions(vf: Found) -> None:
    """Of three that fit the first has the NIC, though the third leaves NICs to the second alone."""

    first = group("first", driver=("mlx5_core",))
    second = group("second", vendor=("15b3",), excepts=("first",))
    third = group("third", numa=(1,), excepts=("second",))

    assert groups_of(vf, [first, second, third]) == (first,)


def test_unknown_fact_meets_no_condition(machine: Machine) -> None:
    """No NUMA node is not node 0, no index is not index 0, and no PF is not any PF."""

    machine.nic("ens1f0", PF)
    found = _only(machine)
    groups = [
        group("numa", numa=(0,)),
        group("acpi", acpi_index=(0,)),
        group("pf", pf=(PfPattern("ens1f0"),)),
        group("port", port_name=("p0",)),
        group("alt", altname=("ens1f0",)),
    ]

    assert groups_of(found, groups) == ()


def test_driver_of_virtio_is_met_by_both_names(machine: Machine) -> None:
    """People know it as the bus's driver and as the NIC's."""

    machine.tree.function(PF, driver="virtio-pci")
    machine.on_device("ens3", machine.tree.virtio("virtio3", on=PF), bus="virtio")
    found = _only(machine)
    groups = [group("a", driver=("virtio_net",)), group("b", driver=("virtio-pci",))]

    assert groups_of(found, groups) == tuple(groups)


def test_link_type_is_that_of_the_link(machine: Machine) -> None:
    """An IPoIB link speaks InfiniBand."""

    machine.tree.function(PF, class_code=INFINIBAND)
    machine.nic("ib0", PF, hardware_type=ARPHRD_INFINIBAND)

    assert groups_of(_only(machine), [group(link_type=(LinkType.INFINIBAND,))])


def test_function_without_a_link_meets_conditions_of_the_bus(machine: Machine) -> None:
    """It is then told why it is not offered; conditions of a link do not hold for it."""

    machine.tree.function(PF)
    found = _only(machine)

    assert groups_of(found, [group(vendor=("15b3",))])
    assert not groups_of(found, [group(name=("ens1f0",))])


def test_mac_is_the_permanent_one(machine: Machine) -> None:
    """A bond gives its address to its ports; the burnt-in one stays theirs."""

    link = machine.nic("ens1f0", PF, perm_mac="02:00:5e:10:00:01", mac="02:00:5e:10:00:99")

    assert link_mac(link) == "02:00:5e:10:00:01"
    assert groups_of(_only(machine), [group(mac=("02:00:5e:10:00:01",))])
    assert not groups_of(_only(machine), [group(mac=("02:00:5e:10:00:99",))])


def test_addresses_that_two_links_have_are_ambiguous(machine: Machine) -> None:
    """Case 13; links without an address are not alike."""

    machine.nic("ens1f0", PF, mac="02:00:5e:10:00:01")
    machine.link("bond0", kind="bond", mac="02:00:5e:10:00:01")
    machine.nic("ens2f0", "0000:42:00.0", mac="02:00:5e:10:00:02")
    machine.link("tun0", kind="tun", mac="")
    machine.link("tun1", kind="tun", mac="")

    assert ambiguous_macs(machine.topology()) == {"02:00:5e:10:00:01"}


def test_every_function_is_found_once(machine: Machine) -> None:
    """With its link, or without."""

    machine.nic("ens1f0", PF)
    machine.tree.function("0000:42:00.0", driver="")
    identities = [found.identity for found in survey(machine.topology(), [])]

    assert identities == ["pci:0000:41:00.0", "pci:0000:42:00.0"]
