"""The daemon is killed, or the machine loses power, in the midst of giving or taking back a VF."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import crashing
from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config
from tests.cluster.pods import is_running
from tests.cluster.site import PodView
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite
from tests.lab.test_power import RULE, VFS_AT_BOOT

pytestmark = pytest.mark.slow

VFS = ["nic-0000-21-10-0", "nic-0000-21-10-2"]
TENANT = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
defaults.vf = {{ vlan = 100, spoofCheck = false, trust = true, adminMAC = true }}
defaults.interface.hardwareAddr = "02:00:00:00:00:99"
"""
ADDRESS = nic_config(addresses=[{"address": "192.0.2.10/24"}])
FUSE = "/run/berth/fuse"
"""Where the unit's sandbox lets it be used up."""
STEPS = (1, 3)
"""Before which steps it dies; before each step does it by `cluster/test_crashes.py`, on a veth."""


@pytest.fixture(name="fused")
def _fused(site: LabSite) -> Iterator[LabSite]:
    """A site with two VFs, after a boot too, whose daemon dies or stops where it is told to."""
    node = site.node
    node.make_vfs("ens1", 2)
    node.write(RULE, VFS_AT_BOOT)
    with node.replaced(Path(crashing.__file__), f"Environment=BERTHD_FUSE={FUSE}"):
        site.open(TENANT, nics=[], offers=VFS)
        yield site
        site.cluster.drain(node.name)
    node.run("rm", RULE)


def test_daemon_killed_between_steps_leaves_nothing_half_done(fused: LabSite) -> None:
    """In a prepare, in the hook, on the way home: the pod has its VF whole, the VF is as it was."""

    before = kept(fused)
    for step in STEPS:
        arm(fused, "stage", step)
        pod = create(fused, f"pod{step}")
        assert wait_spent(fused, pod)
        arm(fused, "attach", step)
        pod.wait_event("FailedPrepareDynamicResources")
        pod.nudge()
        fused.cluster.wait_running(pod.now, limit_s=fused.limit_s)
        wait_whole(fused, pod)
        assert not is_armed(fused)
        arm(fused, "return", step)
        pod.delete()
        fused.wait_same("holds", lambda: fused.listed("holds"), [], limit_s=120)
        assert not is_armed(fused)
        assert kept(fused) == before
        fused.wait_offered(VFS)


def test_power_cut_in_the_midst_of_a_prepare_leaves_nothing_half_done(fused: LabSite) -> None:
    """What was on disk then is undone after the boot; kubelet asks again, and the pod runs."""

    before = kept(fused)
    arm(fused, "stage", 2, signal.SIGSTOP)
    # What the test wrote shall outlive the power; of the daemon's nothing does but what it saw to.
    fused.node.run("sync")
    pod = create(fused, "user")
    assert wait_spent(fused, pod)

    fused.node.machine.cut_power()
    fused.node.wait_ready()

    fused.cluster.wait_running(pod.now, limit_s=fused.limit_s)
    wait_whole(fused, pod)
    pod.delete()
    fused.wait_same("holds", lambda: fused.listed("holds"), [], limit_s=120)
    fused.wait_offered(VFS)
    assert [each | {"address": ""} for each in kept(fused)] == [
        each | {"address": ""} for each in before
    ]


def test_vf_changed_in_the_last_moment_is_taken_back_and_brought_again(fused: LabSite) -> None:
    """NW §10 row 3: between our last look at home and the move somebody sets another MTU."""

    before = kept(fused)
    arm(fused, "attach", 0, signal.SIGSTOP)
    fused.claim("user", config=[nic_config(interface={"mtu": 1400})])
    pod = fused.create("user", "user")
    assert wait_spent(fused, pod)
    fused.node.ip("link", "set", "ens1v0", "mtu", "1300")
    fused.node.berthd.send(signal.SIGCONT)

    told = pod.wait_event("FailedCreatePodSandBox", "does not show interface.mtu")
    assert "every NIC of the pod is home" in told
    fused.cluster.wait_running(pod.now, limit_s=fused.limit_s)
    assert pod.link("net1")["mtu"] == 1400
    pod.delete()
    fused.wait_same("holds", lambda: fused.listed("holds"), [], limit_s=120)
    assert kept(fused) == before
    assert fused.home("ens1v0")["mtu"] == 1500


def arm(site: LabSite, phase: str, step: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the daemon get a signal at that step of a phase; see `crashing.py`."""
    site.node.write(FUSE, f"{phase} {step} {number.name}")


def is_armed(site: LabSite) -> bool:
    """Whether the fuse was not used up."""
    return bool(site.node.run("find", "/run/berth", "-name", "fuse"))


def create(site: LabSite, name: str) -> PodView:
    """Create a claim and a pod with it, both of that name."""
    site.claim(name, config=[ADDRESS])
    return site.create(name, name)


def wait_spent(site: LabSite, pod: PodView) -> bool:
    """Wait until the fuse was used up, or the pod runs for want of so many steps; gives which."""

    def waits() -> bool:
        return is_armed(site) and not is_running(pod.now)

    site.wait_same("fuse or pod", waits, False, limit_s=site.limit_s)
    return not is_armed(site)


def wait_whole(site: LabSite, pod: PodView) -> None:
    """Wait until its VF has all that its group and its claim give it."""

    def seen() -> tuple[str, list[str]]:
        link = pod.link("net1")
        own = [each["local"] for each in link["addresses"] if each["family"] == "inet"]
        return link["address"], own

    wished = ("02:00:00:00:00:99", ["192.0.2.10"])
    site.wait_same(f"the VF of {pod.name}", seen, wished, limit_s=site.limit_s)


def kept(site: LabSite) -> list[Object]:
    """What the PF keeps for each of the two."""
    return [site.kept_for(number) for number in (0, 1)]
