"""The VRF of a NIC in its pod: its table, and what is still to be done for it."""

from __future__ import annotations

import pytest

from berth.errors import ClaimError
from berth.host.netlink.kinds import Bridge, Vrf
from berth.nic.plan import lacking, require_free_names
from berth.nic.view import View
from berth.nic.vrf import is_joined, join, leave, table_for
from tests.unit.nic.links import config_of, link_of, route_of, told

BLUE = config_of(vrf={"name": "blue", "table": 1001})
ANY = config_of(vrf={"name": "blue"})
THERE = link_of("blue", index=9, kind="vrf", kind_data=Vrf(table=1001))


def test_table_that_is_free() -> None:
    """The one that is asked for, or the first from 1000 on that neither VRF nor route uses."""

    other = link_of("red", index=8, kind="vrf", kind_data=Vrf(table=1000))
    routes = [route_of("10.0.0.0/8", table=1001), route_of("10.1.0.0/16")]

    assert table_for(ANY, [], []) == 1000
    assert table_for(ANY, [other], routes) == 1002
    assert table_for(BLUE, [other], []) == 1001


def test_table_of_a_vrf_that_is_there() -> None:
    """What was made before a crash, or before the hook came again, keeps its table."""

    assert table_for(ANY, [THERE], [route_of("10.0.0.0/8", table=1001)]) == 1001
    assert table_for(BLUE, [THERE], []) == 1001


def test_table_that_is_in_use() -> None:
    """It is never shared with what the pod has."""

    other = link_of("red", index=8, kind="vrf", kind_data=Vrf(table=1001))

    with pytest.raises(ClaimError, match="1001 is in use in the pod, by the VRF red"):
        table_for(BLUE, [other], [])
    with pytest.raises(ClaimError, match="1001 is in use in the pod, by a route"):
        table_for(BLUE, [], [route_of("10.0.0.0/8", table=1001)])


def test_link_that_is_not_in_its_vrf() -> None:
    """The VRF is made and joined, in this order; for one that is in it nothing is due."""

    steps = ["pod vrf: MakeVrf(name=blue, table=1001)", "pod vrf: JoinVrf(name=blue)"]
    bridge = link_of("br0", kind="bridge", kind_data=Bridge())

    assert told(join(BLUE, None)) == steps
    assert told(join(BLUE, View(link=link_of("net1")))) == steps
    assert told(join(BLUE, View(link=link_of("net1"), master=bridge))) == steps
    assert join(BLUE, View(link=link_of("net1"), master=THERE)) == ()
    assert join(config_of(), None) == ()


def test_link_that_left_its_vrf_is_told() -> None:
    """What is read back says so."""

    view = View(link=link_of("net1", ipv4_conf=dict(BLUE.sysctls.ipv4)))

    assert not is_joined(BLUE, view)
    assert is_joined(config_of(), view)
    assert lacking(BLUE, view, ()) == ("vrf",)


def test_vrf_is_taken_away_by_its_name() -> None:
    """It does not go with the link; without one nothing is taken away."""

    assert [change.name for change in leave(BLUE) if hasattr(change, "name")] == ["blue"]
    assert leave(config_of()) == ()


def test_name_that_the_pod_has_already() -> None:
    """The NIC stays at home, as when its own name is taken."""

    with pytest.raises(ClaimError, match=r"'blue' finds.*give vrf\.name another value"):
        require_free_names(BLUE, pod="team/pod", taken={"blue": "blue"})
