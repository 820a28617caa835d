"""The [[generic]] tables: what a group may say, and what must hold among groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.doors import Door, Inject
from berth.config.generic import (
    PERMISSIONS,
    RESOURCE,
    Beside,
    BindMount,
    GenericGroup,
)
from berth.config.genericmatch import GenericMatch
from berth.config.template import Template
from berth.model.pathglob import PathGlob
from tests.unit.config.reading import check_text, faults, read_table, read_value


def _group(text: str) -> list[str]:
    """What is said of a group, given by its keys less name and match."""
    whole = f'name = "g"\nmatch.path = "/dev/snd/pcmC*D*c"\n{text}'
    return read_table(GenericGroup, whole)[1]


def _groups(tmp_path: Path, *texts: str) -> list[str]:
    """What is said of several groups, each given by its keys less the name."""
    whole = "".join(
        f'[[generic]]\nname = "g{number}"\n{text}\n' for number, text in enumerate(texts, start=1)
    )
    return faults(check_text(tmp_path, whole))


def test_group_with_every_key_is_read() -> None:
    """Each key reaches its attribute."""
    text = """
        name = "capture"
        match.path = "/dev/snd/pcmC*D0c"
        nodes = ["{node}", "/dev/snd/seq"]
        with = [{ path = "/dev/snd/controlC{1}" }, { path = "/dev/snd/timer", optional = true }]
        rename = "/dev/capture{index}"
        permissions = "wr"
        mounts = [{ host = "/etc/alsa", path = "/etc/{name}", read_only = false }]
        env = { ALSA_CARD = "{1}" }
        count = 4
        allow_block = true
        allow_outside_dev = true
        attributes = { bench = 3 }
        door = "auto"
        resource = "lab.example/capture"
        inject = "specs"
        admin_permissions = "rm"
    """
    group = GenericGroup(
        name="capture",
        match=GenericMatch(path=(PathGlob("/dev/snd/pcmC*D0c"),)),
        nodes=(Template("{node}"), Template("/dev/snd/seq")),
        beside=(
            Beside(path=Template("/dev/snd/controlC{1}")),
            Beside(path=Template("/dev/snd/timer"), optional=True),
        ),
        rename=Template("/dev/capture{index}"),
        permissions="rw",
        mounts=(
            BindMount(host=Template("/etc/alsa"), path=Template("/etc/{name}"), read_only=False),
        ),
        env={"ALSA_CARD": Template("{1}")},
        count=4,
        allow_block=True,
        allow_outside_dev=True,
        attributes={"bench": 3},
        door=Door.AUTO,
        resource="lab.example/capture",
        inject=Inject.SPECS,
        admin_permissions="rm",
    )

    assert (group, []) == read_table(GenericGroup, text)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """With file, line, place, what is allowed, and how to mend it."""
    text = """\
[[generic]]
name = "modem"
match = { usb = { vendor = 403 } }
count = 2000
permission = "rw"
permissions = "rx"
health = { interval_s = 60 }
[[generic]]
match = {}
"""

    assert faults(check_text(tmp_path, text)) == [
        (
            'agent.toml:3: [[generic]] 1 "modem": match.usb.vendor is the number 403: '
            'it must be 4 hex digits in quotes, such as "0403", or a pattern of them with *; '
            'write "0403"'
        ),
        (
            'agent.toml:4: [[generic]] 1 "modem": count is 2000: '
            "it must be a whole number from 1 to 1024"
        ),
        (
            'agent.toml:5: [[generic]] 1 "modem": permission is unknown: the keys here are name, '
            "match, nodes, with, rename, permissions, mounts, env, count, allow_block, "
            "allow_outside_dev, attributes, door, resource, inject, admin_permissions, node_cost, "
            "skip_node_operations, health and bind; nearest is permissions"
        ),
        'agent.toml:6: [[generic]] 1 "modem": permissions is "rx": it must be a subset of "rwm"',
        (
            'agent.toml:7: [[generic]] 1 "modem": health comes to timeout_s = 90 with '
            "interval_s = 60 and deadline_s = 2: the timeout must be at least twice the other two "
            "together; write timeout_s = 124, or look more often"
        ),
        (
            "agent.toml:8: [[generic]] 2 lacks name: it must be given: "
            "at most 63 lower-case letters, digits and inner hyphens"
        ),
        (
            "agent.toml:9: [[generic]] 2: match has no condition: "
            "it would select every device node; "
            "give at least one of path, subsystem, usb, pci, properties and attributes"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('rename = "/dev/{3}"', "rename holds {3}"),
        ('env = { A = "{4}" }', "[env] A holds {4}"),
        ('with = [{ path = "/dev/{9}" }]', "[[with]] 1: path holds {9}"),
        ('mounts = [{ host = "/x/{3}" }]', "[[mounts]] 1: host holds {3}"),
        ('nodes = ["/dev/a{3}"]', "nodes holds {3}"),
    ],
)
def test_place_without_its_wildcard_is_refused(text: str, words: str) -> None:
    """The path has two wildcards."""

    assert _group(text) == [
        (
            f"{words}: it stands for a wildcard of match.path, which has 2; "
            "drop it, or add the wildcard"
        )
    ]


def test_place_counts_in_every_path() -> None:
    """A device may be found by the path that has fewest wildcards, or by none."""
    start = 'name = "g"\nenv = { A = "{1}" }\n'
    _, several = read_table(GenericGroup, f'{start}match.path = ["/dev/a*", "/dev/b"]')
    _, none = read_table(GenericGroup, f'{start}match.subsystem = "tty"')

    rule = "it stands for a wildcard of match.path, which"
    assert several == [f"[env] A holds {{1}}: {rule} has 0; drop it, or add the wildcard"]
    assert none == [f"[env] A holds {{1}}: {rule} is not given; drop it, or add the wildcard"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('with = [{ path = "/dev/snd/*" }]', "wildcards are taken in match.path only"),
        ('with = [{ path = "/dev/{node}x" }]', "holds {node}"),
        ("with = [{ optional = true }]", "lacks path"),
        ('nodes = ["{node}-ctl"]', 'it must be "{node}"'),
        ("nodes = []", "it must name at least one"),
        ('rename = "modem"', "it must be an absolute path"),
        ('rename = "/dev/../x"', "it must be an absolute path"),
        ('mounts = [{ host = "/etc/" }]', "it must be an absolute path without .."),
        ('mounts = [{ host = "/a" }, { host = "/b", path = "/a" }]', "lies at /a, as does another"),
        ('env = { "A-B" = "x" }', "is no name of a variable"),
        ('env = { BERTH_X = "x" }', "such variables are berth's own"),
        ("env = { A = 1 }", 'write "1", in quotes'),
        ("env = 1", "it must be a table such as"),
        ("attributes = { node = 1 }", "is a name that berth publishes itself"),
        ('door = "side"', 'it must be "dra", "plugin", "auto" or "both"'),
        ('inject = "x"', 'it must be "auto", "cdi" or "specs"'),
    ],
)
def test_key_at_fault_is_told(text: str, words: str) -> None:
    """One fault, which says what is allowed."""
    said = _group(text)

    assert len(said) == 1
    assert words in said[0]


def test_path_outside_dev_needs_leave() -> None:
    """A link may still lead there; that only the machine tells."""
    text = 'name = "g"\nmatch.path = ["/opt/x/*", "/dev/a"]\n'

    assert read_table(GenericGroup, text)[1] == [
        (
            '[match] path holds "/opt/x/*": nodes lie in /dev; '
            "write allow_outside_dev = true if this one does not"
        )
    ]
    assert read_table(GenericGroup, text + "allow_outside_dev = true")[1] == []


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("", True),
        ("lab.example/Modem_1.x", True),
        ("lab/modem", True),
        ("modem", False),
        ("kubernetes.io/modem", False),
        ("x.kubernetes.io/modem", False),
        ("requests.lab.example/modem", False),
        ("lab.example/", False),
        ("lab.example/-x", False),
        ("Lab.example/x", False),
        (f"lab.example/{'x' * 64}", False),
    ],
)
def test_resource_is_a_name_that_nodes_may_have(text: str, *, good: bool) -> None:
    """Kubernetes refuses others, and keeps its own domain for itself."""

    assert (read_value(RESOURCE, text)[0] == text) is good


@pytest.mark.parametrize(
    ("text", "read"), [("rwm", "rwm"), ("mr", "rm"), ("", None), ("rr", None), ("x", None)]
)
def test_permissions_are_read_in_one_order(text: str, read: str | None) -> None:
    """Letters once each, at least one."""

    assert read_value(PERMISSIONS, text)[0] == read


def test_keys_of_a_door_that_is_closed_are_told(tmp_path: Path) -> None:
    """They are allowed, and without effect."""
    text = '[[generic]]\nname = "g"\nmatch.path = "/dev/x"\nresource = "a.b/c"\ninject = "specs"\n'
    report = check_text(tmp_path, text)

    assert report.faults == ()
    assert [warning.partition(": [[")[2] for warning in report.warnings] == [
        'generic]] 1 "g": resource is not used with door "dra"',
        'generic]] 1 "g": inject is not used with door "dra"',
    ]


def test_groups_are_told_apart(tmp_path: Path) -> None:
    """By name and by what they select."""
    one = 'match.path = "/dev/x"'
    said = _groups(tmp_path, one, 'match.path = "/dev/y"', one)
    text = f'[[generic]]\nname = "g"\n{one}\n[[generic]]\nname = "g"\nmatch.path = "/dev/y"\n'

    assert said == [
        (
            'agent.toml:9: [[generic]] 3 "g3": match is that of group 1 "g1": '
            "a node belongs to one group; "
            "drop one of the two, or add a condition that tells them apart"
        )
    ]
    assert faults(check_text(tmp_path, text)) == [
        'agent.toml:5: [[generic]] 2 "g": name is "g", as is that of group 1; choose another name'
    ]


def test_own_attributes_of_all_groups_fit_one_device(tmp_path: Path) -> None:
    """All generic devices carry them all, so they are of one kind each and not too many."""
    many = ", ".join(f"a{number} = 1" for number in range(20))
    said = _groups(
        tmp_path,
        f'match.path = "/dev/x"\nattributes = {{ {many} }}',
        'match.path = "/dev/y"\nattributes = { a0 = "x" }',
        'match.path = "/dev/z"\nattributes = { b = true }',
        'match.path = "/dev/w"\nattributes = { b = false, c = 3 }',
    )

    assert said[0].partition("attributes")[2] == (
        ".a0 is of another kind than in group 1: an attribute is of one kind on all devices; "
        "choose another name"
    )
    assert "makes 21 own attributes over the generic groups: a0, a1" in said[1]
    assert "there is room for 20" in said[1]
    assert len(said) == 2


def test_name_in_the_driver_domain_is_refused(tmp_path: Path) -> None:
    """It is the bare name in another spelling, as for NICs."""
    said = _groups(tmp_path, 'match.path = "/dev/x"\nattributes = { "berth.dev/a" = 1 }')

    assert len(said) == 1
    assert "lies in berth.dev, the driver's own domain; write a" in said[0]
