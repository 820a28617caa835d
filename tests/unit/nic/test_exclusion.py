"""Why NICs are not offered: each reason of network.md §1.2, and what does not count."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from berth.config.doors import Door
from berth.config.match import NicMatch
from berth.config.nicgroup import NicGroup
from berth.host.netlink.address import IFA_F_PERMANENT
from berth.host.netlink.kinds import Vxlan
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import (
    RTPROT_BOOT,
    RTPROT_KERNEL,
    RTPROT_RA,
    RTPROT_REDIRECT,
    RTPROT_STATIC,
)
from berth.model.device import Exclusion, NicMode
from berth.nic.exclusion import Circumstances, exclude
from berth.nic.survey import Found, ambiguous_macs, groups_of, survey
from berth.nic.uplink import uplinks
from tests.sysfs_tree import BRIDGE, INFINIBAND
from tests.unit.nic.machine import Machine, group

PF = "0000:41:00.0"
ALL = group(pci=(), driver=("mlx5_core", "iavf", "veth", "bond", "bridge", "cdc_ncm"))
LAN = group("lan", mode=NicMode.SHARED, driver=("mlx5_core", "bond", "bridge", "veth"))


def _why(
    machine: Machine,
    name: str,
    groups: Sequence[NicGroup] = (ALL,),
    *,
    own: Sequence[str] = (),
    uplink_ok: Sequence[str] = (),
) -> Exclusion | None:
    """Why the NIC of a link, or of an identity, is not offered to the groups that select it."""
    topology = machine.topology()
    around = Circumstances(
        topology=topology,
        uplinks=uplinks(topology, own_addresses=own),
        uplink_ok=uplink_ok,
        ambiguous_macs=ambiguous_macs(topology),
    )
    found = _find(survey(topology, groups), name)
    return exclude(found, groups_of(found, groups), around)


def _find(found: Sequence[Found], name: str) -> Found:
    return next(f for f in found if name in (f.identity, f.link.name if f.link else ""))


def _reason(machine: Machine, name: str, groups: Sequence[NicGroup] = (ALL,)) -> str:
    exclusion = _why(machine, name, groups)
    return exclusion.reason if exclusion is not None else ""


@pytest.fixture(name="nic")
def _nic(machine: Machine) -> str:
    """A NIC against which nothing speaks."""
    machine.nic("ens1f0", PF)
    return "ens1f0"


@pytest.mark.parametrize("groups", [(ALL,), (LAN,)])
def test_idle_nic_is_offered(machine: Machine, nic: str, groups: Sequence[NicGroup]) -> None:
    """Link-local addresses and the kernel's own routes do not count as use."""

    machine.address(nic, "fe80::1/64")
    machine.address(nic, "169.254.3.4/16")
    for protocol in (RTPROT_KERNEL, RTPROT_RA, RTPROT_REDIRECT):
        machine.route("fe80::/64", nic, protocol=protocol)

    assert _why(machine, nic, groups) is None


def test_nic_of_no_group_is_not_selected(machine: Machine, nic: str) -> None:
    """The first question of all: the others are not asked."""

    machine.route("0.0.0.0/0", nic)

    assert _why(machine, nic, [group(vendor=("8086",))]) == Exclusion(
        reason="not-selected", detail="no group's conditions hold for it"
    )


def test_nic_of_two_groups_is_offered_by_none(machine: Machine, nic: str) -> None:
    """Both are named; only discovery can see that different conditions meet."""

    groups = [group("one", vendor=("15b3",)), group("two", name=(nic,))]

    assert _why(machine, nic, groups) == Exclusion(
        reason="overlap", detail='groups "one", "two" all select it'
    )


# Functions without a link


@pytest.mark.parametrize(
    ("driver", "reason", "detail"),
    [
        ("", "no-driver", "no driver is bound to it"),
        ("vfio-pci", "foreign-driver", "bound to vfio-pci"),
        ("mlx5_vfio_pci", "foreign-driver", "bound to mlx5_vfio_pci"),
        ("uio_pci_generic", "foreign-driver", "bound to uio_pci_generic"),
        ("igb_uio", "foreign-driver", "bound to igb_uio"),
        ("pci-stub", "foreign-driver", "bound to pci-stub"),
        (
            "mlx5_core",
            "link-elsewhere",
            "driver mlx5_core is bound, its link is in no namespace of ours",
        ),
    ],
)
def test_function_without_a_link_is_not_offered(
    machine: Machine, driver: str, reason: str, detail: str
) -> None:
    """Case 22 among them: whoever has the link, it is not for us to touch."""

    machine.tree.function(PF, driver=driver)

    assert _why(machine, f"pci:{PF}", [group(vendor=("15b3",))]) == Exclusion(
        reason=reason, detail=detail
    )


def test_hca_without_a_link_is_not_offered_yet(machine: Machine) -> None:
    """RDMA alone is a later stage."""

    machine.tree.function(PF, class_code=INFINIBAND, rdma=("mlx5_0",))

    assert _reason(machine, f"pci:{PF}", [group(vendor=("15b3",))]) == "unsupported"


# Sorts of link


@pytest.mark.parametrize("mode", [NicMode.EXCLUSIVE, NicMode.SHARED])
def test_loopback_is_not_offered(machine: Machine, mode: NicMode) -> None:
    """Even when somebody names it."""

    assert _reason(machine, "lo", [group(name=("lo",), mode=mode)]) == "loopback"


@pytest.mark.parametrize("groups", [(ALL,), (LAN,)])
def test_radio_is_not_offered(machine: Machine, groups: Sequence[NicGroup]) -> None:
    """It does not work like a NIC, neither moved nor shared."""

    machine.tree.function(PF)
    machine.link("wlp1", parent_device=PF, parent_bus="pci")
    machine.tree.link("wlp1", machine.links["wlp1"].index, wireless=True)

    assert _reason(machine, "wlp1", groups) == "wireless"


@pytest.mark.parametrize("groups", [(ALL,), (LAN,)])
def test_representor_is_not_offered(machine: Machine, groups: Sequence[NicGroup]) -> None:
    """It is the other end of a VF."""

    machine.nic("ens1f0", PF, port_name="p0")
    machine.nic("ens1f0r", PF, port_name="pf0vf1")

    assert str(_why(machine, "ens1f0r", groups)) == (
        "unsupported: port pf0vf1 of the NIC's own switch, not a NIC"
    )


@pytest.mark.parametrize(
    ("kind", "immovable", "reason"),
    [
        ("bridge", None, "netns-immovable"),
        ("bond", None, "netns-immovable"),
        ("veth", None, ""),
        ("veth", True, "netns-immovable"),
        ("bond", False, ""),
    ],
)
def test_link_that_the_kernel_moves_nowhere_is_not_offered(
    machine: Machine, kind: str, immovable: bool | None, reason: str
) -> None:
    """Kernels before 6.15 do not tell; then the kind does."""

    machine.link("v0", kind=kind, immovable=immovable)

    assert _reason(machine, "v0", [group(name=("v0",))]) == reason


def test_link_that_the_kernel_moves_nowhere_may_be_a_parent(machine: Machine) -> None:
    """A shared parent stays where it is: a bond may well be one."""

    machine.link("bond0", kind="bond", immovable=True)

    assert _reason(machine, "bond0", [group(name=("bond0",), mode=NicMode.SHARED)]) == ""


@pytest.mark.parametrize("mode", [NicMode.EXCLUSIVE, NicMode.SHARED])
def test_mac_that_two_links_have_selects_neither(machine: Machine, mode: NicMode) -> None:
    """Case 13: refused, not guessed; the links are named."""

    machine.nic("ens1f0", PF, mac="02:00:5e:10:00:01")
    machine.nic("ens2f0", "0000:42:00.0", mac="02:00:5e:10:00:01")
    groups = [group(mac=("02:00:5e:10:00:01",), mode=mode)]
    both = [_why(machine, name, groups) for name in ("ens1f0", "ens2f0")]

    assert (
        both
        == [
            Exclusion(
                reason="ambiguous", detail="ens1f0, ens2f0 have the address 02:00:5e:10:00:01"
            )
        ]
        * 2
    )


def test_mac_that_two_links_have_does_not_matter_otherwise(machine: Machine) -> None:
    """A NIC that is selected by its place is not guessed."""

    machine.nic("ens1f0", PF, mac="02:00:5e:10:00:01")
    machine.nic("ens2f0", "0000:42:00.0", mac="02:00:5e:10:00:01")

    assert _why(machine, "ens1f0") is None


def test_ports_that_cannot_be_told_apart_are_not_offered(machine: Machine) -> None:
    """After a pod had one of them, nobody could say which."""

    machine.nic("eth0", PF)
    machine.nic("eth1", PF)

    assert _reason(machine, "eth1") == "ambiguous"


# What the host does with it


def test_uplink_is_not_offered_and_the_path_is_told(machine: Machine, nic: str) -> None:
    """Root and path, as in NW §1.3."""

    machine.route("0.0.0.0/0", nic)

    assert _why(machine, nic) == Exclusion(
        reason="uplink", detail="default route (table main) → ens1f0"
    )


def test_uplink_by_an_own_address_is_not_offered(machine: Machine, nic: str) -> None:
    """Even with `take_configured`: that is about addresses that the node can do without."""

    machine.address(nic, "192.0.2.7/24")
    groups = [group(vendor=("15b3",), take_configured=True)]

    assert str(_why(machine, nic, groups, own=["192.0.2.7"])) == (
        "uplink: address 192.0.2.7 → ens1f0"
    )


def test_uplink_is_offered_by_an_override_for_that_very_device(machine: Machine, nic: str) -> None:
    """By identity; another device's does not help."""

    machine.route("0.0.0.0/0", nic, protocol=RTPROT_KERNEL)

    assert _why(machine, nic, uplink_ok=[f"pci:{PF}"]) is None
    assert _why(machine, nic, uplink_ok=["pci:0000:42:00.0"]) is not None


@pytest.mark.parametrize("kind", ["bond", "bridge", "team", "vrf", "openvswitch"])
@pytest.mark.parametrize("groups", [(ALL,), (LAN,)])
def test_slave_is_not_offered(
    machine: Machine, nic: str, kind: str, groups: Sequence[NicGroup]
) -> None:
    """Neither moved nor as a parent, whatever the master is; it is named."""

    master = machine.link("master0", kind=kind)
    machine.change(nic, master=master.index, port_kind=kind)

    assert _why(machine, nic, groups) == Exclusion(
        reason="enslaved", detail=f"belongs to master0 ({kind})"
    )


def test_slave_of_a_master_that_is_not_here_is_not_offered(machine: Machine, nic: str) -> None:
    """The master was not seen in this look; that it exists is enough."""

    machine.change(nic, master=77)

    assert _why(machine, nic) == Exclusion(reason="enslaved", detail="belongs to link 77")


@pytest.mark.parametrize(("count", "words"), [(1, "1 VF exists"), (3, "3 VFs exist")])
def test_pf_with_vfs_is_not_offered(machine: Machine, count: int, words: str) -> None:
    """The host could not manage them without it, and a driver's unbind would destroy them."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    for number in range(count):
        machine.vf(f"v{number}", f"0000:41:10.{number}", pf=PF, number=number)
    why = _why(machine, "ens1f0")

    assert why is not None
    assert (why.reason, why.detail.partition(",")[0]) == ("has-vfs", words)
    assert _why(machine, "v0") is None


@pytest.mark.parametrize("kind", ["macvlan", "macvtap", "ipvlan", "vlan", "macsec", "ipip"])
def test_parent_of_other_links_is_not_offered(machine: Machine, nic: str, kind: str) -> None:
    """They would stay behind without what carries them."""

    machine.link("b0", kind=kind, parent=nic)
    machine.link("a0", kind=kind, parent=nic)

    assert _why(machine, nic) == Exclusion(reason="has-children", detail="carries a0, b0")


def test_underlay_of_a_tunnel_is_a_parent(machine: Machine, nic: str) -> None:
    """VXLAN tells its link in its own way."""

    machine.link("vx0", kind="vxlan", kind_data=Vxlan(id=42, underlay=machine.links[nic].index))

    assert _reason(machine, nic) == "has-children"


def test_link_over_a_parent_of_the_same_number_elsewhere_is_no_child(
    machine: Machine, nic: str
) -> None:
    """Its parent is in another namespace."""

    machine.link("mv0", kind="macvlan", parent=machine.links[nic].index, parent_netnsid=0)

    assert _why(machine, nic) is None


def test_other_end_of_a_pair_is_no_child(machine: Machine) -> None:
    """A veth end is offered although its other end is at home too."""

    machine.link("v0", kind="veth")
    machine.link("v1", kind="veth", parent="v0")
    machine.change("v0", parent=machine.links["v1"].index)

    assert _why(machine, "v0", [group(name=("v0",))]) is None


@pytest.mark.parametrize("address", ["192.0.2.7/24", "2001:db8::7/64"])
def test_nic_with_an_address_is_in_use(machine: Machine, nic: str, address: str) -> None:
    """The address and the way out are told."""

    machine.address(nic, address)

    assert _why(machine, nic) == Exclusion(
        reason="in-use-by-host",
        detail=f"the host has {address} on it; take_configured = true offers it",
    )


def test_address_with_a_lifetime_counts(machine: Machine, nic: str) -> None:
    """DHCP and router advertisements configure NICs that are in use, too."""

    machine.address(nic, "2001:db8::7/64", flags=0)

    assert not IFA_F_PERMANENT & machine.addresses[0].flags
    assert _reason(machine, nic) == "in-use-by-host"


@pytest.mark.parametrize("protocol", [RTPROT_BOOT, RTPROT_STATIC, 16, 186])
def test_nic_with_a_route_that_somebody_set_is_in_use(
    machine: Machine, nic: str, protocol: int
) -> None:
    """By hand, by a manager, by DHCP or by a routing daemon."""

    machine.route("203.0.113.0/24", nic, protocol=protocol)

    assert _why(machine, nic) == Exclusion(
        reason="in-use-by-host",
        detail="the host's route to 203.0.113.0/24 leads out of it; "
        "take_configured = true offers it",
    )


def test_route_by_a_nexthop_object_is_use(machine: Machine, nic: str) -> None:
    """The route names a number only."""

    machine.next_hops.append(NextHop(id=5, index=machine.links[nic].index))
    machine.route("203.0.113.0/24", nexthop_id=5)

    assert _reason(machine, nic) == "in-use-by-host"


def test_one_of_several_ways_is_use(machine: Machine, nic: str) -> None:
    """A multipath route uses all of its links."""

    machine.nic("ens2f0", "0000:42:00.0")
    machine.route("203.0.113.0/24", "ens2f0", nic)

    assert _reason(machine, nic) == "in-use-by-host"


def test_configured_nic_is_taken_when_the_group_says_so(machine: Machine, nic: str) -> None:
    """It is restored when it comes home."""

    machine.address(nic, "192.0.2.7/24")
    machine.route("203.0.113.0/24", nic)

    assert _why(machine, nic, [group(vendor=("15b3",), take_configured=True)]) is None


def test_shared_parent_may_be_in_use(machine: Machine) -> None:
    """Nothing of it is moved: uplink, addresses, VFs and children go on."""

    machine.tree.function(PF, total_vfs=8)
    machine.nic("ens1f0", PF)
    machine.vf("ens1f0v0", "0000:41:10.0", pf=PF, number=0)
    machine.link("ens1f0.5", kind="vlan", parent="ens1f0")
    machine.address("ens1f0", "192.0.2.7/24")
    machine.route("0.0.0.0/0", "ens1f0")
    machine.route("203.0.113.0/24", "ens1f0")

    assert _why(machine, "ens1f0", [LAN]) is None


def test_case_13_none_of_the_nics_that_keep_the_node_alive_is_offered(machine: Machine) -> None:
    """One node with all of them at once; the config names each."""

    machine.nic("v4", "0000:01:00.0")
    machine.route("0.0.0.0/0", "v4")
    machine.nic("v6", "0000:02:00.0")
    machine.route("::/0", "v6", table=100)
    bond = machine.link("bond0", kind="bond")
    for number in (3, 4):
        machine.nic(f"slave{number}", f"0000:0{number}:00.0", mac=bond.mac)
        machine.change(f"slave{number}", master=bond.index, port_kind="bond")
    machine.link("bond0.5", kind="vlan", parent="bond0")
    machine.route("0.0.0.0/1", "bond0.5")
    machine.nic("parent", "0000:05:00.0")
    machine.link("mv0", kind="macvlan", parent="parent")
    machine.tree.function("0000:06:00.0", total_vfs=8)
    machine.nic("pf", "0000:06:00.0")
    machine.vf("vf0", "0000:06:10.0", pf="0000:06:00.0", number=0)
    machine.nic("api", "0000:07:00.0")
    machine.ways.append(("203.0.113.9", machine.route("203.0.113.0/24", "api")))
    names = ("v4", "v6", "slave3", "slave4", "parent", "pf", "api")

    reasons = {name: _reason(machine, name, [group(name=names)]) for name in names}

    assert reasons == {
        "v4": "uplink",
        "v6": "uplink",
        "slave3": "uplink",
        "slave4": "uplink",
        "parent": "has-children",
        "pf": "has-vfs",
        "api": "uplink",
    }


# Functions for machines

MACHINES = group(
    "vm", mode=NicMode.VFIO, pci=(), driver=("mlx5_core", "vfio-pci", "uio_pci_generic")
)


@pytest.fixture(name="function")
def _function(machine: Machine) -> str:
    """A NIC alone in its IOMMU group, with a bridge above it."""
    machine.tree.function("0000:40:01.0", class_code=BRIDGE, driver="pcieport", iommu_group=7)
    machine.tree.function(PF, iommu_group=7)
    machine.nic("ens1f0", PF)
    return "ens1f0"


def test_function_alone_in_its_group_is_offered_to_machines(
    machine: Machine, function: str
) -> None:
    """Bridges use no memory, and what the kernel moves nowhere can be bound all the same."""

    machine.change(function, immovable=True)

    assert _why(machine, function, [MACHINES]) is None


@pytest.mark.parametrize(
    ("driver", "reason"), [("vfio-pci", ""), ("uio_pci_generic", "foreign-driver")]
)
def test_function_without_a_link_is_offered_when_it_is_bound_already(
    machine: Machine, driver: str, reason: str
) -> None:
    """By vfio-pci; other drivers of the sort are none of ours."""

    machine.tree.function(PF, iommu_group=7, driver=driver)

    assert _reason(machine, f"pci:{PF}", [MACHINES]) == reason


def test_member_of_the_group_that_the_host_uses_is_named(machine: Machine, function: str) -> None:
    """Whatever its class."""

    machine.tree.function("0000:41:00.3", class_code=0x010802, driver="nvme", iommu_group=7)

    assert _why(machine, function, [MACHINES]) == Exclusion(
        reason="iommu-group", detail="0000:41:00.3 of the same group is bound to nvme"
    )


def test_nic_without_iommu_is_offered_to_machines_by_leave_alone(machine: Machine) -> None:
    """Nothing would keep its DMA from the node's memory."""

    machine.nic("ens1f0", PF)

    assert _reason(machine, "ens1f0", [MACHINES]) == "iommu-group"
    assert _why(machine, "ens1f0", [attrs.evolve(MACHINES, allow_noiommu=True)]) is None


def test_what_is_no_function_of_its_own_is_not_offered_to_machines(machine: Machine) -> None:
    """A function with two links is both of them, and a virtual link is none."""

    machine.tree.function(PF, iommu_group=7)
    machine.nic("ens1f0", PF, dev_port=0)
    machine.nic("ens1f1", PF, dev_port=1)
    machine.link("v0", kind="veth")
    named = group("vm", mode=NicMode.VFIO, name=("v0",))

    assert _reason(machine, "ens1f0", [MACHINES]) == "unsupported"
    assert _reason(machine, "v0", [named]) == "unsupported"


def test_rules_for_moved_nics_hold_for_machines_too(machine: Machine, function: str) -> None:
    """The node's own uplink is taken from it by either."""

    machine.route("0.0.0.0/0", function, via="192.0.2.1")

    assert _reason(machine, function, [MACHINES]) == "uplink"


BOUND = attrs.evolve(MACHINES, door=Door.PLUGIN)


def test_function_that_its_own_driver_has_goes_to_no_resource(
    machine: Machine, function: str
) -> None:
    """Nothing is bound for the device plugin; what keeps it from being bound is told first."""

    why = _why(machine, function, [BOUND])
    assert why is not None
    assert why.reason == "not-bound"
    assert f"driverctl set-override {PF} vfio-pci" in why.detail
    assert 'door = "dra"' in why.detail

    machine.route("0.0.0.0/0", function, via="192.0.2.1")
    assert _reason(machine, function, [BOUND]) == "uplink"


def test_function_that_no_driver_has_goes_to_no_resource_either(machine: Machine) -> None:
    """It is said what to do; for a claim it has no driver to come home to."""

    machine.tree.function(PF, iommu_group=7, driver="")
    by_model = attrs.evolve(BOUND, match=NicMatch(vendor=("15b3",)))

    why = _why(machine, f"pci:{PF}", [by_model])
    assert why is not None
    assert why.reason == "not-bound"
    assert "no driver has it" in why.detail
    by_claims = attrs.evolve(by_model, door=Door.DRA)
    assert _reason(machine, f"pci:{PF}", [by_claims]) == "no-driver"


def test_function_that_is_bound_goes_to_a_resource(machine: Machine) -> None:
    """Unless somebody else uses its group."""

    machine.tree.function(PF, iommu_group=7, driver="vfio-pci")
    assert _why(machine, f"pci:{PF}", [BOUND]) is None

    machine.tree.function("0000:41:00.1", iommu_group=7, driver="mlx5_core")
    assert _why(machine, f"pci:{PF}", [BOUND]) == Exclusion(
        reason="iommu-group", detail="0000:41:00.1 of the same group is bound to mlx5_core"
    )
