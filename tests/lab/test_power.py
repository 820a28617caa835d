"""The machine loses power, or boots again, while pods have its VFs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import VFS
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

FIRST, SECOND = "nic-0000-21-10-0", "nic-0000-21-10-2"
RULE = "/etc/udev/rules.d/70-vfs.rules"
# What administrators have: VFs do not outlive a boot, and berth makes none.
VFS_AT_BOOT = (
    'ACTION=="bind", SUBSYSTEM=="pci", KERNEL=="0000:21:00.0", DRIVER=="igb",'
    ' ATTR{sriov_numvfs}="2"\n'
)


@pytest.fixture(name="lasting")
def _lasting(site: LabSite) -> Iterator[LabSite]:
    """A site whose VFs and units are there again after each boot."""
    node = site.node
    node.make_vfs("ens1", 2)
    node.write(RULE, VFS_AT_BOOT)
    site.open(VFS, nics=[], offers=[FIRST, SECOND])
    yield site
    node.run("rm", RULE)


def test_pod_has_its_vf_again_after_the_power_was_cut(lasting: LabSite) -> None:
    """Nothing of the boot before is trusted; the claim is prepared again under the same id.

    Kubelet and our daemon start together, and kubelet's first try succeeds.
    """

    config = nic_config(addresses=[{"address": "192.0.2.10/24"}])
    lasting.claim("vf", request(cel="own.vfIndex == 0"), config=[config])
    pod = lasting.run("user", "vf", restartPolicy="Always")
    held = _hold(lasting)
    lasting.node.run("sync")

    lasting.node.machine.cut_power()
    lasting.node.wait_ready()

    lasting.node.berthd.wait_ready()
    lasting.wait_same("links", pod.links, {"lo", "eth0", "net1"}, limit_s=lasting.limit_s)
    # The node was away; that it could not prepare the claim at once would be told as well.
    assert set(lasting.warnings()) <= {"user: NodeNotReady: Node is not ready"}
    assert _hold(lasting) == held
    assert pod.link("net1")["addresses"][0]["local"] == "192.0.2.10"
    pod.delete()
    lasting.wait_same("holds", lambda: lasting.listed("holds"), [], limit_s=30)
    lasting.wait_offered([FIRST, SECOND])


def _hold(site: LabSite) -> Object:
    """The one hold, without what is of one boot."""
    (hold,) = site.listed("holds")
    return {key: value for key, value in hold.items() if key not in {"sandbox", "since"}}
