"""What a group says of claims is read when the node's settings are, by the same rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.config.load import check
from berth.config.nic import NicTable
from berth.config.nicgroup import ChildKind, NicGroup, NicShared
from berth.config.schema import Config
from berth.errors import ConfigError
from berth.model.device import NicMode
from berth.nic.config import AttachMode, check_groups, policies_of
from berth.nic.config.group import GroupPolicy, covered
from berth.nic.config.report import FAULT_LIMIT, dotted
from tests.unit.nic.config.claims import FAST, entry, faults

PLACE = '[[nic.group]] 1 "fast": '


def _group(mode: NicMode = NicMode.EXCLUSIVE, slots: int = 32, **more: Any) -> NicGroup:
    shared = NicShared(slots=slots, children=(ChildKind.MACVLAN,))
    return NicGroup(**{"name": "fast", "mode": mode, "shared": shared, **more})


def _faults(**more: Any) -> list[str]:
    """The faults of one group, without its place."""
    found = list(check_groups(Config(nic=NicTable(groups=(_group(**more),)))))
    assert {each.steps[:3] for each in found} <= {("nic", "group", 0)}
    rest = (str(ConfigError("", each.found, rule=each.rule, mend=each.mend)) for each in found)
    return [f"{dotted(f.steps[3:])}{f.joint}{text}" for f, text in zip(found, rest, strict=True)]


@pytest.mark.parametrize(
    ("mode", "modes", "slots"),
    [
        (NicMode.EXCLUSIVE, (AttachMode.MOVE,), 1),
        (NicMode.SHARED, (AttachMode.MACVLAN,), 8),
        (NicMode.VFIO, (AttachMode.VFIO,), 1),
    ],
)
def test_policy_when_of_each_mode(mode: NicMode, modes: tuple[AttachMode, ...], slots: int) -> None:
    """The group's mode says how its devices reach pods, and how many claims share one."""

    policy = policies_of([_group(mode=mode, slots=8)])["fast"]

    assert (policy.modes, policy.slots) == (modes, slots)


def test_policies_when_of_several_groups() -> None:
    """Each group is told by its number and name."""

    policies = policies_of([_group(name="a"), _group(name="b", claims_may=("rules",))])

    assert [policy.root for policy in policies.values()] == [
        '[[nic.group]] 1 "a"',
        '[[nic.group]] 2 "b"',
    ]
    assert policies["b"].lets_claims_set("rules")
    assert not policies["a"].lets_claims_set("rules")


FILE = """\
[[nic.group]]
name = "a"
match = { driver = ["mlx5_core"] }
claims_may = ["rules", "sysctls.ipv4.proxy_arp", "rule"]
defaults = { interface = { mtu = 20 } }

[[nic.group]]
name = "b"
match = { driver = ["ice"] }
defaults = { mtu = 9000 }
modes = "exclusive"

[[nic.group]]
name = "c"
match = { driver = ["igb"] }

[nic.group.defaults]
routes = [{ to = "10.0.0.1/8" }, { via = 1979-05-27 }]
"""


def test_groups_when_several_are_at_fault(tmp_path: Path) -> None:
    """All faults of all groups stand among the file's own, each with line, table and name."""

    path = tmp_path / "agent.toml"
    path.write_text(FILE)
    report = check(path, also=[check_groups])

    told = [str(fault).removeprefix(f"{path}:") for fault in report.faults]
    a, b, c = '[[nic.group]] 1 "a":', '[[nic.group]] 2 "b":', '[[nic.group]] 3 "c":'
    assert [fault for fault in told if "modes" not in fault] == [
        f'4: {a} claims_may[2]: "rule" is no field of NicConfig; did you mean rules?',
        f"5: {a} defaults.interface.mtu: 20: it must be a whole number from 68 to 65535",
        f"10: {b} defaults.mtu: unknown field; did you mean interface.mtu?",
        (
            f'18: {c} defaults.routes[0].to: "10.0.0.1/8" has bits behind its prefix: '
            'it must be a network with its prefix, such as "10.1.0.0/16", or "default"; '
            "write 10.0.0.0/8"
        ),
        (
            f'18: {c} defaults.routes[1].via: "1979-05-27": '
            'it must be an address without prefix, such as "10.0.0.1"'
        ),
        (
            f"18: {c} defaults.routes[1]: lacks to: it must be given: "
            'a network with its prefix, such as "10.1.0.0/16", or "default"'
        ),
    ]
    assert len(told) == 7
    assert "modes" in told[3]


def test_groups_when_faults_are_beyond_counting() -> None:
    """Of one group the first faults are told, and the rest is counted."""

    found = _faults(defaults={f"x{number}": 0 for number in range(FAULT_LIMIT + 5)})

    assert len(found) == FAULT_LIMIT + 1
    assert found[-1] == ": and 5 more, not shown"


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
            'defaults.mode: "move" does not fit the group: its devices reach pods by vfio',
        ),
        (
            {"defaults": {"interface": {"mtu": 9000}}, "mode": NicMode.VFIO},
            (
                "defaults.interface.mtu: without effect in mode vfio: "
                "a function that vfio-pci has is no interface of the pod; drop it"
            ),
        ),
        (
            {"defaults": {"vfio": {"iommufd": True}}},
            (
                "defaults.vfio.iommufd: needs mode vfio: "
                "the group does not hand devices out that way"
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

    assert len(_faults(defaults={"mode": "ipvlna"})) == 1


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
