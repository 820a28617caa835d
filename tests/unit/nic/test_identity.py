"""Which link is the record's: by device, by kind and address, never by a name or an index alone."""

from __future__ import annotations

import attrs

from berth.host.netlink.kinds import Ipvlan, Veth, Vlan
from berth.nic.identity import find_home, find_in_pod, is_record_home
from tests.unit.nic.config.claims import SHARED
from tests.unit.nic.links import (
    MAC,
    OTHERS,
    child_config_of,
    child_link_of,
    config_of,
    link_of,
    originals_of,
    record_of,
)

HOME = link_of("v0")
NIC = record_of(HOME)
OTHER_MAC = "02:00:00:00:00:99"
DEVICE = link_of("ens1f0", kind="", parent_device="0000:41:00.0", parent_bus="pci", perm_mac=MAC)
PCI = record_of(DEVICE, identity="pci:0000:41:00.0", parent_device="0000:41:00.0")


def test_virtual_link_at_home_by_its_index() -> None:
    """Of two alike the one with the recorded index is meant, under whatever name."""

    renamed = attrs.evolve(HOME, name="other")
    twin = link_of("v0", index=9)

    assert find_home(NIC, [twin, renamed]) == renamed
    assert is_record_home(NIC, renamed)
    assert not is_record_home(NIC, twin)


def test_virtual_link_at_home_under_another_index() -> None:
    """A single link of its kind and address is it, whatever its index and name."""

    moved = link_of("net1", index=9)

    assert find_home(NIC, [link_of("x", mac=OTHER_MAC), moved]) == moved
    assert not is_record_home(NIC, moved)


def test_virtual_link_at_home_with_the_address_of_its_configuration() -> None:
    """A link that a crash left with the pod's address is known by that one too."""

    nic = record_of(HOME, config=config_of(interface={"hardwareAddr": OTHER_MAC}))
    changed = attrs.evolve(HOME, mac=OTHER_MAC, index=9)

    assert find_home(nic, [changed]) == changed


def test_foreign_link_with_the_recorded_index_is_not_it() -> None:
    """The kernel gives a free index to the next link that asks: neither kind nor index prove it."""

    nic = attrs.evolve(NIC, pod_index=3)

    assert find_home(nic, [link_of("v0", mac=OTHER_MAC)]) is None
    assert find_home(nic, [link_of("v0", kind="dummy", kind_data=Veth())]) is None
    assert not is_record_home(nic, link_of("v0", mac=OTHER_MAC))


def test_two_alike_and_neither_with_the_index() -> None:
    """Nothing is guessed."""

    assert find_home(NIC, [link_of("a", index=8), link_of("b", index=9)]) is None


def test_link_without_originals_is_found_nowhere() -> None:
    """Of a virtual link nothing is known before it was read."""

    nic = record_of(None)

    assert find_home(nic, [HOME]) is None
    assert find_in_pod(nic, [HOME]) is None
    assert not is_record_home(nic, HOME)


def test_device_is_found_by_what_carries_it() -> None:
    """Name, index and address may all be others after a driver bind."""

    bound = attrs.evolve(DEVICE, name="eth0", index=77, mac=OTHER_MAC, perm_mac=OTHER_MAC)
    links = [HOME, bound]

    assert find_home(PCI, links) == bound
    assert find_in_pod(PCI, links) == bound
    assert find_home(PCI, [HOME]) is None
    assert is_record_home(PCI, DEVICE)
    assert not is_record_home(PCI, attrs.evolve(DEVICE, parent_device="0000:42:00.0"))


def test_ports_of_one_device_are_told_apart() -> None:
    """By port name, then by burnt-in address, of which a virtual function's follows what is set."""

    port0 = attrs.evolve(DEVICE, port_name="p0")
    port1 = attrs.evolve(DEVICE, port_name="p1", index=4)
    twin = attrs.evolve(DEVICE, index=5, mac=OTHER_MAC, perm_mac=OTHER_MAC)
    nic = attrs.evolve(PCI, originals=originals_of(port0))

    assert find_home(nic, [port1, port0]) == port0
    assert find_home(PCI, [twin, DEVICE]) == DEVICE
    assert find_home(PCI, [twin, attrs.evolve(twin, index=6)]) is None


def test_link_in_the_pod_by_address_then_by_index() -> None:
    """Before it was seen there its address tells it; after that the pod may have changed it."""

    eth0 = link_of("eth0", index=2, mac=OTHER_MAC)
    ours = link_of("net1", index=6)
    changed = attrs.evolve(ours, mac="02:00:00:00:00:66", name="app0")

    assert find_in_pod(NIC, [eth0, ours]) == ours
    assert find_in_pod(NIC, [eth0, changed]) is None
    assert find_in_pod(attrs.evolve(NIC, pod_index=6), [eth0, changed]) == changed
    assert find_in_pod(attrs.evolve(NIC, pod_index=6), [eth0]) is None


def test_child_by_parent_and_address() -> None:
    """Only a macvlan over the right parent at home; among several the one with its address."""

    config = child_config_of(interface={"hardwareAddr": MAC})
    nic = record_of(None, config=config, parent_index=3)
    ours = child_link_of("net1")
    sister = child_link_of("net2", index=6, mac=OTHER_MAC)
    foreign = [
        child_link_of("a", parent=4),
        child_link_of("b", parent_netnsid=None),
        link_of("c", parent=3, parent_netnsid=0),
    ]

    assert find_in_pod(nic, [*foreign, sister, ours]) == ours
    assert find_in_pod(nic, [*foreign, sister]) is None
    assert find_in_pod(attrs.evolve(nic, pod_index=6), [ours, sister]) == sister
    assert find_home(nic, [ours]) is None


def test_child_whose_address_the_kernel_chose() -> None:
    """In mode passthru the child has its parent's address, and there is but one."""

    config = attrs.evolve(
        child_config_of(), interface=attrs.evolve(config_of().interface, hardware_addr=None)
    )
    nic = record_of(None, config=config, parent_index=3)

    assert find_in_pod(nic, [child_link_of(mac=OTHER_MAC)]) == child_link_of(mac=OTHER_MAC)


def test_child_of_a_vlan_by_its_number() -> None:
    """It has its parent's address, as its sisters have, and another VLAN than they."""

    config = config_of(facts=SHARED, policy=OTHERS, mode="vlan", vlan={"id": 7})
    nic = record_of(None, config=config, parent_index=3)
    ours = child_link_of(kind="vlan", kind_data=Vlan(id=7))
    others = [
        child_link_of("a", index=6, kind="vlan", kind_data=Vlan(id=8)),
        child_link_of("b", index=7, kind="vlan", kind_data=Vlan(id=7, protocol="802.1ad")),
        child_link_of("c", index=8),
    ]

    assert find_in_pod(nic, [*others, ours]) == ours
    assert find_in_pod(attrs.evolve(nic, pod_index=6), others) is None


def test_child_of_ipvlan_by_its_name_before_it_was_seen() -> None:
    """Children of one parent have one address; in a pod they are told apart by what we called them.

    Once it was seen there its index counts, and the pod may rename it.
    """

    config = config_of(facts=SHARED, policy=OTHERS, mode="ipvlan")
    nic = record_of(None, config=config, parent_index=3)
    ours = child_link_of("net1", kind="ipvlan", kind_data=Ipvlan())
    sister = child_link_of("net2", index=6, kind="ipvlan", kind_data=Ipvlan())
    renamed = attrs.evolve(ours, name="app0")

    assert find_in_pod(nic, [sister, ours]) == ours
    assert find_in_pod(nic, [sister]) is None
    assert find_in_pod(nic, [sister, renamed]) is None
    assert find_in_pod(attrs.evolve(nic, pod_index=5), [sister, renamed]) == renamed
