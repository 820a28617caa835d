"""Virtual functions in pods: what they are given there, and how they come home."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import SLOW, VFS
from tests.lab.labsite import LabSite

XDP = Path(__file__).parent / "scripts" / "xdp.py"
FIRST = "nic-0000-21-10-0"
SECOND = "nic-0000-21-10-2"
CHOICE = "/sys/class/net/ens1v0/addr_assign_type"
"""Who chose its address: told only here, and by it a made-up one from somebody's."""
IGB = "/sys/bus/pci/drivers/igb"
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
    """By a claim; who knew the address as another's is told; home it is what it was."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    ips = ["192.0.2.10", "2001:db8::10"]
    outside = vfs.peer("ens1").set_address("192.0.2.1/24", "2001:db8::1/64")
    for ip in ips:
        outside.remember(ip, "02:00:00:00:00:01")
    at_home = vfs.home("ens1v0")
    made_up = vfs.node.run("cat", CHOICE)
    addresses = [{"address": "192.0.2.10/24"}, {"address": "2001:db8::10/64"}]
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[nic_config(addresses=addresses)])

    pod = vfs.run("user", "vf")

    assert pod.links() == {"lo", "eth0", "net1"}
    assert "ens1v0" not in vfs.node.links()
    own = pod.link("net1")["address"]
    told = dict.fromkeys(ips, own)
    vfs.wait_same("words", lambda: {ip: outside.remembered(ip) for ip in ips}, told, limit_s=30)
    outside.ping("192.0.2.10")
    pod.delete()
    vfs.wait_home("ens1v0", at_home, limit_s=30)
    assert vfs.node.run("cat", CHOICE) == made_up
    assert vfs.listed("holds") == []


def test_vf_has_in_the_pod_what_its_group_sets_through_the_pf(vfs: LabSite) -> None:
    """VLAN, priority, trust, spoof check and address; none of it is left for the next holder."""

    vfs.open(TENANT, nics=[], offers=[FIRST, SECOND])
    at_home, before = vfs.home("ens1v0"), vfs.kept_for(0)
    assert (before["trust"], before["spoofchk"]) == (False, True)
    vfs.claim("vf", request(cel="own.vfIndex == 0"))

    pod = vfs.run("user", "vf")

    now = vfs.kept_for(0)
    assert (now["trust"], now["spoofchk"], now["address"]) == (True, False, "02:00:00:00:00:99")
    assert {"vlan": 100, "qos": 3} in now["vlan_list"]
    assert pod.link("net1")["address"] == "02:00:00:00:00:99"
    pod.delete()
    vfs.wait_home("ens1v0", at_home, limit_s=30)
    assert vfs.kept_for(0) == before


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


@pytest.mark.slow
def test_vf_that_came_home_with_its_own_name_as_another_gets_it_back(vfs: LabSite) -> None:
    """That is what udev makes of the name that it would have given; no link can have both."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    node = vfs.node
    at_home = vfs.home("ens1v0")
    vfs.claim("vf", request(cel="own.vfIndex == 0"))
    pod = vfs.run("user", "vf")
    node.berthd.stop()

    def others() -> list[str]:
        return list(vfs.link_of(FIRST).get("altnames", ()))

    vfs.kill_sandbox(pod)
    vfs.api.delete(pod.path, grace_s=0)
    vfs.wait_same("its name", lambda: vfs.link_of(FIRST)["ifname"], "net1", limit_s=60)
    vfs.wait_same("its others", lambda: "ens1v0" in others(), True, limit_s=60)
    node.start_berthd(VFS)

    vfs.wait_home("ens1v0", at_home, limit_s=60)
    vfs.wait_offered([FIRST, SECOND])


def test_what_a_pod_does_to_its_vf_is_gone_before_the_next_holder(vfs: LabSite) -> None:
    """A packet program, promiscuous mode, another name and address: all would come home with it."""

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
    pod.enter("ip", "link", "set", "net1", "down")
    pod.enter("ip", "link", "set", "net1", "name", "app0", "address", "02:00:00:00:00:77")
    pod.enter("ip", "link", "set", "app0", "up")
    assert pod.link("app0")["address"] == "02:00:00:00:00:77"

    pod.delete()

    vfs.wait_home("ens1v0", at_home, limit_s=30)
    vfs.claim("next", request(cel="own.vfIndex == 0"))
    (link,) = vfs.run("next", "next").ip("-d", "link", "show", "net1")
    assert link.keys().isdisjoint({"xdp", "ifalias"})
    assert (link["promiscuity"], link["allmulti"]) == (0, 0)


@pytest.mark.slow
def test_pod_whose_second_vf_is_refused_a_route_has_neither(vfs: LabSite) -> None:
    """NW §10 rows 2, 4: one is whole in the pod by then, the other up; the pod's route stays."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    at_home = {name: vfs.home(name) for name in ("ens1v0", "ens1v1")}
    clash = nic_config(
        "second",
        addresses=[{"address": "198.51.100.10/24"}],
        routes=[{"to": "default", "via": "198.51.100.1"}],
    )
    first = nic_config("first", addresses=[{"address": "192.0.2.10/24"}])
    vfs.claim("both", request("first"), request("second"), config=[first, clash])

    pod = vfs.create("user", "both")

    told = pod.wait_event("FailedCreatePodSandBox", "routes[0] (net2)")
    assert "a route of the pod is never replaced" in told
    assert "every NIC of the pod is home" in told
    pod.delete(grace_s=0)
    for name, as_it_was in at_home.items():
        vfs.wait_home(name, as_it_was, limit_s=60)
    vfs.wait_same("holds", lambda: vfs.listed("holds"), [], limit_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["numvfs", "rebind"])
def test_vfs_that_go_while_pods_have_them_are_lost_and_nothing_hangs(
    vfs: LabSite, way: str
) -> None:
    """The kernel takes no account of pods; new VFs are new devices under the same addresses."""

    vfs.open(VFS, nics=[], offers=[FIRST, SECOND])
    vfs.claim("vf", request(cel="own.vfIndex == 0"), config=[ADDRESS])
    pod = vfs.run("user", "vf")

    if way == "numvfs":
        vfs.node.remove_vfs("ens1")
    else:
        vfs.node.write(f"{IGB}/unbind", "0000:21:00.0")

    vfs.wait_log("reason=lost", FIRST, limit_s=60)
    pod.delete()
    vfs.wait_same("holds", lambda: vfs.listed("holds"), [])
    vfs.wait_offered([])
    if way == "rebind":
        vfs.node.write(f"{IGB}/bind", "0000:21:00.0")
        vfs.node.wait_links("ens1")
        vfs.node.ip("link", "set", "ens1", "up")
    vfs.node.make_vfs("ens1", 2)
    vfs.wait_offered([FIRST, SECOND])
    vfs.claim("again", request(cel="own.vfIndex == 0"), config=[ADDRESS])
    assert vfs.run("again", "again").links() == {"lo", "eth0", "net1"}
