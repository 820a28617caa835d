"""What groups say of nodes, for whoever asks why one is not offered."""

from __future__ import annotations

from berth.generic.explain import Explanation, Opinion, explain, path_of
from berth.host.nodefacts import DevNode, NodeScan, Oddity
from berth.model.edits import NodeType
from tests.unit.generic.nodes import MODEM, group, node, surveyed, tty


def test_every_group_says_what_failed_first() -> None:
    """And the one that takes it says so."""
    other = group("other", 'match = { usb = { vendor = "0403", product = "6015" } }')

    assert explain(NodeScan(nodes=(tty(0),)), [other, MODEM]) == (
        Explanation(
            path="/dev/ttyUSB0",
            opinions=(
                Opinion(
                    group="other",
                    takes=False,
                    says='match.usb.product: it has 6001, "6015" is asked for',
                ),
                Opinion(group="modem", takes=True),
            ),
        ),
    )


def test_refused_node_says_what_would_allow_it() -> None:
    """All conditions hold, and it is not handed out all the same."""
    disk = DevNode(path="/dev/sda", type=NodeType.BLOCK, major=8, minor=0)
    (told,) = explain(NodeScan(nodes=(disk,)), [group("d", 'match.path = "/dev/sd*"')])

    assert told.opinions == (
        Opinion(
            group="d",
            takes=False,
            says="block-device: /dev/sda is a block device; allow_block = true offers it",
        ),
    )


def test_what_is_no_node_says_what_it_is() -> None:
    """No group is asked then."""
    scan = NodeScan(oddities=(Oddity(path="/dev/initctl", found="is a FIFO"),))

    assert explain(scan, [MODEM]) == (
        Explanation(path="/dev/initctl", says="it is a FIFO, no device node"),
    )


def test_odd_names_are_shown_escaped() -> None:
    """A terminal would take them for commands."""
    (told,) = explain(NodeScan(nodes=(node("/dev/\x1b[2J\udcff", "1:3"),)), [MODEM])

    assert told.path == "/dev/\\x1b[2J\\udcff"


def test_question_may_name_a_device() -> None:
    """By name, identity or id; anything else is taken for a path."""
    devices = surveyed([tty(0)], group("m", 'match.subsystem = "tty"\ndoor = "plugin"')).peripherals

    assert {path_of(asked, devices) for asked in (devices[0].name, devices[0].identity)} == {
        "/dev/ttyUSB0"
    }
    assert path_of("/dev/x", devices) == "/dev/x"
