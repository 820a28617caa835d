"""The uplink guard: every row of case 13, by root and by path."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import attrs
import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from berth.host.netlink.kinds import Bond, Tunnel, Vlan, Vxlan
from berth.host.netlink.link import Link, parse_link
from berth.host.netlink.message import parse_messages
from berth.host.netlink.nexthop import NextHop
from berth.host.netlink.route import RTN_BLACKHOLE
from berth.nic.uplink import uplinks
from tests.unit.nic.machine import Machine

UP = "0000:41:00.0"
FREE = "0000:42:00.0"


@pytest.fixture(autouse=True)
def _nics(machine: Machine) -> None:
    """One NIC that is the uplink in some way, and one that never is."""
    machine.nic("ens1f0", UP)
    machine.nic("ens2f0", FREE)


def _guarded(machine: Machine, *own: str) -> set[str]:
    return machine.names(uplinks(machine.topology(), own_addresses=own))


def _path(machine: Machine, name: str, *own: str) -> str:
    return uplinks(machine.topology(), own_addresses=own)[machine.links[name].index]


def test_node_without_default_route_has_no_uplink(machine: Machine) -> None:
    """Routes to single networks keep no node alive."""

    machine.route("192.0.2.0/24", "ens1f0")

    assert _guarded(machine) == set()


@pytest.mark.parametrize(
    "to", ["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "::/0", "::/1", "8000::/1"]
)
@pytest.mark.parametrize("table", [254, 100])
def test_default_route_makes_its_link_an_uplink(machine: Machine, to: str, table: int) -> None:
    """Of either family, in any table, and as two halves."""

    machine.route(to, "ens1f0", table=table)

    assert _guarded(machine) == {"ens1f0"}


def test_path_names_table_and_links(machine: Machine) -> None:
    """NW §1.3 gives the form."""

    machine.link("bond0", kind="bond", kind_data=Bond(mode="802.3ad"))
    machine.change("ens1f0", master=machine.links["bond0"].index, port_kind="bond")
    machine.route("0.0.0.0/0", "bond0")

    assert _path(machine, "ens1f0") == "default route (table main) → bond0 → ens1f0"


def test_path_names_another_table_by_number(machine: Machine) -> None:
    """Only main has a word."""

    machine.route("::/0", "ens1f0", table=100)

    assert _path(machine, "ens1f0") == "default route (table 100) → ens1f0"


def test_each_way_of_a_multipath_route_is_an_uplink(machine: Machine) -> None:
    """Traffic may take any of them."""

    machine.nic("ens3f0", "0000:43:00.0")
    machine.route("0.0.0.0/0", "ens1f0", "ens3f0")

    assert _guarded(machine) == {"ens1f0", "ens3f0"}


def test_unreachable_default_route_leads_nowhere(machine: Machine) -> None:
    """A blackhole has no link to guard."""

    machine.route("0.0.0.0/0", "ens1f0", type=RTN_BLACKHOLE)

    assert _guarded(machine) == set()


def test_nexthop_object_is_seen_through(machine: Machine) -> None:
    """The route itself tells only the object's number."""

    machine.next_hops.append(NextHop(id=5, index=machine.links["ens1f0"].index))
    machine.route("0.0.0.0/0", nexthop_id=5)

    assert _guarded(machine) == {"ens1f0"}


def test_group_of_nexthop_objects_is_seen_through(machine: Machine) -> None:
    """Every member counts; a number that leads nowhere does not."""

    machine.nic("ens3f0", "0000:43:00.0")
    machine.next_hops += [
        NextHop(id=5, index=machine.links["ens1f0"].index),
        NextHop(id=6, index=machine.links["ens3f0"].index),
        NextHop(id=7, members=(5, 6, 99)),
    ]
    machine.route("::/0", nexthop_id=7)

    assert _guarded(machine) == {"ens1f0", "ens3f0"}


def test_table_of_nexthop_groups_that_lies_ends(machine: Machine) -> None:
    """A group that is its own member is nobody's way out."""

    machine.next_hops.append(NextHop(id=7, members=(7,)))
    machine.route("::/0", nexthop_id=7)

    assert _guarded(machine) == set()


@pytest.mark.parametrize("own", ["192.0.2.7", "::ffff:192.0.2.7"])
def test_address_of_a_connection_makes_its_link_an_uplink(machine: Machine, own: str) -> None:
    """A socket of both families tells an IPv4 address in IPv6's form."""

    machine.address("ens1f0", "192.0.2.7/24")

    assert _guarded(machine, own) == {"ens1f0"}
    assert _path(machine, "ens1f0", own) == "address 192.0.2.7 → ens1f0"


@pytest.mark.parametrize("own", ["2001:DB8:0:0::7", "2001:db8::7"])
def test_internal_ip_is_compared_as_an_address(machine: Machine, own: str) -> None:
    """A Node object's text need not be the canonical one."""

    machine.address("ens1f0", "2001:db8::7/64")

    assert _guarded(machine, own) == {"ens1f0"}


def test_own_address_that_is_none_guards_nothing(machine: Machine) -> None:
    """A Node may have a name where an address belongs."""

    machine.address("ens1f0", "192.0.2.7/24")

    assert _guarded(machine, "worker-7.lab") == set()


def test_way_to_the_api_server_is_guarded(machine: Machine) -> None:
    """Case 13: through a static route, with no default route and another address."""

    route = machine.route("203.0.113.0/24", "ens1f0", via="192.0.2.1")
    machine.ways.append(("203.0.113.9", route))

    assert _path(machine, "ens1f0") == "way to the API server at 203.0.113.9 → ens1f0"


def test_all_ports_of_a_bond_are_guarded(machine: Machine) -> None:
    """Whichever is active now."""

    machine.nic("ens3f0", "0000:43:00.0")
    bond = machine.link("bond0", kind="bond", kind_data=Bond(mode="active-backup"))
    for name in ("ens1f0", "ens3f0"):
        machine.change(name, master=bond.index, port_kind="bond", mac=bond.mac)
    machine.route("0.0.0.0/0", "bond0")

    assert _guarded(machine) == {"bond0", "ens1f0", "ens3f0"}


def test_all_ports_of_a_bridge_are_guarded(machine: Machine) -> None:
    """The address sits on the bridge, the cable in its port."""

    bridge = machine.link("br0", kind="bridge")
    machine.change("ens1f0", master=bridge.index, port_kind="bridge")
    machine.address("br0", "192.0.2.7/24")

    assert _guarded(machine, "192.0.2.7") == {"br0", "ens1f0"}


def test_link_under_a_vlan_is_guarded(machine: Machine) -> None:
    """And a VLAN over a bond guards the bond's ports."""

    bond = machine.link("bond0", kind="bond")
    machine.change("ens1f0", master=bond.index, port_kind="bond")
    machine.link("bond0.5", kind="vlan", kind_data=Vlan(id=5), parent="bond0")
    machine.route("0.0.0.0/0", "bond0.5")

    assert _path(machine, "ens1f0") == "default route (table main) → bond0.5 → bond0 → ens1f0"


def _dumped(number: int, name: str, *attributes: list[Any]) -> Link:
    """A link as a kernel with that kind of link would tell it, written by pyroute2."""
    message = ifinfmsg()
    message["header"]["type"] = 16
    message["index"] = number
    message["attrs"] = [["IFLA_IFNAME", name], *attributes]
    message.encode()
    return parse_link(parse_messages(bytes(message.data))[0])


def test_bond_and_vlan_are_seen_in_a_dump(machine: Machine) -> None:
    """The test kernel has neither; another implementation writes what one that has them says."""

    bond = _dumped(
        20,
        "bond0",
        [
            "IFLA_LINKINFO",
            {
                "attrs": [
                    ["IFLA_INFO_KIND", "bond"],
                    ["IFLA_INFO_DATA", {"attrs": [["IFLA_BOND_MODE", 1]]}],
                ]
            },
        ],
    )
    slave = _dumped(
        machine.links["ens1f0"].index,
        "ens1f0",
        ["IFLA_MASTER", 20],
        ["IFLA_PARENT_DEV_NAME", UP],
        ["IFLA_PARENT_DEV_BUS_NAME", "pci"],
        ["IFLA_LINKINFO", {"attrs": [["IFLA_INFO_SLAVE_KIND", "bond"]]}],
    )
    vlan = _dumped(
        21,
        "bond0.5",
        ["IFLA_LINK", 20],
        [
            "IFLA_LINKINFO",
            {
                "attrs": [
                    ["IFLA_INFO_KIND", "vlan"],
                    ["IFLA_INFO_DATA", {"attrs": [["IFLA_VLAN_ID", 5]]}],
                ]
            },
        ],
    )
    machine.links |= {link.name: link for link in (bond, slave, vlan)}
    machine.route("0.0.0.0/0", "bond0.5")

    assert (slave.master, slave.port_kind, vlan.kind_data) == (20, "bond", Vlan(id=5))
    assert _guarded(machine) == {"bond0.5", "bond0", "ens1f0"}


def test_parent_of_a_macvlan_is_guarded(machine: Machine) -> None:
    """The host's own address may be on a macvlan."""

    machine.link("mv0", kind="macvlan", parent="ens1f0")
    machine.route("0.0.0.0/0", "mv0")

    assert _guarded(machine) == {"mv0", "ens1f0"}


def test_parent_in_another_namespace_is_nobody_here(machine: Machine) -> None:
    """Its number counts there, and may be another link's here."""

    index = machine.links["ens1f0"].index
    machine.link("mv0", kind="macvlan", parent=index, parent_netnsid=0)
    machine.route("0.0.0.0/0", "mv0")

    assert _guarded(machine) == {"mv0"}


def test_both_ends_of_a_pair_are_guarded(machine: Machine) -> None:
    """What the other end is joined to is not told."""

    machine.link("v0", kind="veth")
    machine.link("v1", kind="veth", parent="v0")
    machine.change("v0", parent=machine.links["v1"].index)
    machine.route("0.0.0.0/0", "v0")

    assert _guarded(machine) == {"v0", "v1"}


def test_pf_goes_with_its_vf_and_other_vfs_stay_free(machine: Machine) -> None:
    """A VF of the uplink's PF does the node no harm, and the uplink VF needs its PF."""

    machine.tree.function("0000:51:00.0", total_vfs=8)
    machine.nic("ens5f0", "0000:51:00.0")
    machine.vf("ens5f0v0", "0000:51:10.0", pf="0000:51:00.0", number=0)
    machine.vf("ens5f0v1", "0000:51:10.2", pf="0000:51:00.0", number=1)
    machine.route("0.0.0.0/0", "ens5f0v0")

    assert _guarded(machine) == {"ens5f0v0", "ens5f0"}
    assert _path(machine, "ens5f0") == "default route (table main) → ens5f0v0 → ens5f0"


def test_vfs_of_an_uplink_pf_stay_free(machine: Machine) -> None:
    """That is what virtual functions are for."""

    machine.tree.function("0000:51:00.0", total_vfs=8)
    machine.nic("ens5f0", "0000:51:00.0")
    machine.vf("ens5f0v0", "0000:51:10.0", pf="0000:51:00.0", number=0)
    machine.route("0.0.0.0/0", "ens5f0")

    assert _guarded(machine) == {"ens5f0"}


def test_all_links_of_one_function_are_guarded(machine: Machine) -> None:
    """Two ports of one function go together, and so does what hangs from it."""

    machine.nic("ens6d0", "0000:61:00.0", dev_port=0)
    machine.nic("ens6d1", "0000:61:00.0", dev_port=1)
    part = machine.tree.subfunction("mlx5_core.sf.4", on="0000:61:00.0")
    machine.on_device("ens6s4", part, bus="auxiliary")
    machine.route("0.0.0.0/0", "ens6s4")

    assert _guarded(machine) == {"ens6s4", "ens6d0", "ens6d1"}


@pytest.mark.parametrize(
    "data",
    [
        Vxlan(id=42, underlay=0, remote=ip_address("198.51.100.9")),
        Tunnel(remote=ip_address("198.51.100.9")),
    ],
)
def test_underlay_of_a_tunnel_is_found_by_the_route_to_its_end(
    machine: Machine, data: Vxlan | Tunnel
) -> None:
    """The most specific one."""

    machine.route("198.51.0.0/16", "ens2f0")
    machine.route("198.51.100.0/24", "ens1f0")
    machine.route("2001:db8::/32", "ens2f0")
    machine.link("tun0", kind="vxlan", kind_data=data)
    machine.route("0.0.0.0/1", "tun0")

    assert _guarded(machine) == {"tun0", "ens1f0"}


@pytest.mark.parametrize("data", [Vxlan(id=42), Tunnel()])
def test_underlay_of_a_tunnel_is_the_link_that_it_names(
    machine: Machine, data: Vxlan | Tunnel
) -> None:
    """Whatever the routes say."""

    remote = ip_address("198.51.100.9")
    data = attrs.evolve(data, underlay=machine.links["ens1f0"].index, remote=remote)
    machine.route("198.51.100.0/24", "ens2f0")
    machine.link("tun0", kind="vxlan", kind_data=data)
    machine.route("0.0.0.0/0", "tun0")

    assert _guarded(machine) == {"tun0", "ens1f0"}


def test_tunnel_to_nowhere_guards_itself_alone(machine: Machine) -> None:
    """It has no other end, or no route leads there."""

    machine.link("tun0", kind="vxlan", kind_data=Vxlan(id=42))
    machine.link("tun1", kind="ipip", kind_data=Tunnel(remote=ip_address("198.51.100.9")))
    machine.route("0.0.0.0/0", "tun0")
    machine.route("::/0", "tun1")

    assert _guarded(machine) == {"tun0", "tun1"}


@pytest.mark.parametrize(
    "root",
    [{"kind": "openvswitch"}, {"kind": "veth", "port_kind": "openvswitch", "master": "ovs-system"}],
)
def test_all_ports_of_an_open_vswitch_are_guarded(machine: Machine, root: dict[str, Any]) -> None:
    """The switch's own port tells no master, another port tells it; which port is used, neither."""

    switch = machine.link("ovs-system", kind="openvswitch")
    machine.link("br-ex", **root)
    machine.change("ens1f0", master=switch.index, port_kind="openvswitch")
    machine.route("0.0.0.0/0", "br-ex")

    assert _guarded(machine) == {"br-ex", "ovs-system", "ens1f0"}
    assert _path(machine, "ens1f0") == ("default route (table main) → br-ex → ovs-system → ens1f0")


def test_ports_of_another_open_vswitch_stay_free(machine: Machine) -> None:
    """Where the root tells its switch."""

    one = machine.link("ovs-one", kind="openvswitch")
    two = machine.link("ovs-two", kind="openvswitch")
    machine.link("br-ex", kind="veth", master="ovs-one")
    machine.change("ens1f0", master=one.index, port_kind="openvswitch")
    machine.change("ens2f0", master=two.index, port_kind="openvswitch")
    machine.route("0.0.0.0/0", "br-ex")

    assert _guarded(machine) == {"br-ex", "ovs-one", "ens1f0"}


def test_circle_of_links_ends(machine: Machine) -> None:
    """Whatever a table says, each link is looked at once."""

    machine.link("a", kind="macvlan", parent="ens1f0")
    machine.links["ens1f0"] = attrs.evolve(machine.links["ens1f0"], parent=machine.links["a"].index)
    machine.route("0.0.0.0/0", "a")

    assert _guarded(machine) == {"a", "ens1f0"}
