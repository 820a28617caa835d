"""Pods that share one NIC: each has a child of it, and an accounted part of what it can give."""

from __future__ import annotations

import json

from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import nic_config, request
from tests.cluster.pods import is_running
from tests.cluster.site import Site, device

PARENT = device("nic0", "lan")
LAN = """
[[nic.group]]
name = "lan"
match = { name = ["nic0"] }
mode = "shared"
shared = { slots = 3, children = ["macvlan"], bandwidth = "3G" }
"""


def child(bandwidth: str = "") -> Object:
    """A request for a child, and for that much of the parent's bandwidth."""
    asked = {"capacity": {"requests": {"bandwidth": bandwidth}}} if bandwidth else {}
    return request("child", of="nic-shared", **asked)


def host(number: int) -> Object:
    """The configuration of a child with that number in the network."""
    return nic_config(interface={"name": "lan0"}, addresses=[{"address": f"192.0.2.{number}/24"}])


def promiscuous(link: Object) -> Object:
    """The same link while it has children: a veth end has no list of further MAC addresses."""
    return {**link, "promiscuity": 1}


def children(site: Site) -> list[Object]:
    """Links on the node that lie over others."""
    found: list[Object] = json.loads(site.node.ip("-j", "-d", "link", "show", "type", "macvlan"))
    return found


def test_two_pods_on_one_parent_reach_each_other_and_the_network(site: Site) -> None:
    """Each has a MAC of its own, the parent stays as it is, and no child is left after them."""

    site.open(LAN, offers=[PARENT])
    peer = site.peer("nic0").set_address("192.0.2.1/24")
    parent = site.home("nic0")
    for number in (11, 12):
        site.claim(f"c{number}", child(), config=[host(number)])

    pods = {number: site.run(f"p{number}", f"c{number}") for number in (11, 12)}

    macs = {number: pod.link("lan0")["address"] for number, pod in pods.items()}
    assert len({*macs.values(), parent["address"]}) == 3
    for number, pod in pods.items():
        assert pod.link("lan0")["linkinfo"]["info_data"]["mode"] == "bridge"
        peer.ping(f"192.0.2.{number}")
        assert peer.who_has(f"192.0.2.{number}") == {macs[number]}
        pod.run("ping", "-c", "1", "-w", "10", f"192.0.2.{23 - number}")
        (told,) = pod.metadata(f"resourceclaims/c{number}/child")[0]["requests"][0]["devices"]
        assert told["name"] == PARENT
        assert told["networkData"] == {
            "interfaceName": "lan0",
            "ips": [f"192.0.2.{number}/24"],
            "hardwareAddress": macs[number],
        }
    assert site.home("nic0") == promiscuous(parent)
    pods[11].delete()
    pods[12].run("ping", "-c", "1", "-w", "10", "192.0.2.1")
    assert peer.who_has("192.0.2.11") == set()
    pods[12].delete()
    assert site.home("nic0") == parent
    assert children(site) == []


def test_claim_waits_until_the_parent_has_bandwidth_for_it(site: Site) -> None:
    """The scheduler counts what claims take, and starts the third pod when the first is gone."""

    site.open(LAN, offers=[PARENT])
    for number, much in ((11, "2G"), (12, "1G"), (13, "1500M")):
        site.claim(f"c{number}", child(much), config=[host(number)])
    first = site.run("p11", "c11")
    site.run("p12", "c12")

    third = site.create("p13", "c13")
    why = third.wait_event("FailedScheduling")
    first.delete()
    third.wait(is_running, what="runs")

    assert "cannot allocate all claims" in why
    assert consumed(site, "c13") == {"bandwidth": "1500M", "slots": "1"}
    site.peer("nic0").set_address("192.0.2.1/24").ping("192.0.2.13")


def test_claim_waits_until_the_parent_has_a_slot_for_it(site: Site) -> None:
    """Without a wish a claim takes a slot and its part of the bandwidth."""

    site.open(LAN, offers=[PARENT])
    for number in (11, 12, 13, 14):
        site.claim(f"c{number}", child(), config=[host(number)])
    pods = [site.run(f"p{number}", f"c{number}") for number in (11, 12, 13)]

    fourth = site.create("p14", "c14")
    fourth.wait_event("FailedScheduling")
    pods[0].delete()
    fourth.wait(is_running, what="runs")

    assert consumed(site, "c14") == {"bandwidth": "1G", "slots": "1"}
    assert len({pod.link("lan0")["address"] for pod in (*pods[1:], fourth)}) == 3


def test_pod_with_two_shares_of_one_parent_has_two_links(site: Site) -> None:
    """Each share has its own name, MAC, CDI device and metadata.

    They are two requests: with `count: 2` the scheduler wants two devices.
    """

    site.open(LAN, offers=[PARENT])
    site.claim("two", request("a", of="nic-shared"), request("b", of="nic-shared"))

    pod = site.run("user", "two")

    assert pod.links() == {"lo", "eth0", "net1", "net2"}
    for asked, name in (("a", "net1"), ("b", "net2")):
        (told,) = pod.metadata(f"resourceclaims/two/{asked}")[0]["requests"][0]["devices"]
        assert told["networkData"]["interfaceName"] == name
        assert told["networkData"]["hardwareAddress"] == pod.link(name)["address"]
    assert pod.link("net1")["address"] != pod.link("net2")["address"]
    claim = site.api.get(site.claim_path("two"))
    shares = [each["shareID"] for each in claim["status"]["allocation"]["devices"]["results"]]
    uid = claim["metadata"]["uid"]
    cdi = json.loads(site.node.path(f"/run/cdi/{DRIVER}-nic_{uid}.json").read_text())
    assert [each["name"] for each in cdi["devices"]] == [
        f"{uid}_{PARENT}_{share[:8]}" for share in shares
    ]
    pod.delete()
    assert children(site) == []
    assert not site.node.path(f"/run/cdi/{DRIVER}-nic_{uid}.json").exists()


def test_parent_that_is_the_uplink_serves_children(site: Site) -> None:
    """Nothing of a shared parent is moved, so the node's own NIC can be one."""

    uplink = LAN.replace("nic0", "eth0")
    site.open(uplink, offers=[device("eth0", "lan")])
    at_home = site.home("eth0")
    address = site.node.address.rpartition(".")[0] + ".201/24"
    site.claim("lan", child(), config=[nic_config(addresses=[{"address": address}])])

    pod = site.run("user", "lan")

    assert pod.link("net1")["linkinfo"]["info_kind"] == "macvlan"
    site.cluster.control.box.run("busybox", "ping", "-c", "1", "-w", "10", address[:-3])
    assert site.home("eth0") == promiscuous(at_home)


def consumed(site: Site, claim: str) -> dict[str, str]:
    """What the scheduler gave a claim of its device."""
    status = site.api.get(site.claim_path(claim))["status"]
    (result,) = status["allocation"]["devices"]["results"]
    return {name.rpartition("/")[2]: much for name, much in result["consumedCapacity"].items()}
