"""The file system of the daemon's state is full or read-only: a real one, on its own device."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.cluster.claimforms import request
from tests.lab.labnode import VFS
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

FIRST, SECOND = "nic-0000-21-10-0", "nic-0000-21-10-2"
STATE, DISK = "/var/lib/berth", "/root/state.img"


@attrs.frozen(kw_only=True)
class Fault:
    """What befalls a disk.

    Attributes:
        folder: What lies on that disk.
        begin: Brings it about, there.
        end: Mends it.
        reason: The kernel's word for it.
    """

    folder: str
    begin: str
    end: str
    reason: str


FAULTS = {
    "full": Fault(
        folder=STATE,
        begin="dd if=/dev/zero of=filler bs=1k conv=fsync || true",
        end="rm filler",
        reason="No space left on device",
    ),
    # Not where the daemon's lock is open: that keeps a disk from being made read-only.
    "read-only": Fault(
        folder=f"{STATE}/claims",
        begin="mount -o remount,ro .",
        end="mount -o remount,rw .",
        reason="Read-only file system",
    ),
}


@pytest.fixture(name="fault", params=FAULTS)
def _fault(request: pytest.FixtureRequest, site: LabSite, tmp_path: Path) -> Iterator[Fault]:
    """What is to befall the disk that the daemon of a site with two VFs is given."""
    fault = FAULTS[request.param]
    node, disk = site.node, tmp_path / "state.img"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", disk, "4M"], check=True)
    node.write(DISK, disk.read_bytes())
    node.run("modprobe", "loop")
    node.run("mkdir", "-p", fault.folder)
    node.run("mount", "-o", "loop", DISK, fault.folder)
    node.run("rmdir", f"{fault.folder}/lost+found")
    node.make_vfs("ens1", 2)
    yield fault
    site.cluster.drain(node.name)
    node.berthd.stop()
    node.run("umount", fault.folder)
    node.run("rm", DISK)


def test_disk_that_takes_nothing_gives_no_vf_and_takes_none_from_a_pod(
    site: LabSite, fault: Fault
) -> None:
    """The claim is refused by path and reason; a pod that ends gives its VF back all the same."""

    site.open(VFS, nics=[], offers=[FIRST, SECOND])
    at_home = {name: site.home(name) for name in ("ens1v0", "ens1v1")}
    site.claim("running", request(cel="own.vfIndex == 0"))
    site.claim("refused", request(cel="own.vfIndex == 1"))
    running = site.run("running", "running")

    site.node.run("env", "-C", fault.folder, "sh", "-c", fault.begin)
    refused = site.create("refused", "refused")
    told = refused.wait_event("FailedPrepareDynamicResources", fault.reason)
    assert fault.folder in told
    assert running.links() == {"lo", "eth0", "net1"}
    site.wait_home("ens1v1", at_home["ens1v1"])
    site.api.delete(running.path)
    site.wait_home("ens1v0", at_home["ens1v0"], limit_s=60)
    site.node.run("env", "-C", fault.folder, "sh", "-c", fault.end)

    site.api.wait_gone(running.path, limit_s=site.limit_s)
    refused.nudge()
    site.cluster.wait_running(refused.now, limit_s=site.limit_s)
    assert refused.links() == {"lo", "eth0", "net1"}
    refused.delete()
    site.wait_home("ens1v1", at_home["ens1v1"], limit_s=60)
    site.wait_same("holds", lambda: site.listed("holds"), [], limit_s=60)
