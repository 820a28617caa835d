"""What the packaged unit lets the daemon do on a machine, which filters device nodes too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labsite import LabSite
from tests.nspawn import probe
from tests.nspawn.test_sandbox import REFUSED, surprises

pytestmark = pytest.mark.slow

BLOCK_DEVICE = "/dev/berth-block"
# In a container nothing filters it.
ON_A_MACHINE = {**REFUSED, "block device": {"EPERM"}}


@pytest.fixture(name="furnished")
def _furnished(site: LabSite) -> Iterator[LabSite]:
    """A site with what the probe asks for: a link, the namespace of a pod, device nodes."""
    node = site.node
    node.run("modprobe", "-a", "tun", "loop")
    node.run("mknod", "-m", "0600", BLOCK_DEVICE, "b", "7", "0")
    node.ip("link", "add", "nic0", "type", "veth", "peer", "far0")
    node.ip("netns", "add", "early")
    yield site
    node.ip("-all", "netns", "delete")
    node.ip("link", "delete", "nic0")
    node.run("rm", BLOCK_DEVICE)


def test_sandbox_on_a_machine_grants_what_is_needed_and_nothing_else(furnished: LabSite) -> None:
    """As in a container; and a block device is refused by its number."""

    node = furnished.node
    with node.replaced(Path(probe.__file__), "Type=exec\nRestart=no\nWatchdogSec=0"):
        node.berthd.start()
        wait_file(furnished, probe.STARTED)
        node.ip("netns", "add", "late")
        node.write(str(probe.GO), "")
        wait_file(furnished, probe.VERDICT)
        verdict = json.loads(node.read(str(probe.VERDICT)))

    assert verdict.keys() == probe.WISHES.keys()
    assert surprises(verdict, ON_A_MACHINE) == {}


def wait_file(site: LabSite, path: Path) -> None:
    """Wait until a file is there."""
    site.wait_same(str(path), lambda: bool(site.node.run("ls", str(path))), True, limit_s=120)
