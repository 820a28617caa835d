"""The core on each pair of kubelet and containerd: attach, metadata, return, refusals."""

from __future__ import annotations

import pytest

from tests.cluster.claimforms import nic_config, request
from tests.cluster.site import LAB, Site

ONE_VERSION = '[dra]\nversions = ["{}"]\n'
REFUSED_BY = {
    "1.34+1.7": "FailedCreatePodSandBox",
    # This containerd does not stop a sandbox that is refused, so its container is.
    "1.37+2.1": "Failed",
    "1.37+2.4": "FailedCreatePodSandBox",
}
CONFIG = nic_config(
    interface={"name": "data0", "mtu": 1400},
    addresses=[{"address": "192.0.2.10/24"}, {"address": "2001:db8::10/64"}],
    routes=[{"to": "198.51.100.0/24", "via": "192.0.2.1"}],
    sysctls={"ipv4": {"rp_filter": 2}},
)


def check_whole_life(site: Site) -> None:
    """A pod's NIC from claim to return, seen from the peer, the pod and the container."""
    peer = site.peer("nic0").set_address("192.0.2.1/24", "198.51.100.7/32")
    at_home = site.home("nic0")
    site.claim("uplink", config=[CONFIG])

    pod = site.run("user", "uplink")

    peer.ping("192.0.2.10")
    pod.run("ping", "-c", "1", "-w", "10", "198.51.100.7")
    link = pod.link("data0")
    assert link["mtu"] == 1400
    assert link["sysctls"]["ipv4/conf/data0/rp_filter"] == "2"
    assert link["sysctls"]["ipv6/conf/data0/accept_ra"] == "0"
    newest, older = pod.metadata("resourceclaims/uplink/nic")
    assert older["apiVersion"].endswith("/v1alpha1")
    assert newest["metadata"]["generation"] == 2
    assert newest["requests"][0]["devices"][0]["networkData"] == {
        "interfaceName": "data0",
        "ips": ["192.0.2.10/24", "2001:db8::10/64"],
        "hardwareAddress": at_home["address"],
    }
    pod.delete()
    site.wait_home("nic0", at_home)


def test_whole_life_of_a_nic_on_each_kind_of_node(each_site: Site) -> None:
    """Claimed, moved, configured, described, used and returned exactly as it was."""

    each_site.open()

    check_whole_life(each_site)


def test_pods_share_a_parent_on_each_kind_of_node(each_site: Site) -> None:
    """A child is made and gone again, whether or not kubelet knows of shares."""

    site = each_site
    site.open(LAB + 'mode = "shared"\n')
    for number in (11, 12):
        addresses = [{"address": f"192.0.2.{number}/24"}]
        site.claim(f"c{number}", request(of="nic-shared"), config=[nic_config(addresses=addresses)])

    pods = [site.run(f"p{number}", f"c{number}") for number in (11, 12)]

    pods[0].run("ping", "-c", "1", "-w", "10", "192.0.2.12")
    for pod in pods:
        pod.delete()
    assert site.node.ip("link", "show", "type", "macvlan") == ""
    site.wait_home("nic0", {**site.home("nic0"), "promiscuity": 0})


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_either_version_of_the_interface_serves_the_oldest_kubelet(
    old_site: Site, version: str
) -> None:
    """Kubelet 1.34 takes the version that is left to it, and the pod notices no difference."""

    old_site.open(LAB + ONE_VERSION.format(version))

    check_whole_life(old_site)


def test_the_older_version_serves_the_newest_kubelet(site: Site) -> None:
    """Kubelet 1.37 still takes `v1beta1` from a driver that offers nothing else."""

    site.open(LAB + ONE_VERSION.format("v1beta1"))

    check_whole_life(site)


def test_faulty_claim_is_refused_on_each_kind_of_node(each_site: Site) -> None:
    """The pod's event holds every fault, and the NIC stays free for the next pod."""

    site = each_site
    site.open()
    faulty = nic_config(interface={"mtu": 1}, addresses=[{"address": "192.0.2.0/24"}])
    site.claim("bad", config=[faulty])
    site.claim("good")

    bad = site.create("bad", "bad")
    told = bad.wait_refused()
    bad.delete()

    assert "interface.mtu: 1: it must be" in told
    assert "addresses[0].address:" in told
    site.run("good", "good")


def test_failed_attach_is_told_on_each_kind_of_node_and_leaves_nothing_behind(
    each_site: Site,
) -> None:
    """The sandbox is refused, or its container where the runtime would leak the sandbox."""

    site = each_site
    site.open(LAB + 'claims_may = ["eth0"]\n')
    at_home = site.home("nic0")
    site.claim("uplink", config=[nic_config(interface={"name": "eth0", "mtu": 1300})])

    pod = site.create("user", "uplink")
    told = pod.wait_event(REFUSED_BY[site.node.kind.name], "has a link 'eth0'")
    pod.delete()

    assert f"pod {site.namespace}/user" in told
    site.wait_home("nic0", at_home)
    assert sandboxes(site) == []
    assert site.log_lines("claim unprepared", "uplink")


def sandboxes(site: Site) -> list[str]:
    """Pod sandboxes that the runtime still runs."""
    return site.node.ctr("tasks", "list", "-q").split()


def test_second_pod_of_a_claim_is_refused_on_each_kind_of_node(each_site: Site) -> None:
    """It is not started, the first pod keeps the NIC, and the event names that pod."""

    site = each_site
    site.open()
    site.claim("uplink")
    first = site.run("first", "uplink")

    told = site.create("second", "uplink").wait_event(
        REFUSED_BY[site.node.kind.name], "is used by pod first"
    )

    assert f"claim {site.namespace}/uplink" in told
    assert first.links() == {"lo", "eth0", "net1"}
