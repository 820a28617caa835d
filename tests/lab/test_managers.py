"""systemd-networkd beside VFs: what berth lends out it leaves alone, from the boot on.

Source: network.md §8, §10 row 8; the same with links of no PCI function: `tests/nspawn`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.labnode import SLOW, LabNode
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

LENT, WITNESS = "ens1v0", "ens1v1"
DEVICE, ADDRESS = "nic-0000-21-10-0", "0000:21:10.0"
MARKS, KEPT = "/run/berth-nics", "/var/lib/berth/nics"
FILE = "/etc/systemd/network/50-vfs.network"
CONFIG = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ pf = ["ens1#0"] }}
"""
NETWORK = "[Match]\nDriver=igbvf\n[Network]\nAddress=10.9.0.1/24\nLinkLocalAddressing=no\n"


@pytest.fixture(name="vfs")
def _vfs(site: LabSite) -> Iterator[LabSite]:
    """A site whose first function has two VFs, of which berth lends one out."""
    site.node.ip("link", "set", "ens1", "up")
    site.node.make_vfs("ens1", 2)
    yield site
    site.node.run("rm", "-rf", FILE)
    site.node.run("networkctl", "reload")
    site.node.run("sh", "-c", f"rm -f {MARKS}/*")


def setup_of(node: LabNode, link: str) -> str:
    """What networkd says that it does with a link."""
    return node.run("networkctl", "list", "--no-legend", link).split()[-1]


def addresses(node: LabNode, link: str) -> list[str]:
    """The IPv4 addresses of a link."""
    told = json.loads(node.ip("-json", "-4", "address", "show", "dev", link))
    return [one["local"] for item in told for one in item.get("addr_info", ())]


def test_vf_that_comes_home_is_not_configured(vfs: LabSite) -> None:
    """By a real claim; the VF beside it shows that networkd would."""

    node = vfs.node
    vfs.open(CONFIG, nics=[], offers=[DEVICE])
    vfs.wait_same("marks", lambda: node.run("ls", MARKS).split(), [ADDRESS], limit_s=30)
    node.write(FILE, NETWORK)
    node.run("networkctl", "reload")
    vfs.wait_same("networkd", lambda: setup_of(node, WITNESS), "configured", limit_s=60)
    at_home = vfs.home(LENT)
    vfs.claim("vf")

    pod = vfs.run("user", "vf")
    pod.delete()
    vfs.wait_home(LENT, at_home, limit_s=30)
    node.run("udevadm", "settle")

    assert (setup_of(node, LENT), addresses(node, LENT)) == ("unmanaged", [])
    assert addresses(node, WITNESS) == ["10.9.0.1"]


def test_vf_that_appears_before_the_daemon_is_not_configured(vfs: LabSite) -> None:
    """As at a boot: nothing is in the folder of this boot yet, and what lasts is known."""

    node = vfs.node
    vfs.open(CONFIG, nics=[], offers=[DEVICE])
    vfs.wait_same("marks", lambda: node.run("ls", KEPT).split(), [ADDRESS], limit_s=30)
    node.berthd.stop()
    node.remove_vfs("ens1")
    node.run("sh", "-c", f"rm -f {MARKS}/*")
    node.write(FILE, NETWORK)
    node.run("networkctl", "reload")

    node.make_vfs("ens1", 2)
    vfs.wait_same("networkd", lambda: setup_of(node, WITNESS), "configured", limit_s=60)
    node.run("udevadm", "settle")

    assert (setup_of(node, LENT), addresses(node, LENT)) == ("unmanaged", [])
