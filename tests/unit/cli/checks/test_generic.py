"""What ``[[generic]]`` groups select of device nodes."""

from __future__ import annotations

from berth.cli.checks.generic import check_nodes
from berth.cli.checks.machine import Machine
from berth.config.schema import Config
from berth.host.nodefacts import NodeScan
from tests.unit.cli.checks.tree import told
from tests.unit.generic.nodes import MODEM, group, kvm, tty

KVM = group("kvm", 'match = { path = "/dev/kvm" }')


def test_nothing_is_said_without_groups() -> None:
    """A node without such groups has nothing to check."""

    assert told(check_nodes(Machine(config=Config()))) == []


def test_groups_say_what_they_take() -> None:
    """How many devices, and what finds none."""

    nodes = NodeScan(nodes=(tty(0), tty(1, serial="B7", port="3")), udev=True)
    machine = Machine(config=Config(generic=(MODEM, KVM)), nodes=nodes)

    assert told(check_nodes(machine)) == [
        ("ok", '[[generic]] 1 "modem" selects 2 devices, 2 to offer'),
        ("warning", 'group "kvm" matches no device node'),
    ]


def test_group_that_offers_nothing_is_warned_of() -> None:
    """Two groups on one node: no one gets it."""

    other = group("other", 'match = { path = "/dev/kvm", subsystem = "misc" }')
    machine = Machine(config=Config(generic=(KVM, other)), nodes=NodeScan(nodes=(kvm(),)))

    lines = told(check_nodes(machine))

    assert (
        "warning",
        '[[generic]] 1 "kvm" selects 1 device, 0 to offer; not offered: 1 overlap',
    ) in lines


def test_nodes_that_cannot_be_read_are_told() -> None:
    """The reason is told, and nothing is guessed."""

    machine = Machine(config=Config(generic=(KVM,)), nodes_fault="/dev: cannot be read")

    assert told(check_nodes(machine)) == [("warning", "not looked at: /dev: cannot be read")]
