"""ipvlan links and VLANs over one parent, and VRFs, where the kernel has them: the lab's does."""

from __future__ import annotations

from typing import Any

import pytest

from berth.host.netlink.kinds import Ipvlan, Vlan
from berth.nic import attach as attach_module
from berth.nic.attach import verify
from berth.nic.config import AttachMode
from berth.nic.config.values import NicConfig
from berth.nic.homecoming import bring_home
from berth.nic.record import NicRecord, Stage
from berth.runtime.threads import Decision
from tests.integration.nic.beds import Bed, Pod, attached, child_of, config_of, staged
from tests.integration.nic.senders import RTM_NEWADDR, Died, DyingAfter
from tests.integration.nic.test_attach import in_time, refused
from tests.netns import need_kind
from tests.unit.nic.config.claims import SHARED
from tests.unit.nic.links import OTHERS
from tests.unit.nic.links import config_of as any_config_of

pytestmark = pytest.mark.root


def child_config(name: str, mode: AttachMode, **parameters: Any) -> NicConfig:
    """The configuration of a child of a kind."""
    return any_config_of(name, facts=SHARED, policy=OTHERS, mode=mode.value, **parameters)


def vlan(number: int, **more: Any) -> NicConfig:
    """That of a VLAN."""
    return child_config(f"net{number}", AttachMode.VLAN, vlan={"id": number}, **more)


def ipvlan(number: int) -> NicConfig:
    """That of an ipvlan link with an address."""
    addresses = [{"address": f"192.0.2.{number}/24"}, {"address": f"2001:db8::{number}/64"}]
    return child_config(f"net{number}", AttachMode.IPVLAN, addresses=addresses)


def test_vlans_of_one_parent(bed: Bed) -> None:
    """Two VLANs in one pod, each known by its number, whatever the pod calls it; one comes home."""

    need_kind("vlan")
    parent = bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    there = attached(
        pod,
        child_of(parent, vlan(7, interface={"mtu": 1400}, addresses=[{"address": "192.0.2.7/24"}])),
        child_of(parent, vlan(8, interface={"hardwareAddr": "02:00:00:00:01:08"})),
    )
    pod.netns.ip("link", "set", "net7", "down")
    pod.netns.ip("link", "set", "net7", "name", "app0")

    assert [pod.link(name).kind_data for name in ("app0", "net8")] == [Vlan(id=7), Vlan(id=8)]
    assert (pod.link("app0").mac, pod.link("app0").mtu) == (parent.mac, 1400)
    assert pod.link("net8").mac == "02:00:00:00:01:08"
    assert pod.ips("app0") == ["192.0.2.7/24"]
    assert verify(there) == ()
    assert bring_home(there[0]).record.stage is Stage.HOME
    assert pod.names() == {"net8"}
    assert bring_home(there[1]).record.stage is Stage.HOME
    assert bed.seen("v0") == before


def test_vlan_that_the_parent_has_already(bed: Bed) -> None:
    """The kernel's word for it; nothing of the child is left."""

    need_kind("vlan")
    parent = bed.veth("v0")
    attached(bed.pod(), child_of(parent, vlan(7)))
    pod = bed.pod()
    error = refused(pod, child_of(parent, vlan(7)))

    assert "File exists" in str(error)
    assert pod.names() == set()


def test_ipvlan_children_of_one_parent(bed: Bed) -> None:
    """Two in one pod have one address and are told apart; a third is in another pod."""

    need_kind("ipvlan")
    parent = bed.veth("v0")
    before = bed.seen("v0")
    pod, other = bed.pod(), bed.pod()
    there = attached(pod, child_of(parent, ipvlan(1)), child_of(parent, ipvlan(2)))
    (third,) = attached(other, child_of(parent, ipvlan(3)))

    assert {pod.link(f"net{n}").mac for n in (1, 2)} == {parent.mac}
    assert pod.link("net2").kind_data == Ipvlan()
    assert pod.ips("net2") == ["192.0.2.2/24", "2001:db8::2/64"]
    assert verify((*there, third)) == ()
    assert bring_home(there[0]).record.stage is Stage.HOME
    assert pod.names() == {"net2"}
    assert attached(pod, there[1]) == (there[1],)
    for record in (there[1], third):
        assert bring_home(record).record.stage is Stage.HOME
    assert bed.seen("v0") == before


def test_ipvlan_child_after_a_death_before_it_was_recorded(bed: Bed) -> None:
    """Its name tells it from its sister, and it is taken away as every child is."""

    need_kind("ipvlan")
    parent = bed.veth("v0")
    pod = bed.pod()
    (sister,) = attached(pod, child_of(parent, ipvlan(2)))
    record = child_of(parent, ipvlan(1))
    announced = _dies(pod, record)

    assert pod.names() == {"net1", "net2"}
    assert bring_home(announced).record.stage is Stage.HOME
    assert pod.names() == {"net2"}
    assert verify([sister]) == ()


def test_macvlan_beside_ipvlan(bed: Bed) -> None:
    """What the checks of a claim do not see, the node's children in other namespaces, is told."""

    need_kind("ipvlan")
    need_kind("macvlan")
    parent = bed.veth("v0")
    attached(bed.pod(), child_of(parent))
    error = refused(bed.pod(), child_of(parent, ipvlan(1)))

    assert "Device or resource busy" in str(error)


BLUE: dict[str, Any] = {
    "vrf": {"name": "blue"},
    "addresses": [{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}],
    "routes": [
        {"to": "default", "via": "192.0.2.1"},
        {"to": "2001:db8:1::/48", "via": "2001:db8::1"},
    ],
}


def test_nic_in_a_vrf(bed: Bed) -> None:
    """Its routes are in the VRF's table, the pod's own default route stays; it comes home."""

    need_kind("vrf")
    bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    pod.netns.ip("link", "add", "eth0", "type", "veth", "peer", "name", "p0")
    for command in ("link set eth0 up", "addr add 10.0.0.2/24 dev eth0", "link set p0 up"):
        pod.netns.ip(*command.split())
    pod.netns.ip("route", "add", "default", "via", "10.0.0.1")
    pod.netns.ip("link", "add", "red", "type", "vrf", "table", "1000")
    (there,) = attached(pod, staged(bed.link("v0"), config_of(**BLUE)))
    main = pod.netns.ip("route")
    blue = pod.netns.ip("route", "show", "vrf", "blue")

    assert there.vrf_table == 1001
    assert pod.link("net1").master == pod.link("blue").index
    assert "default via 10.0.0.1 dev eth0" in main
    assert "net1" not in main
    assert "default via 192.0.2.1 dev net1" in blue
    assert "192.0.2.0/24 dev net1" in blue
    assert "2001:db8:1::/48 via 2001:db8::1 dev net1" in pod.netns.ip(
        "-6", "route", "show", "vrf", "blue"
    )
    assert attached(pod, there) == (there,)
    back = bring_home(there).record
    assert (back.stage, back.vrf_table, back.fault) == (Stage.HOME, 0, "")
    assert pod.names() == {"eth0", "p0", "red"}
    assert bed.seen("v0") == before


def test_vrf_that_the_pod_took_the_nic_out_of(bed: Bed) -> None:
    """The hook again puts it back, with the addresses and routes that going in costs."""

    need_kind("vrf")
    pod = bed.pod()
    (there,) = attached(pod, staged(bed.veth("v0"), config_of(**BLUE)))
    pod.netns.ip("link", "set", "net1", "nomaster")
    (again,) = attached(pod, there)

    assert again == there
    assert pod.link("net1").master == pod.link("blue").index
    assert pod.ips("net1") == ["192.0.2.5/24", "2001:db8::5/64"]
    assert "default via 192.0.2.1 dev net1" in pod.netns.ip("route", "show", "vrf", "blue")


def test_vrf_whose_name_or_table_is_taken(bed: Bed) -> None:
    """The NIC stays at home, and what the pod has is left as it is."""

    need_kind("vrf")
    pod = bed.pod()
    pod.netns.ip("link", "add", "blue", "type", "vrf", "table", "1001")
    bed.veth("v0")
    before = bed.seen("v0")
    for wish, told in (
        ({"name": "blue"}, "give vrf.name another value"),
        ({"name": "green", "table": 1001}, "1001 is in use in the pod, by the VRF blue"),
    ):
        error = refused(pod, staged(bed.link("v0"), config_of(vrf=wish)))
        assert told in str(error)
        assert pod.names() == {"blue"}
        assert bed.seen("v0") == before


def test_vrf_after_a_death_before_it_was_recorded(bed: Bed) -> None:
    """The next hook goes on in the VRF that is there; a return takes it away."""

    need_kind("vrf")
    bed.veth("v0")
    before = bed.seen("v0")
    pod = bed.pod()
    announced = _dies(pod, staged(bed.link("v0"), config_of(**BLUE)))
    assert pod.names() == {"net1", "blue"}
    (there,) = attached(pod, announced)

    assert there.vrf_table == 1000
    announced = _dies(pod, there, after=False)
    assert bring_home(announced).record.stage is Stage.HOME
    assert pod.names() == set()
    assert bed.seen("v0") == before


def _dies(pod: Pod, record: NicRecord, *, after: bool = True) -> NicRecord:
    """Have the process end after the first address; gives the record as it was on disk then."""
    announced = attach_module.begun(record, pod.sandbox)
    if after:
        with pytest.raises(Died):
            attach_module.attach(
                [record],
                pod.sandbox,
                budget=in_time(),
                decision=Decision(),
                send=DyingAfter(lambda message: message.kind == RTM_NEWADDR),
            )
    return announced
