"""Functions that keep the machine reachable through links that this host's kernel has none of."""

from __future__ import annotations

import pytest

from tests.lab.labnode import VFS
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

FIRST, SECOND = "nic-0000-21-10-0", "nic-0000-21-10-2"


def test_port_of_a_bond_that_leads_out_is_not_offered(site: LabSite) -> None:
    """By a default route behind the bond; it is offered again when the bond is gone."""

    node = site.node
    node.make_vfs("ens1", 2)
    site.open(VFS, nics=[], offers=[FIRST, SECOND])

    node.ip("link", "add", "out0", "type", "bond")
    node.ip("link", "set", "ens1v0", "down")
    node.ip("link", "set", "ens1v0", "master", "out0")
    node.ip("link", "set", "out0", "up")
    node.ip("address", "add", "203.0.113.2/24", "dev", "out0")
    node.ip("route", "add", "default", "via", "203.0.113.1", "dev", "out0", "metric", "5000")

    site.wait_offered([SECOND])
    (listed,) = (each for each in site.listed("devices") if each["ifname"] == "ens1v0")
    assert listed["reason"] == "uplink"
    node.ip("link", "delete", "out0")
    node.run("modprobe", "--remove", "bonding")
    site.wait_offered([FIRST, SECOND])
