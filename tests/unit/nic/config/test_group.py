"""What a group says of claims is read when the node's settings are, by the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.nic import ChildKind, NicGroup, NicShared
from berth.model.device import NicMode
from berth.nic.config import AttachMode, read_groups
from berth.nic.config.group import GroupPolicy, covered
from tests.unit.nic.config.claims import FAST, entry, faults

PLACE = '[[nic.group]] 1 "fast": '


def _group(mode: NicMode = NicMode.EXCLUSIVE, slots: int = 32, **more: Any) -> NicGroup:
    shared = NicShared(slots=slots, children=(ChildKind.MACVLAN,))
    return NicGroup(**{"name": "fast", "mode": mode, "shared": shared, **more})


def _policy(**more: Any) -> GroupPolicy:
    policies, found = read_groups([_group(**more)])
    assert found == ()
    return policies["fast"]


def _faults(**more: Any) -> list[str]:
    """The faults of one group, without its place."""
    told = [str(fault) for fault in read_groups([_group(**more)])[1]]
    assert all(fault.startswith(PLACE) for fault in told)
    return [fault.removeprefix(PLACE) for fault in told]


@pytest.mark.parametrize(
    ("mode", "modes", "slots"),
    [
        (NicMode.EXCLUSIVE, (AttachMode.MOVE,), 1),
        (NicMode.SHARED, (AttachMode.MACVLAN,), 8),
        (NicMode.VFIO, (), 1),
    ],
)
def test_policy_when_of_each_mode(mode: NicMode, modes: tuple[AttachMode, ...], slots: int) -> None:
    """The group's mode says how its devices reach pods, and how many claims share one."""

    policy = _policy(mode=mode, slots=8)

    assert (policy.modes, policy.slots) == (modes, slots)


def test_groups_when_several_are_at_fault() -> None:
    """All faults of all groups are told at once, each with file, table, number and name."""

    groups = [
        _group(name="a", defaults={"interface": {"mtu": 20}, "mtu": 1}, claims_may=("rule",)),
        _group(name="b"),
        _group(name="c", defaults={"routes": [{"to": "10.0.0.1/8"}]}),
    ]
    _, found = read_groups(groups, file="/etc/berth/agent.toml")

    assert [str(fault) for fault in found] == [
        (
            '/etc/berth/agent.toml: [[nic.group]] 1 "a": claims_may[0]: "rule" is no field of '
            "NicConfig; did you mean rules?"
        ),
        (
            '/etc/berth/agent.toml: [[nic.group]] 1 "a": defaults.interface.mtu: '
            "20: it must be a whole number from 68 to 65535"
        ),
        (
            '/etc/berth/agent.toml: [[nic.group]] 1 "a": defaults.mtu: '
            "unknown field; did you mean interface.mtu?"
        ),
        (
            '/etc/berth/agent.toml: [[nic.group]] 3 "c": defaults.routes[0].to: '
            '"10.0.0.1/8" has bits behind its prefix: it must be a network with its prefix, '
            'such as "10.1.0.0/16", or "default"; write 10.0.0.0/8'
        ),
    ]


def test_defaults_when_they_name_version_and_kind() -> None:
    """In a group they are no fields."""

    found = _faults(defaults={"kind": "NicConfig"})

    assert len(found) == 1
    assert found[0].startswith("defaults.kind: unknown field")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            {"defaults": {"mode": "macvlan"}},
            'defaults.mode: "macvlan" does not fit the group: its devices reach pods by move',
        ),
        (
            {"defaults": {"mode": "move"}, "mode": NicMode.SHARED},
            'defaults.mode: "move" does not fit the group: its devices reach pods by macvlan',
        ),
        (
            {"defaults": {"mode": "move"}, "mode": NicMode.VFIO},
            (
                'defaults.mode: "move" does not fit the group: '
                "its devices reach pods by no way of this version"
            ),
        ),
        (
            {"defaults": {"macvlan": {"mode": "vepa"}}},
            (
                "defaults.macvlan.mode: needs mode macvlan: "
                "the group does not hand devices out that way"
            ),
        ),
        (
            {"defaults": {"inherit": ["routes"]}, "mode": NicMode.SHARED},
            "defaults.inherit: needs mode move: the group does not hand devices out that way",
        ),
        (
            {"defaults": {"macvlan": {"mode": "passthru"}}, "mode": NicMode.SHARED, "slots": 2},
            (
                'defaults.macvlan.mode: "passthru" with 2 slots in group "fast": '
                "it takes the whole parent; shared.slots = 1 in that group allows it"
            ),
        ),
    ],
)
def test_defaults_when_they_fit_no_claim(more: dict[str, Any], fault: str) -> None:
    """What could hold for no claim on the group is told at start, not at the first pod."""

    assert _faults(**more) == [fault]


@pytest.mark.parametrize(
    "more",
    [
        {"defaults": {"mode": "move", "inherit": ["routes"], "interface": {"mtu": 9000}}},
        {"defaults": {"mode": "macvlan", "macvlan": {"mode": "vepa"}}, "mode": NicMode.SHARED},
        {"defaults": {"macvlan": {"mode": "passthru"}}, "mode": NicMode.SHARED, "slots": 1},
        {"defaults": {"mode": None}},
        {"claims_may": ("rules", "eth0", "sysctls", "sysctls.ipv4.forwarding", "vf", "vf.trust")},
        {"claims_may": ("interface.hardwareAddr", "macvlan.mode", "macvlan", "interface")},
        {"claims_deny": ("routes", "interface", "interface.mtu", "mode", "rules")},
    ],
)
def test_group_when_well(more: dict[str, Any]) -> None:
    """What can hold for a claim is let through."""

    assert _faults(**more) == []


def test_mode_when_at_fault_already() -> None:
    """A mode that could not be read is told once."""

    assert len(_faults(defaults={"mode": "ipvlan"})) == 1


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"claims_may": ("zzz",)}, 'claims_may[0]: "zzz" is no field of NicConfig'),
        (
            {"claims_may": ("rules", "vf.turst")},
            'claims_may[1]: "vf.turst" is no field of NicConfig; did you mean vf.trust?',
        ),
        (
            {"claims_deny": ("interface.mut",)},
            'claims_deny[0]: "interface.mut" is no field of NicConfig; did you mean interface.mtu?',
        ),
        (
            {"claims_deny": ("mtu",)},
            'claims_deny[0]: "mtu" is no field of NicConfig; did you mean interface.mtu?',
        ),
        (
            {"claims_deny": ("routes[].via",)},
            'claims_deny[0]: "routes[].via" is no field of NicConfig; did you mean routes?',
        ),
        (
            {"claims_may": ("interface.mtu",)},
            'claims_may[0]: "interface.mtu" is not guarded: claims may set it anyway; drop it',
        ),
        (
            {"claims_may": ("rules",), "claims_deny": ("rules",)},
            'claims_deny[0]: "rules" stands in claims_may too; drop it from one of the two',
        ),
    ],
)
def test_rights_when_at_fault(more: dict[str, Any], fault: str) -> None:
    """Rights speak of fields that exist, and of what they can change."""

    assert _faults(**more) == [fault]


def test_fault_when_a_default_does_harm_to_a_claim() -> None:
    """A fault that only shows with a claim is told at the group's place, before the entries'."""

    policy = GroupPolicy(
        name="fast",
        modes=FAST.modes,
        root='[[nic.group]] 1 "fast"',
        defaults={"routes": [{"to": "default", "via": "10.0.0.1"}]},
    )

    assert faults(entry({"interface": {"mtu": 20}}), policy=policy) == [
        (
            f"{PLACE}defaults.routes[0].via: "
            "10.0.0.1 is not reachable by any address of this interface: "
            "give onLink or a link-scope route"
        ),
        "config[0].opaque.parameters.interface.mtu: 20: it must be a whole number from 68 to 65535",
    ]
    assert faults(entry({"addresses": [{"address": "10.0.0.5/24"}]}), policy=policy) == []


@pytest.mark.parametrize(
    ("path", "names", "wanted"),
    [
        ("interface.mtu", ["interface"], True),
        ("interface.mtu", ["interface.mtu"], True),
        ("interface.mtu", ["interface.mt", "inter", "mtu"], False),
        ("interface", ["interface.mtu"], False),
        ("interface", [], False),
    ],
)
def test_covered_when(path: str, names: list[str], *, wanted: bool) -> None:
    """A name covers itself and all that lies in it."""

    assert covered(path, names) is wanted
