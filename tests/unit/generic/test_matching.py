"""Which nodes are looked at for a group, which fit it, and the first condition that fails."""

from __future__ import annotations

import pytest

from berth.generic.matching import Fit, fit, refusal, wanted
from berth.host.nodefacts import DevNode, Wanted
from berth.model.device import Exclusion
from berth.model.edits import NodeType
from berth.model.pathglob import PathGlob
from tests.unit.generic.nodes import CONTROLLER, group, node, tty

LINKED = tty(
    0,
    links=("/dev/serial/by-id/usb-FTDI-if00",),
    properties={"ID_MODEL": "FT232R"},
    attributes={"level": ("low", "high")},
)


@pytest.mark.parametrize(
    "match",
    [
        'path = "/dev/ttyUSB*"',
        'path = ["/dev/x", "/dev/serial/by-id/*"]',
        'subsystem = ["hidraw", "tty"]',
        'usb = { vendor = "0403", product = "60*", serial = "*" }',
        'pci = { vendor = "8086", device = ["1234", "a36d"], class = "0c03", address = "*:14.0" }',
        'pci = { class = "0c0330" }',
        'properties = { ID_MODEL = "FT*" }',
        'attributes = { level = "high" }',
        'path = "/dev/*", subsystem = "tty", usb = { vendor = "0403" }, pci = { class = "0c" }',
    ],
)
def test_node_fits_when_all_conditions_hold(match: str) -> None:
    """The items of one are alternatives."""

    assert fit(LINKED, group("g", f"match = {{ {match} }}").match)


@pytest.mark.parametrize(
    ("match", "failed"),
    [
        (
            'path = "/dev/ttyS*", subsystem = "x"',
            'path: it has /dev/ttyUSB0, /dev/serial/by-id/usb-FTDI-if00, "/dev/ttyS*" is asked for',
        ),
        ('subsystem = ["a", "b"]', 'subsystem: it has tty, "a" or "b" is asked for'),
        ('usb = { vendor = "1234" }', 'usb.vendor: it has 0403, "1234" is asked for'),
        (
            'usb = { vendor = "0403", product = "9*" }',
            'usb.product: it has 6001, "9*" is asked for',
        ),
        ('usb = { serial = "B*" }', 'usb.serial: it has A5, "B*" is asked for'),
        ('pci = { class = "03" }', 'pci.class: it has 0c0330, "03" is asked for'),
        ('pci = { vendor = "10de" }', 'pci.vendor: it has 8086, "10de" is asked for'),
        ('properties = { ID_X = "*" }', "properties.ID_X: udev gives it no such property"),
        ('properties = { ID_MODEL = "x" }', 'properties.ID_MODEL: it has FT232R, "x" is asked for'),
        ('attributes = { x = "*" }', "attributes.x: no folder of it in sysfs has such a file"),
        (
            'attributes = { level = "x" }',
            "attributes.level: it has 'low' and 'high', \"x\" is asked for",
        ),
    ],
)
def test_first_condition_that_fails_is_told(match: str, failed: str) -> None:
    """With what the node has and what was asked for."""

    assert fit(LINKED, group("g", f"match = {{ {match} }}").match).failed == f"match.{failed}"


@pytest.mark.parametrize(
    ("match", "failed"),
    [
        ('usb = { vendor = "*" }', "usb: it belongs to no USB device"),
        ('pci = { vendor = "*" }', "pci: it hangs from no PCI function"),
        ('subsystem = "tty"', 'subsystem: it has none, "tty" is asked for'),
    ],
)
def test_condition_on_what_a_node_has_not_fails(match: str, failed: str) -> None:
    """A star takes everything but nothing."""
    plain = node("/dev/x", "1:3")

    assert fit(plain, group("g", f"match = {{ {match} }}").match).failed == f"match.{failed}"


def test_device_without_serial_fits_no_pattern_of_serials() -> None:
    """Not even a star, so that devices can be asked for that have one."""
    match = group("g", 'match.usb.serial = "*"').match

    assert fit(tty(0, serial=""), match).failed == (
        'match.usb.serial: it has none, "*" is asked for'
    )


def test_wildcards_take_from_the_name_that_fits() -> None:
    """The node's own name goes before its links."""
    match = group("g", 'match.path = ["/dev/serial/*/usb-*", "/dev/tty*"]').match

    assert fit(LINKED, match) == Fit(
        name="/dev/serial/by-id/usb-FTDI-if00", taken=("by-id", "FTDI-if00")
    )
    assert fit(LINKED, group("g", 'match.subsystem = "tty"').match) == Fit(name="/dev/ttyUSB0")


def test_many_names_of_a_node_are_cut() -> None:
    """A sentence stays readable."""
    many = node("/dev/x", "1:3", links=tuple(f"/dev/l{number}" for number in range(9)))
    failed = fit(many, group("g", 'match.path = "/dev/y"').match).failed

    assert failed == (
        'match.path: it has /dev/x, /dev/l0, /dev/l1, /dev/l2 and 6 more, "/dev/y" is asked for'
    )


def test_nodes_are_wanted_by_what_tells_most() -> None:
    """A path goes before a subsystem, that before a bus; anything else wants every node."""
    capture = group(
        "capture",
        'match = { path = "/dev/snd/pcmC*D0c", subsystem = "sound" }\n'
        'nodes = ["{node}", "/dev/snd/seq"]\n'
        'with = [{ path = "/dev/snd/controlC{1}" }]',
    )
    groups = [
        capture,
        group("a", 'match = { subsystem = "tty", usb = { vendor = "0403" } }'),
        group("b", 'match = { usb = { vendor = "0403" }, attributes = { level = "x" } }'),
        group("c", 'match = { pci = { vendor = "10de" } }'),
    ]

    assert wanted(groups) == Wanted(
        globs=tuple(
            PathGlob(text) for text in ("/dev/snd/pcmC*D0c", "/dev/snd/seq", "/dev/snd/controlC*")
        ),
        subsystems=frozenset({"tty"}),
        usb=True,
        pci=True,
        attributes=("level",),
    )
    assert wanted([group("d", 'match.properties = { X = "y" }')]) == Wanted(everything=True)
    assert wanted([]) == Wanted()


def test_places_side_by_side_make_one_wildcard() -> None:
    """Two stars in a row would be no pattern."""
    text = 'match.path = "/dev/a*b*"\nwith = [{ path = "/dev/{1}{2}" }]'

    assert wanted([group("g", text)]).globs == (PathGlob("/dev/a*b*"), PathGlob("/dev/*"))


def test_block_device_needs_leave() -> None:
    """A disk is given to nobody by mishap."""
    disk = DevNode(path="/dev/sda", type=NodeType.BLOCK, major=8, minor=0, pci=CONTROLLER)
    start = 'match.path = "/dev/sd*"'

    assert refusal(disk, group("g", start)) == Exclusion(
        reason="block-device",
        detail="/dev/sda is a block device; allow_block = true offers it",
    )
    assert refusal(disk, group("g", f"{start}\nallow_block = true")) is None


def test_node_outside_dev_needs_leave() -> None:
    """Whoever can make a link in /dev cannot lend what it leads to."""
    outside = node("/opt/x", "1:3", links=("/dev/x",))
    start = 'match.path = "/dev/x"'

    assert refusal(outside, group("g", start)) == Exclusion(
        reason="outside-dev",
        detail="/opt/x lies outside /dev; allow_outside_dev = true offers it",
    )
    assert refusal(outside, group("g", f"{start}\nallow_outside_dev = true")) is None
