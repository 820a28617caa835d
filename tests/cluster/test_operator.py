"""What the operator's command tells on a node with real pods, and what a reload does there."""

from __future__ import annotations

import pytest

from berth.errors import HostError
from tests.cluster.berthd import CONFIG
from tests.cluster.claimforms import nic_config
from tests.cluster.site import LAB, Site, device


def test_devices_tells_where_each_nic_is_and_why_it_is_not_offered(site: Site) -> None:
    """The uplink is never offered, with the way to it; a NIC in a pod is told with its claim."""

    site.open(LAB.replace('"nic2"', '"eth0"'), nics=["nic0", "nic1"])
    site.claim("uplink", config=[nic_config(interface={"name": "data0"})])
    pod = site.run("user", "uplink")

    told = {each["name"]: each for each in site.listed("devices")}
    (hold,) = site.listed("holds")
    shown = site.berth("devices")

    holder = f"{site.namespace}/uplink"
    assert told[device("eth0")]["reason"] == "uplink"
    assert "default route (table main) → eth0" in told[device("eth0")]["detail"]
    assert [told[device(nic)]["offered"] for nic in ("nic0", "nic1")] == [True, True]
    holders = [told[device(nic)]["held_by"] for nic in ("nic0", "nic1")]
    assert sorted(holders) == [[], [holder]]
    assert (hold["claim"], hold["pods"], hold["stage"]) == (holder, [pod.name], "attached")
    assert hold["interface"] == "data0"
    assert "default route (table main) → eth0" in shown


def test_why_tells_of_a_pod_what_its_event_tells_and_what_is_well(site: Site) -> None:
    """For a refused pod every fault, for a running one where its NIC is."""

    site.open(nics=["nic0", "nic1"])
    site.claim("good", config=[nic_config(interface={"name": "data0"})])
    site.claim("bad", config=[nic_config(interface={"mtu": 1}, adresses=[])])
    site.run("good", "good")
    refused = site.create("bad", "bad").wait_refused()

    good = site.berth("why", f"{site.namespace}/good")
    bad = site.berth("why", f"{site.namespace}/bad")

    assert "is in the pod as data0" in good
    assert len(refused.splitlines()) == 2
    for fault in refused.splitlines():
        assert fault in bad
    assert "berthd" in site.berth("status")


def test_reload_takes_new_groups_and_keeps_the_old_ones_when_the_file_is_bad(site: Site) -> None:
    """A faulty file is told in full and changes nothing; a good one does, and pods run on."""

    only_nic0 = LAB.replace(', "nic1", "nic2"', "")
    site.node.add_nic("nic1")
    site.open(only_nic0)
    site.claim("uplink")
    pod = site.run("user", "uplink")

    site.node.write(CONFIG, LAB + "mtu = 9000\nmatsch = {}\n")
    with pytest.raises(HostError, match=r"(?s)mtu.*matsch|matsch.*mtu"):
        site.berth("reload")
    site.wait_offered([device("nic0")])
    site.node.write(CONFIG, LAB)
    site.berth("reload")

    site.wait_offered([device("nic0"), device("nic1")])
    assert pod.links() == {"lo", "eth0", "net1"}
    site.claim("second")
    site.run("other", "second")
