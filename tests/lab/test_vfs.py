"""Virtual functions in pods: what they are given there, and how they come home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import SLOW, VFS
from tests.lab.labsite import LabSite

XDP = Path(__file__).parent / "scripts" / "xdp.py"
FIRST = "nic-0000-21-10-0"
SECOND = "nic-0000-21-10-2"
ADDRESS = nic_config(addresses=[{"address": "192.0.2.10/24"}])
TENANT = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
defaults.vf = {{ vlan = 100, vlanQoS = 3, spoofCheck = false, trust = true, adminMAC = true }}
defaults.interface.hardwareAddr = "02:00:00:00:00:99"
"""


@pytest.fixture(name="vfs")
def _vfs(site: LabSite) -> LabSite:
    """A site whose first function has two VFs, both up to be had."""
    site.node.ip("link", "set", "ens1", "up")
    site.node.make_vfs("ens1", 2)
    return site


@pytest.mark.slow
def test_vf_carries_the_pods_traffic_and_comes_home(vfs: LabSite) -> None:
    """By a claim, through kubelet, containerd and the hook; home it is what it was."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    outside = vfs.peer("ens1").set_address("192.0.2.1/24")
    at_home = vfs.home("ens1v0")
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[ADDRESS])

    pod = vfs.run("user", "vf")

    assert pod.links() == {"lo", "eth0", "net1"}
    assert "ens1v0" not in vfs.node.links()
    outside.ping("192.0.2.10")
    pod.delete()
    vfs.wait_home("ens1v0", at_home, limit_s=30)
    assert vfs.listed("holds") == []


def test_vf_has_in_the_pod_what_its_group_sets_through_the_pf(vfs: LabSite) -> None:
    """VLAN, priority, trust, spoof check and address; none of it is left for the next holder."""

    vfs.open(TENANT, nics=[], offers=[FIRST, SECOND])
    at_home, before = vfs.home("ens1v0"), _values(vfs, 0)
    assert (before["trust"], before["spoofchk"]) == (False, True)
    vfs.claim("vf", request(cel="own.vfIndex == 0"))

    pod = vfs.run("user", "vf")

    now = _values(vfs, 0)
    assert (now["trust"], now["spoofchk"], now["address"]) == (True, False, "02:00:00:00:00:99")
    assert {"vlan": 100, "qos": 3} in now["vlan_list"]
    assert pod.link("net1")["address"] == "02:00:00:00:00:99"
    pod.delete()
    vfs.wait_home("ens1v0", at_home, limit_s=30)
    assert _values(vfs, 0) == before


def test_vf_of_a_namespace_that_died_unseen_is_found_and_restored(vfs: LabSite) -> None:
    """Our daemon is away, the kernel sends the VF back as it was in the pod, its name is taken."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    node = vfs.node
    at_home = vfs.home("ens1v0")
    config = nic_config(interface={"mtu": 1400}, addresses=[{"address": "192.0.2.10/24"}])
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[config])
    pod = vfs.run("user", "vf")
    node.ip("link", "add", "ens1v0", "type", "dummy")
    node.berthd.stop()

    vfs.kill_sandbox(pod)
    vfs.api.delete(pod.path, grace_s=0)
    vfs.wait_same("the VF at home", lambda: vfs.link_of(FIRST)["ifname"], "net1", limit_s=60)
    assert vfs.link_of(FIRST)["mtu"] == 1400
    node.start_berthd(VFS)

    vfs.wait_same("mtu", lambda: vfs.link_of(FIRST)["mtu"], 1500, limit_s=30)
    assert vfs.link_of(FIRST)["ifname"].startswith("berth")
    node.ip("link", "delete", "ens1v0")
    vfs.wait_home("ens1v0", at_home, limit_s=30)
    vfs.wait_offered([FIRST, SECOND])


def test_what_a_pod_does_to_its_vf_is_gone_before_the_next_holder(vfs: LabSite) -> None:
    """A packet program, promiscuous mode, another address: all of it would come home with it."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    node, at_home = vfs.node, vfs.home("ens1v0")
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[ADDRESS])
    pod = vfs.run("user", "vf")
    node.run("python3", "-", "/sys/fs/bpf/pass", given=XDP.read_bytes())
    pod.enter("ip", "link", "set", "net1", "xdpgeneric", "pinned", "/sys/fs/bpf/pass")
    pod.enter("ip", "link", "set", "net1", "promisc", "on", "allmulticast", "on", "alias", "mine")
    (seen,) = pod.ip("-d", "link", "show", "net1")
    assert seen["xdp"]["mode"] == 2
    assert seen["promiscuity"] == 1

    pod.delete()

    vfs.wait_home("ens1v0", at_home, limit_s=30)
    vfs.claim("next", request(cel="own.vfIndex == 0"))
    (link,) = vfs.run("next", "next").ip("-d", "link", "show", "net1")
    assert link.keys().isdisjoint({"xdp", "ifalias"})
    assert (link["promiscuity"], link["allmulti"]) == (0, 0)


@pytest.mark.slow
def test_vfs_that_go_while_pods_have_them_are_lost_and_nothing_hangs(vfs: LabSite) -> None:
    """The kernel takes no account of pods; new VFs are new devices under the same addresses."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[ADDRESS])
    pod = vfs.run("user", "vf")

    vfs.node.remove_vfs("ens1")

    vfs.wait_log("reason=lost", FIRST, limit_s=60)
    pod.delete()
    vfs.wait_same("holds", lambda: vfs.listed("holds"), [])
    vfs.wait_offered([])
    vfs.node.make_vfs("ens1", 2)
    vfs.wait_offered([FIRST, SECOND])
    vfs.claim("again", request(cel="own.vfIndex == 0"), config=[ADDRESS])
    assert vfs.run("again", "again").links() == {"lo", "eth0", "net1"}


def _values(site: LabSite, number: int) -> Object:
    """What the PF keeps for a VF."""
    (pf,) = json.loads(site.node.ip("-j", "link", "show", "dev", "ens1"))
    found: Object = pf["vfinfo_list"][number]
    return found
