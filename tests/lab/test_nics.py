"""What only a kernel with all modules and a VF shows of NICs: children, VRFs, rebound drivers."""

from __future__ import annotations

import pytest

from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

VF = "nic-0000-21-10-0"
PARENT = "parent-0000-41-00-0"
SCRUBBED = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
scrub = "rebind"
defaults.vf = {{ vlan = 100, trust = true }}
"""
PF, VFS = "nic-0000-21-00-0", ["nic-0000-21-10-0", "nic-0000-21-10-2"]
PF_OR_VFS = f"""{SLOW}
[[nic.group]]
name = "whole"
match = {{ kind = ["pf"], name = ["ens1"] }}
beside_vfs = true
[[nic.group]]
name = "parts"
match = {{ kind = ["vf"] }}
"""
NO_CARRIER_OF_ITS_OWN = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
defaults.vf.linkState = "enable"
"""


def shared(children: str) -> str:
    """Settings by which the second function is shared."""
    return f"""{SLOW}
[[nic.group]]
name = "lan"
match = {{ name = "ens2" }}
mode = "shared"
shared = {{ slots = 4, children = ["{children}"] }}
claims_may = ["vlan.id"]
"""


@pytest.fixture(name="vf")
def _vf(site: LabSite) -> LabSite:
    """A site whose first function has a VF."""
    site.node.ip("link", "set", "ens1", "up")
    site.node.make_vfs("ens1", 1)
    return site


@pytest.fixture(name="parent")
def _parent(site: LabSite) -> LabSite:
    """A site whose second function is up, and can be a parent."""
    site.node.ip("link", "set", "ens2", "up")
    return site


def index(site: LabSite, name: str) -> str:
    """The interface index of a link at home."""
    return site.node.read(f"/sys/class/net/{name}/ifindex")


def test_vf_comes_home_with_its_driver_bound_anew(vf: LabSite) -> None:
    """It is a new link then, under its own name, and all else is as it was; twice in a row.

    Our daemon has as many files open after the second pod as after the first (NW §10 row 12).
    """

    vf.open(SCRUBBED, nics=[], offers=[VF])
    at_home = vf.home("ens1v0")
    opened = []
    for name in ("first", "second"):
        before = index(vf, "ens1v0")
        vf.claim(name, request())
        pod = vf.run(name, name)
        assert pod.links() == {"lo", "eth0", "net1"}
        pod.delete()
        vf.wait_log("driver taken from a VF", VF, limit_s=60)
        vf.wait_home("ens1v0", at_home, limit_s=60)
        vf.wait_offered([VF])
        assert index(vf, "ens1v0") != before
        opened.append(len(vf.node.berthd.open_files()))
    assert opened[1] <= opened[0]


def test_pf_with_vfs_goes_into_a_pod_and_comes_home_and_they_are_unharmed(site: LabSite) -> None:
    """They stay at home and are nobody's meanwhile; what their PF keeps for them it still keeps."""

    node = site.node
    node.ip("link", "set", "ens1", "up")
    names = node.make_vfs("ens1", 2)
    node.ip("link", "set", "ens1", "vf", "1", "vlan", "100", "mac", "02:00:00:00:00:55")
    node.ip("link", "set", "ens1v0", "up")
    site.open(PF_OR_VFS, nics=[], offers=[PF, *VFS])
    outside = site.peer("ens1").set_address("192.0.2.1/24")
    at_home = {name: site.home(name) for name in ("ens1", *names)}
    indexes = [index(site, name) for name in names]
    config = [nic_config(interface={"mtu": 1600}, addresses=[{"address": "192.0.2.10/24"}])]
    site.claim("pf", request(cel='own.group == "whole"'), config=config)

    pod = site.run("whole", "pf")

    outside.ping("192.0.2.10")
    assert pod.link("net1")["mtu"] == 1600
    site.wait_offered([PF])
    for name in names:
        site.wait_home(name, at_home[name], limit_s=30)
    pod.delete()
    for name, as_it_was in at_home.items():
        site.wait_home(name, as_it_was, limit_s=60)
    assert [index(site, name) for name in names] == indexes
    site.wait_offered([PF, *VFS])
    addresses = [{"address": "192.0.2.11/24"}]
    site.claim("vf", request(cel="own.vfIndex == 0"), config=[nic_config(addresses=addresses)])
    site.run("part", "vf")
    outside.ping("192.0.2.11")
    site.wait_offered(VFS)


def test_value_that_the_pfs_driver_does_not_know_refuses_the_claim(vf: LabSite) -> None:
    """No link state is set by igb: the pod's event names the field, the VF is what it was."""

    vf.open(NO_CARRIER_OF_ITS_OWN, nics=[], offers=[VF])
    at_home = vf.home("ens1v0")
    vf.claim("vf", request())
    pod = vf.create("user", "vf")

    pod.wait_event("FailedPrepareDynamicResources", "vf.linkState")

    vf.wait_home("ens1v0", at_home, limit_s=60)


def test_vf_in_a_vrf_of_its_own(vf: LabSite) -> None:
    """Its default route is in the VRF's table, the pod's own is untouched; the VRF goes with it."""

    vf.open(f"{SLOW}\n[[nic.group]]\nname = 'vfs'\nmatch.kind = ['vf']\n", nics=[], offers=[VF])
    at_home = vf.home("ens1v0")
    config = nic_config(
        vrf={"name": "blue"},
        addresses=[{"address": "192.0.2.10/24"}],
        routes=[{"to": "default", "via": "192.0.2.1"}],
    )
    vf.claim("vf", request(), config=[config])
    pod = vf.run("user", "vf")

    assert pod.links() == {"lo", "eth0", "net1", "blue"}
    (own,) = pod.ip("route", "show", "default")
    assert own["dev"] == "eth0"
    (blue,) = pod.ip("route", "show", "default", "vrf", "blue")
    assert (blue["dev"], blue["gateway"]) == ("net1", "192.0.2.1")
    pod.delete()
    vf.wait_home("ens1v0", at_home, limit_s=60)


def test_two_vlans_over_one_parent(parent: LabSite) -> None:
    """A claim each; one that asks for a VLAN that is in use is refused by its number."""

    parent.open(shared("vlan"), nics=[], offers=[PARENT])
    for name, number in (("seven", 7), ("eight", 8), ("again", 7)):
        parent.claim(name, request(of="nic-shared"), config=[nic_config(vlan={"id": number})])
    pods = {name: parent.run(name, name) for name in ("seven", "eight")}

    for name, number in (("seven", 7), ("eight", 8)):
        (link,) = pods[name].ip("-d", "link", "show", "net1")
        assert link["linkinfo"]["info_kind"] == "vlan"
        assert link["linkinfo"]["info_data"]["id"] == number
    again = parent.create("again", "again")
    again.wait_event("FailedPrepareDynamicResources", "802.1Q 7 of the parent is in use")


def test_ipvlan_over_a_parent_with_soft_roce(parent: LabSite) -> None:
    """Two pods with one hardware address reach the wire, and have the parent's verbs node."""

    parent.node.run("modprobe", "-a", "rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm")
    parent.node.run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "ens2")
    try:
        parent.open(shared("ipvlan"), nics=[], offers=[PARENT])
        outside = parent.peer("ens2").set_address("192.0.2.1/24")
        for number in (1, 2):
            addresses = [{"address": f"192.0.2.1{number}/24"}]
            config = nic_config(addresses=addresses, rdma="required")
            parent.claim(f"c{number}", request(of="nic-shared"), config=[config])
        pods = [parent.run(f"p{number}", f"c{number}") for number in (1, 2)]

        assert len({pod.link("net1")["address"] for pod in pods}) == 1
        for number in (1, 2):
            outside.ping(f"192.0.2.1{number}")
        for pod in pods:
            assert {"uverbs0", "rdma_cm"} <= set(pod.run("ls", "/dev/infiniband").split())
    finally:
        parent.node.run("rdma", "link", "delete", "rxe0")
