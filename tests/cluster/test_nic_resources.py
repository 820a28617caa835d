"""NICs that pods ask for by their limits, on a real kubelet and runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from berth.node.plugin.running import mark_name
from tests.cluster.claimforms import nic_config
from tests.cluster.pods import container, phase
from tests.cluster.site import Site, device
from tests.cluster.test_peripherals import POD_RESOURCES, asking, wait_allocatable

RESOURCE = "berth.dev/lab"
LAB = """
[[nic.group]]
name = "lab"
match.name = ["nic0", "nic1"]
door = "both"
attach = "nri"
defaults.addresses = [{ address = "192.0.2.10/24" }]
"""


@pytest.fixture(name="lab")
def _lab(site: Site) -> Site:
    """A site whose node offers one NIC at both doors."""
    site.open(config=LAB)
    wait_allocatable(site, 1, RESOURCE)
    return site


def test_pod_that_asks_by_its_limits_gets_its_nic_and_gives_it_back(lab: Site) -> None:
    """No claim, no class: the hook brings it as the group says, and home as it was."""

    peer = lab.peer("nic0").set_address("192.0.2.1/24")
    at_home = lab.home("nic0")

    pod = lab.run("old", containers=asking(1, RESOURCE))

    assert pod.links() == {"lo", "eth0", "net1"}
    peer.ping("192.0.2.10")
    assert f"PCIDEVICE_BERTH_DEV_LAB={device('nic0')}" in pod.run("env").splitlines()
    (hold,) = lab.listed("holds")
    assert (hold["door"], hold["stage"], hold["interface"]) == ("plugin", "attached", "net1")
    pod.delete()
    lab.wait_home("nic0", at_home)
    # A kubelet that is younger than a minute is not believed that a pod has ended.
    lab.wait_same("holds", lambda: lab.listed("holds"), [], limit_s=95)


def test_claim_and_limits_never_have_one_nic(lab: Site) -> None:
    """What a claim has is no longer allocatable; what a pod asked for is kept from claims."""

    lab.claim("uplink", config=[nic_config()])
    claiming = lab.run("claiming", "uplink")
    wait_allocatable(lab, 0, RESOURCE)
    waiting = lab.create("waiting", containers=asking(1, RESOURCE))
    lab.wait_same("waiting", lambda: phase(waiting.now), "Pending")
    assert claiming.links() == {"lo", "eth0", "net1"}

    claiming.delete()
    lab.cluster.wait_running(waiting.now, limit_s=60)
    assert waiting.links() == {"lo", "eth0", "net1"}
    late = lab.create("late", "uplink")
    late.wait_event("FailedScheduling", "cannot allocate all claims")


@contextlib.contextmanager
def _silent_kubelet(site: Site) -> Iterator[None]:
    """Kubelet tells nobody what its pods have; all else it does as ever."""
    path = site.node.path(POD_RESOURCES)
    aside = path.rename(path.with_suffix(".aside"))
    try:
        yield
    finally:
        aside.rename(path)


@pytest.mark.parametrize("value", ["", f"{RESOURCE}:{device('nic1')}"])
def test_pod_that_hides_its_mark_does_not_start_without_its_nic(lab: Site, value: str) -> None:
    """Of its environment its author's words are the last, and kubelet could not be asked."""

    peer = lab.peer("nic0").set_address("192.0.2.1/24")
    with _silent_kubelet(lab):
        pod = lab.create("hiding", containers=asking(1, RESOURCE, mark=value))
        pod.wait_event("Failed", "may have NICs, and kubelet does not say which")

    lab.cluster.wait_running(pod.now, limit_s=60)
    assert f"{mark_name(RESOURCE)}={value}" in pod.run("env").splitlines()
    assert pod.links() == {"lo", "eth0", "net1"}
    peer.ping("192.0.2.10")


def test_pod_that_was_made_while_the_daemon_slept_has_its_nic_though_it_hides_its_mark(
    lab: Site,
) -> None:
    """What the runtime tells of afterwards is looked at the same way."""

    lab.node.containerd.freeze()
    pod = lab.create("hiding", containers=asking(1, RESOURCE, mark=""))
    lab.wait_same("holds", lambda: len(lab.listed("holds")), 1, limit_s=30)
    lab.node.berthd.terminate()
    lab.node.containerd.thaw()
    lab.cluster.wait_running(pod.now, limit_s=60)
    assert pod.links() == {"lo", "eth0"}

    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    lab.wait_same("links", pod.links, {"lo", "eth0", "net1"}, limit_s=30)


def test_mark_of_another_pod_gives_nothing(lab: Site) -> None:
    """Neither to a pod that has a NIC of its own, nor to one that has none."""

    lab.node.add_nic("nic1")
    wait_allocatable(lab, 2, RESOURCE)
    owner = lab.run("owner", containers=asking(1, RESOURCE))
    (hold,) = lab.listed("holds")
    theirs = f"{RESOURCE}:{hold['device']}"
    named = [{"name": mark_name(RESOURCE), "value": theirs}]

    idle = lab.run("idle", containers=[container("main", env=named)])
    with _silent_kubelet(lab):
        other = lab.create("other", containers=asking(1, RESOURCE, mark=theirs))
        other.wait_event("Failed", "may have NICs, and kubelet does not say which")
    lab.cluster.wait_running(other.now, limit_s=60)

    assert idle.links() == {"lo", "eth0"}
    assert owner.links() == other.links() == {"lo", "eth0", "net1"}
    macs = {link["address"] for pod in (owner, other) for link in pod.ip("link", "show", "net1")}
    assert macs == {lab.home_mac("nic0"), lab.home_mac("nic1")}


def test_init_container_that_ends_is_refused_a_nic_of_its_own(lab: Site) -> None:
    """Kubelet shows nobody whose it is; it does not start without, and is told why."""

    first = container("first", resources={"limits": {RESOURCE: "1"}})
    pod = lab.create("early", initContainers=[first])

    pod.wait_event("Failed", "of init containers kubelet shows those that restart")
    pod.delete()


def test_init_container_has_the_nic_of_the_one_that_runs_on(lab: Site) -> None:
    """Kubelet gives the same to both, and shows it with the second."""

    said = ["sh", "-c", "ls /sys/class/net"]
    first = container("first", command=said, resources={"limits": {RESOURCE: "1"}})
    pod = lab.run("early", containers=asking(1, RESOURCE), initContainers=[first])

    assert pod.links() == {"lo", "eth0", "net1"}
    assert "net1" in pod.wait_said("net1", container="first")
