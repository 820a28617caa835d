"""Links made over a shared parent, of the kinds that only a kernel with modules has."""

from __future__ import annotations

import pytest

from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

PARENT = "parent-0000-21-00-0"


def _settings(kind: str) -> str:
    return f"""{SLOW}
[[nic.group]]
name = "lan"
mode = "shared"
match = {{ name = ["ens1"] }}
shared = {{ slots = 4, children = ["{kind}"] }}
claims_may = ["vlan"]
"""


@pytest.mark.parametrize("kind", ["macvlan", "ipvlan", "vlan"])
def test_pod_has_a_child_of_the_parent_and_the_parent_stays(site: LabSite, kind: str) -> None:
    """The child reaches the wire; with the pod it is gone, and nothing of it is left."""

    node = site.node
    node.ip("link", "set", "ens1", "up")
    outside = site.peer("ens1").set_address("192.0.2.1/24")
    site.open(_settings(kind), nics=[], offers=[PARENT])
    at_home = site.home("ens1")
    extra = {"vlan": {"id": 100}} if kind == "vlan" else {}
    config = nic_config(addresses=[{"address": "192.0.2.10/24"}], **extra)
    site.claim("child", request(of="nic-shared"), config=[config])

    pod = site.run("user", "child")

    (link,) = pod.ip("-d", "link", "show", "net1")
    assert link["linkinfo"]["info_kind"] == kind
    assert site.home("ens1")["flags"] == at_home["flags"]
    if kind == "vlan":
        assert link["linkinfo"]["info_data"]["id"] == 100
    else:
        outside.ping("192.0.2.10")
    pod.delete()
    assert site.listed("holds") == []
    site.wait_home("ens1", at_home, limit_s=30)
