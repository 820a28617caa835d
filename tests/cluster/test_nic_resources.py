"""NICs that pods ask for by their limits, on a real kubelet and runtime."""

from __future__ import annotations

import pytest

from tests.cluster.claimforms import nic_config
from tests.cluster.pods import phase
from tests.cluster.site import Site, device
from tests.cluster.test_peripherals import asking, wait_allocatable

RESOURCE = "berth.dev/lab"
LAB = """
[[nic.group]]
name = "lab"
match.name = ["nic0"]
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
