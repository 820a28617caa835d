"""What the checks of a claim's configuration are told of a device."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest

from berth.config.nicgroup import NicGroup
from berth.host.netlink.address import IFA_F_NODAD, IFA_F_NOPREFIXROUTE, IFA_F_PERMANENT, Address
from berth.host.netlink.kinds import Ipvlan, Macvlan, Vlan, Vxlan
from berth.host.netlink.neighbor import Neighbor
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import (
    RT_SCOPE_LINK,
    RTNH_F_ONLINK,
    RTPROT_KERNEL,
    Hop,
    Route,
    mtu_metric,
)
from berth.host.nicnodes import NicNodes
from berth.model.device import NicKind, NicMode
from berth.model.edits import DeviceNode, NodeType
from berth.nic.config.devicefacts import Child, DeviceFacts, HomeSettings
from berth.nic.config.values import AddressConfig, NeighborConfig, RouteConfig, RouteScope
from berth.nic.facts import Home, device_facts, hardware_addrs, home_of
from berth.nic.survey import Found, survey
from berth.nic.vf import VfSeat
from tests.unit.nic.machine import Machine, group

PF = "0000:41:00.0"


@pytest.fixture(autouse=True)
def _nics(machine: Machine) -> None:
    """The NIC that is asked about, and another one."""
    machine.nic("ens1f0", PF, mtu=1500, min_mtu=68, max_mtu=9978)
    machine.nic("ens2f0", "0000:42:00.0")


def _found(machine: Machine, name: str = "ens1f0") -> Found:
    return next(f for f in survey(machine.topology(), []) if f.link and f.link.name == name)


def _facts(machine: Machine, name: str = "ens1f0", uplink: str = "", **facts: Any) -> DeviceFacts:
    of: NicGroup = group(**facts)
    return device_facts(_found(machine, name), of, machine.topology(), uplink=uplink)


def _home(machine: Machine) -> HomeSettings:
    return _facts(machine).home


def test_facts_of_an_idle_nic_are_its_own(machine: Machine) -> None:
    """Identity, kind, limits of its MTU, and nothing to inherit."""

    assert _facts(machine) == DeviceFacts(
        identity=f"pci:{PF}",
        type="nic",
        kind=NicKind.PCI,
        group="fast",
        link_type="ether",
        mtu=1500,
        min_mtu=68,
        max_mtu=9978,
    )


def test_facts_of_a_parent_say_that_it_is_shared_and_an_uplink(machine: Machine) -> None:
    """By these passthru is refused."""

    facts = _facts(machine, uplink="address 192.0.2.7 → ens1f0", mode=NicMode.SHARED)

    assert (facts.type, facts.uplink) == ("nic-shared", "address 192.0.2.7 → ens1f0")


def test_facts_of_a_vf_tell_its_pfs_mtu(machine: Machine) -> None:
    """The kernel does not compare the two, so the checks do."""

    machine.tree.function("0000:51:00.0", total_vfs=8)
    machine.nic("ens5f0", "0000:51:00.0", mtu=1400)
    machine.vf("ens5f0v0", "0000:51:10.0", pf="0000:51:00.0", number=0)

    assert _facts(machine, "ens5f0v0").pf_mtu == 1400
    assert _facts(machine).pf_mtu == 0


def test_home_of_a_vf_tells_where_it_hangs(machine: Machine) -> None:
    """Its PF's address, that one's link of now, and its number; other NICs hang nowhere."""

    machine.tree.function("0000:51:00.0", total_vfs=8)
    pf = machine.nic("ens5f0", "0000:51:00.0")
    machine.vf("ens5f0v0", "0000:51:10.0", pf="0000:51:00.0", number=3)
    home, other = home_of(_found(machine, "ens5f0v0")), home_of(_found(machine))

    assert home is not None
    assert home.seat == VfSeat(pf="0000:51:00.0", index=pf.index, number=3)
    assert other is not None
    assert other.seat is None
    machine.links.pop("ens5f0")
    away = home_of(_found(machine, "ens5f0v0"))
    assert away is not None
    assert away.seat is None


def test_facts_of_a_parent_tell_of_the_nodes_own_children(machine: Machine) -> None:
    """Their kind, and what another child must not have or must have too."""

    for name, kind, data in [
        ("mv0", "macvlan", Macvlan()),
        ("ipv0", "ipvlan", Ipvlan(mode="l3", isolation="vepa")),
        ("lan7", "vlan", Vlan(id=7, protocol="802.1ad")),
        ("tun0", "vxlan", Vxlan(id=7)),
    ]:
        machine.link(name, kind=kind, kind_data=data, parent="ens1f0")

    assert _facts(machine).children == (
        Child(kind="macvlan", holder="the node's mv0"),
        Child(kind="ipvlan", sort=("l3", "vepa"), holder="the node's ipv0"),
        Child(kind="vlan", sort=("7", "802.1ad"), holder="the node's lan7"),
    )
    assert _facts(machine, "ens2f0").children == ()


def test_facts_tell_of_rdma_devices_and_what_they_lack(machine: Machine) -> None:
    """A soft one is of a parent alone, since it vanishes when its link moves."""

    uverbs, cm = "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"
    machine.rdma_netns, machine.soft_rdma = "shared", {"ens1f0": ("rxe0",)}
    machine.nodes = NicNodes(rdma={"rxe0": (uverbs,)}, known={uverbs: node(uverbs)})
    shared = _facts(machine, mode=NicMode.SHARED)

    assert (shared.rdma, shared.rdma_netns, shared.rdma_lacking) == (("rxe0",), "shared", (cm,))
    assert shared.shares_rdma
    assert _facts(machine).rdma == ()
    assert not _facts(machine).shares_rdma
    assert _facts(machine, mode=NicMode.VFIO).rdma_lacking == ()
    machine.tree.rdma("mlx5_0", machine.tree.folder(PF))
    machine.rdma_netns = "exclusive"
    own = _facts(machine)
    assert (own.rdma, own.rdma_lacking, own.shares_rdma) == (("mlx5_0",), (), False)


def node(path: str) -> DeviceNode:
    """A node as the machine has it."""
    return DeviceNode(path=path, host_path=path, type=NodeType.CHAR, major=231, minor=192)


def test_addresses_that_somebody_set_can_be_inherited(machine: Machine) -> None:
    """With their flags; those with a lifetime or of the link itself cannot."""

    machine.address("ens1f0", "192.0.2.7/24")
    machine.address("ens1f0", "2001:db8::7/64", flags=IFA_F_PERMANENT | IFA_F_NODAD)
    machine.address("ens1f0", "2001:db8::8/64", flags=IFA_F_PERMANENT | IFA_F_NOPREFIXROUTE)
    machine.address("ens1f0", "2001:db8::9/64", flags=0)
    machine.address("ens1f0", "fe80::1/64")
    machine.address("ens2f0", "198.51.100.7/24")

    assert _home(machine).addresses == (
        AddressConfig(address=ip_interface("192.0.2.7/24")),
        AddressConfig(address=ip_interface("2001:db8::7/64")),
        AddressConfig(address=ip_interface("2001:db8::8/64"), no_dad=False, no_prefix_route=True),
    )


def test_peer_of_an_address_is_inherited(machine: Machine) -> None:
    """A point-to-point address is two."""

    machine.addresses.append(
        Address(
            index=machine.links["ens1f0"].index,
            ip=ip_interface("192.0.2.7/32"),
            peer=ip_address("192.0.2.8"),
            flags=IFA_F_PERMANENT,
        )
    )

    assert _home(machine).addresses == (
        AddressConfig(address=ip_interface("192.0.2.7/32"), peer=ip_address("192.0.2.8")),
    )


def test_routes_that_somebody_set_can_be_inherited(machine: Machine) -> None:
    """With gateway, source, table, metric, MTU and scope."""

    index = machine.links["ens1f0"].index
    gateway = Hop(index=index, gateway=ip_address("192.0.2.1"), flags=RTNH_F_ONLINK)
    machine.routes = [
        Route(
            destination=ip_network("203.0.113.0/24"),
            hops=(gateway,),
            preferred_source=ip_address("192.0.2.7"),
            table=100,
            priority=50,
            metrics=mtu_metric(1300),
        ),
        Route(
            destination=ip_network("198.51.100.0/24"),
            hops=(Hop(index=index),),
            scope=RT_SCOPE_LINK,
        ),
    ]

    assert _home(machine).routes == (
        RouteConfig(
            to=ip_network("203.0.113.0/24"),
            via=ip_address("192.0.2.1"),
            source=ip_address("192.0.2.7"),
            scope=RouteScope.GLOBAL,
            table=100,
            metric=50,
            mtu=1300,
            on_link=True,
        ),
        RouteConfig(to=ip_network("198.51.100.0/24"), scope=RouteScope.LINK, metric=0),
    )


def test_route_by_a_nexthop_object_is_inherited_with_its_way(machine: Machine) -> None:
    """The object stays at home; what it says does not."""

    index = machine.links["ens1f0"].index
    machine.next_hops.append(NextHop(id=5, index=index, gateway=ip_address("192.0.2.1")))
    machine.route("203.0.113.0/24", nexthop_id=5)
    (route,) = _home(machine).routes

    assert route.via == ip_address("192.0.2.1")


def test_other_routes_are_not_inherited(machine: Machine) -> None:
    """The kernel's own, those out of several links, those of others."""

    machine.route("192.0.2.0/24", "ens1f0", protocol=RTPROT_KERNEL)
    machine.route("203.0.113.0/24", "ens1f0", "ens2f0")
    machine.route("198.51.100.0/24", "ens2f0")

    assert _home(machine).routes == ()


def test_neighbors_that_somebody_set_can_be_inherited(machine: Machine) -> None:
    """With an address; a proxy entry has none."""

    index = machine.links["ens1f0"].index
    machine.neighbors = [
        Neighbor(index=index, ip=ip_address("192.0.2.1"), mac="02:00:5e:10:00:01"),
        Neighbor(index=index, ip=ip_address("192.0.2.2")),
        Neighbor(index=index + 1, ip=ip_address("192.0.2.3"), mac="02:00:5e:10:00:03"),
    ]

    assert _home(machine).neighbors == (
        NeighborConfig(address=ip_address("192.0.2.1"), hardware_addr="02:00:5e:10:00:01"),
    )


def test_home_tells_number_device_and_driver(machine: Machine) -> None:
    """By these the link is found again in any namespace."""

    found = _found(machine)

    assert found.link is not None
    assert home_of(found) == Home(index=found.link.index, parent_device=PF, driver="mlx5_core")


def test_home_of_virtio_tells_virtios_driver(machine: Machine) -> None:
    """The driver that a rebind would change."""

    machine.tree.function("0000:00:03.0", driver="virtio-pci")
    machine.on_device("ens3", machine.tree.virtio("virtio3", on="0000:00:03.0"), bus="virtio")
    home = home_of(_found(machine, "ens3"))

    assert home is not None
    assert (home.parent_device, home.driver) == ("virtio3", "virtio_net")


def test_home_of_a_virtual_link_has_no_driver(machine: Machine) -> None:
    """Its kind is no driver, and nothing carries it."""

    machine.link("v0", kind="veth")
    (found,) = (f for f in survey(machine.topology(), [group(name=("v0",))]) if not f.device)

    assert home_of(found) == Home(index=machine.links["v0"].index, parent_device="", driver="")


def test_function_without_a_link_is_nowhere_at_home(machine: Machine) -> None:
    """Its link may be in a pod."""

    machine.tree.function("0000:43:00.0")
    (found,) = (f for f in survey(machine.topology(), []) if f.link is None)

    assert home_of(found) is None


def test_hardware_addresses_name_devices_by_identity(machine: Machine) -> None:
    """And other links by their names."""

    machine.link("br0", kind="bridge", mac="02:00:5e:10:00:99")
    index = machine.links["ens1f0"].index
    used = hardware_addrs(machine.topology(), {index: f"pci:{PF}"})

    assert used[machine.links["ens1f0"].mac] == f"pci:{PF}"
    assert used["02:00:5e:10:00:99"] == "br0"
