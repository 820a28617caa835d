"""What children of one parent have to do with each other (row 30)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from berth.nic.config import AttachMode, DeviceFacts, GroupPolicy, HostFacts
from berth.nic.config.devicefacts import Child
from tests.unit.nic.config.claims import (
    PARENT,
    SHARED,
    class_faults,
    entry,
    nic_result,
    resolved,
)

OTHERS = attrs.evolve(PARENT, modes=(AttachMode.IPVLAN, AttachMode.VLAN))
OTHER = "claim team/other"
VLAN: dict[str, Any] = {"mode": "vlan", "vlan": {"id": 7}}


def _faults(
    parameters: dict[str, Any],
    *children: Child,
    policy: GroupPolicy = OTHERS,
    facts: DeviceFacts = SHARED,
) -> list[str]:
    """What is told of a child beside others of the same parent."""
    host = HostFacts(children={facts.identity: children, "pci:0000:99:00.0": (Child(kind="vlan"),)})
    return class_faults(parameters, facts=facts, policy=policy, host=host)


def test_child_when_nothing_speaks_against_it() -> None:
    """Each kind by itself; a VLAN has its parent's address unless it is given one."""

    assert _faults({"mode": "ipvlan"}) == []
    assert _faults(VLAN) == []
    assert _faults({**VLAN, "interface": {"hardwareAddr": "02:00:00:00:00:01"}}) == []


def test_vlan_when_no_number_is_given() -> None:
    """A child is of one VLAN, which nobody guesses."""

    assert _faults({"mode": "vlan"}) == ['mode: "vlan" without vlan.id: a child is of one VLAN']


def test_ipvlan_when_a_hardware_address_is_given() -> None:
    """The kernel would ignore it at creation."""

    mac = "02:00:00:00:00:01"
    found = _faults({"mode": "ipvlan", "interface": {"hardwareAddr": mac}})

    assert found == [
        f"interface.hardwareAddr: {mac} on an ipvlan child: it has the parent's; drop it"
    ]


@pytest.mark.parametrize("kind", ["ipvlan", "vlan"])
def test_child_when_the_parent_is_no_ethernet(kind: str) -> None:
    """There are none over InfiniBand."""

    facts = attrs.evolve(SHARED, link_type="infiniband")
    (fault,) = _faults({"mode": kind, "vlan": {"id": 7} if kind == "vlan" else None}, facts=facts)

    assert fault.endswith(f"a {kind} child over a link of type infiniband cannot be made")


def test_ipvlan_when_another_mode_than_the_groups() -> None:
    """The mode is the parent's: it stands in the node's settings, and a class only repeats it."""

    policy = attrs.evolve(OTHERS, defaults={"ipvlan": {"mode": "l3"}})
    wish = {"mode": "ipvlan", "ipvlan": {"mode": "l3s", "flag": "vepa"}}

    assert _faults({"mode": "ipvlan", "ipvlan": {"mode": "l3"}}, policy=policy) == []
    assert _faults({"mode": "ipvlan"}, policy=policy) == []
    assert _faults(wish, policy=policy) == [
        (
            'ipvlan.mode: "l3s" is not that of the parent: group "parent" says "l3" for all of '
            "its children; write it into the group's defaults, or drop ipvlan.mode"
        ),
        (
            'ipvlan.flag: "vepa" is not that of the parent: group "parent" says "bridge" for all '
            "of its children; write it into the group's defaults, or drop ipvlan.flag"
        ),
    ]


@pytest.mark.parametrize(
    ("wish", "other", "fault"),
    [
        ({"mode": "ipvlan"}, Child(kind="ipvlan", sort=("l2", "bridge")), ""),
        (
            {"mode": "ipvlan"},
            Child(kind="ipvlan", sort=("l3", "bridge"), holder=OTHER),
            (
                f"l2/bridge beside l3/bridge ({OTHER}): "
                "the parent's other children would be switched over"
            ),
        ),
        (
            {"mode": "ipvlan"},
            Child(kind="macvlan", holder=OTHER),
            (
                f'mode: "ipvlan" beside a child of kind macvlan ({OTHER}): '
                "a parent carries only one of the two"
            ),
        ),
        ({"mode": "ipvlan"}, Child(kind="vlan", sort=("7", "802.1Q")), ""),
        (VLAN, Child(kind="vlan", sort=("8", "802.1Q")), ""),
        (VLAN, Child(kind="vlan", sort=("7", "802.1ad")), ""),
        (
            VLAN,
            Child(kind="vlan", sort=("7", "802.1Q"), holder=OTHER),
            (
                f"vlan.id: 802.1Q 7 of the parent is in use ({OTHER}): "
                "a parent has one child for each VLAN"
            ),
        ),
    ],
)
def test_child_when_beside_another(wish: dict[str, Any], other: Child, fault: str) -> None:
    """Whether the other one is another claim's or the node's own is all the same."""

    facts = attrs.evolve(SHARED, children=(other,))

    for found in (_faults(wish, other), _faults(wish, facts=facts)):
        assert [each.removeprefix('nic-0000-41-00-0 (request "nic"): ') for each in found] == (
            [fault] if fault else []
        )


def test_macvlan_when_beside_ipvlan() -> None:
    """The kernel would answer EBUSY, in the hook."""

    (fault,) = _faults({}, Child(kind="ipvlan", holder=OTHER), policy=PARENT)

    assert fault.endswith(
        f'"macvlan" beside a child of kind ipvlan ({OTHER}): a parent carries only one of the two'
    )


def test_vlan_when_two_shares_of_a_claim_want_the_same() -> None:
    """Both children of one parent are in one claim: the second is refused, another VLAN is not."""

    results = [nic_result("a", share_id="s1"), nic_result("b", share_id="s2")]
    (fault,) = class_faults(VLAN, facts=SHARED, policy=OTHERS, results=results)

    assert fault.startswith("vlan.id: clashes with that of nic-0000-41-00-0 (claim team/claim, ")
    may = attrs.evolve(OTHERS, claims_may=("vlan.id",))
    wishes = [
        entry({"mode": "vlan", "vlan": {"id": number}}, index=number, requests=[request])
        for number, request in ((7, "a"), (8, "b"))
    ]
    nics = resolved(*wishes, facts=SHARED, policy=may, results=results)
    assert [nic.config.vlan.id for nic in nics] == [7, 8]
