"""What frames of pods look like outside the machine: by their tags networks are told apart."""

from __future__ import annotations

import pytest

from tests.cluster.claimforms import nic_config, request
from tests.lab.labnode import SLOW
from tests.lab.labsite import LabSite
from tests.lab.wire import Answer, Tag, Wire

pytestmark = pytest.mark.slow

VF, PARENT = "nic-0000-21-10-0", "parent-0000-21-00-0"
ADDRESS = "192.0.2.10"
TENANT = f"""{SLOW}
[[nic.group]]
name = "vfs"
match = {{ kind = ["vf"] }}
defaults.vf = {{ vlan = 100, vlanQoS = 3 }}
"""
SHARED = f"""{SLOW}
[[nic.group]]
name = "lan"
mode = "shared"
match = {{ name = ["ens1"] }}
shared = {{ slots = 4, children = ["vlan"] }}
claims_may = ["vlan"]
"""


def test_frames_of_a_vf_have_the_tag_that_its_pf_sets(site: LabSite) -> None:
    """Who asks with its tag is answered with it; who asks without, or with another, is not."""

    site.node.ip("link", "set", "ens1", "up")
    site.node.make_vfs("ens1", 1)
    site.open(TENANT, nics=[], offers=[VF])
    site.claim("vf", config=[nic_config(addresses=[{"address": f"{ADDRESS}/24"}])])
    pod = site.run("user", "vf")

    _require_own_vlan_alone(site, Answer(mac=pod.link("net1")["address"], tag=Tag(100, priority=3)))


def test_frames_of_a_vlan_over_a_parent_have_its_tag(site: LabSite) -> None:
    """The same, where the pod's own link puts the tag in."""

    site.node.ip("link", "set", "ens1", "up")
    site.open(SHARED, nics=[], offers=[PARENT])
    config = nic_config(vlan={"id": 100}, addresses=[{"address": f"{ADDRESS}/24"}])
    site.claim("child", request(of="nic-shared"), config=[config])
    pod = site.run("user", "child")

    _require_own_vlan_alone(site, Answer(mac=pod.link("net1")["address"], tag=Tag(100)))


def _require_own_vlan_alone(site: LabSite, wished: Answer) -> None:
    wire = Wire(site.cluster.control.box, site.node.peer("ens1"))

    assert wire.who_has(ADDRESS, wished.tag) == wished
    assert wire.who_has(ADDRESS, None, limit_s=2) is None
    assert wire.who_has(ADDRESS, Tag(101), limit_s=2) is None
