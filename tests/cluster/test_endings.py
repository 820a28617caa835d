"""However a pod ends, its NIC is home exactly as it was, and free for the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.claimforms import nic_config
from tests.cluster.pods import container, is_running, phase
from tests.cluster.site import LAB, PodView, Site, device

OWN_NAME, POD_NAME = "nic0", "data0"
AT_HOME = (
    "link set dev nic0 down",
    "link set dev nic0 mtu 1420 address 02:00:5e:10:00:01 txqueuelen 333 alias storage group 7",
    "link property add dev nic0 altname storage-a altname storage-b",
    "link set dev nic0 gso_max_size 40000 allmulticast on",
    "link set dev nic0 up",
    "address add 203.0.113.5/24 dev nic0",
    "address add 2001:db8:5::5/64 dev nic0 nodad",
    "route add 198.18.0.0/15 via 203.0.113.1 dev nic0 metric 77",
    "neighbor add 203.0.113.9 lladdr 02:00:5e:10:00:99 dev nic0",
)
IN_POD = {
    "interface": {
        "name": POD_NAME,
        "mtu": 1300,
        "hardwareAddr": "02:00:5e:10:00:02",
        "txQueueLen": 5,
        "gsoMaxSize": 20000,
    },
    "addresses": [{"address": "192.0.2.10/24"}],
    "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.1"}],
    "sysctls": {"ipv4": {"arp_ignore": 1}},
}
# What an application with the right to do so may leave on a link.
MISCHIEF = (
    f"ip link set {POD_NAME} promisc on multicast off mtu 1280 qlen 9; "
    f"ip link set {POD_NAME} down; ip link set {POD_NAME} address 02:00:5e:10:00:03; "
    f"ip link set {POD_NAME} name other; "
    "ip link set other up; ip address add 192.0.2.200/24 dev other"
)
# Ends when it is told how.
OBEDIENT = "until [ -s /tmp/end ]; do sleep 0.1; done; exit $(cat /tmp/end)"


def _delete(_site: Site, pod: PodView) -> None:
    pod.delete()


def _force(_site: Site, pod: PodView) -> None:
    pod.delete(grace_s=0)


def _exit_with(code: int, wanted: str) -> Callable[[Site, PodView], None]:
    def end(_site: Site, pod: PodView) -> None:
        pod.run("sh", "-c", f"echo {code} > /tmp/end")
        pod.wait(lambda now: phase(now) == wanted, what=f"is {wanted}")

    return end


def _drain(site: Site, pod: PodView) -> None:
    try:
        site.cluster.kubectl("drain", site.node.name, "--force", "--ignore-daemonsets")
    finally:
        site.cluster.kubectl("uncordon", site.node.name)


def _evict_by_deadline(site: Site, pod: PodView) -> None:
    site.api.merge(pod.path, {"spec": {"activeDeadlineSeconds": 1}})
    pod.wait(lambda now: phase(now) == "Failed", what="is Failed")


ENDINGS = {
    "deleted": _delete,
    "completed": _exit_with(0, "Succeeded"),
    "failed": _exit_with(3, "Failed"),
    "force-deleted": _force,
    "drained": _drain,
    "stopped-by-deadline": _evict_by_deadline,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nic_is_home_exactly_as_it_was_after_its_pod(site: Site, ending: str) -> None:
    """Name, altnames, MTU, MAC, flags, addresses, routes, sysctls … and the next pod gets it."""

    site.node.add_nic("nic0")
    for each in AT_HOME:
        site.node.ip(*each.split())
    site.node.run("sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/nic0/rp_filter")
    site.open(LAB + "take_configured = true\n")
    as_it_was = site.home("nic0")
    site.template("one", config=[nic_config(**IN_POD)])
    rights = {"capabilities": {"add": ["NET_ADMIN"]}}
    main = container("main", "one", command=["sh", "-c", OBEDIENT], securityContext=rights)
    pod = site.run("first", templates=["one"], containers=[main])
    pod.run("sh", "-c", MISCHIEF)

    ENDINGS[ending](site, pod)

    site.wait_home("nic0", as_it_was)
    assert site.log_lines("NIC home", device("nic0"))
    next_pod = site.run("second", templates=["one"])
    assert next_pod.link(POD_NAME)["address"] == "02:00:5e:10:00:02"
    assert next_pod.link(POD_NAME)["promiscuity"] == 0


def test_nic_is_not_touched_by_the_restart_of_a_container(site: Site) -> None:
    """The sandbox lives on, and the new container finds the link as its application left it."""

    site.open()
    site.claim("uplink", config=[nic_config(**IN_POD)])
    main = container("main", "uplink", command=["sh", "-c", OBEDIENT])
    pod = site.run("user", "uplink", containers=[main], restartPolicy="Always")
    before = pod.link(POD_NAME)

    pod.run("sh", "-c", "echo 0 > /tmp/end")
    pod.wait(
        lambda now: (
            now["status"]["containerStatuses"][0]["restartCount"] == 1
            and "running" in now["status"]["containerStatuses"][0]["state"]
        ),
        what="restarted",
    )

    assert pod.link(POD_NAME) == before
    newest, _ = pod.metadata("resourceclaims/uplink/nic")
    assert newest["metadata"]["generation"] == 2
    assert not site.log_lines("NIC home")


def test_new_sandbox_of_the_same_pod_gets_the_nic_again(site: Site) -> None:
    """When a sandbox dies kubelet asks for no new prepare; the NIC follows the pod all the same."""

    site.open()
    at_home = site.home("nic0")
    site.claim("uplink", config=[nic_config(**IN_POD)])
    pod = site.run("user", "uplink", restartPolicy="Always")
    before = pod.link(POD_NAME)
    container_was = pod.now["status"]["containerStatuses"][0]["containerID"]

    site.kill_sandbox(pod)
    pod.wait(
        lambda now: (
            is_running(now)
            and now["status"]["containerStatuses"][0]["containerID"] != container_was
        ),
        what="in a new sandbox",
    )

    after = PodView(site, "user")
    assert after.link(POD_NAME) == before
    assert len(site.log_lines("claim prepared")) == 1
    after.delete()
    site.wait_home("nic0", at_home)
