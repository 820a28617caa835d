"""Devices that come and go, from trees of nodes to what is offered (GH T15, as far as trees go)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.generic.identity import Memory
from berth.generic.matching import wanted
from berth.generic.survey import GenericSurvey, survey
from tests.node_tree import NodeTree
from tests.unit.generic.nodes import DRIVER, group

MODEM = group(
    "modem",
    'match = { usb = { vendor = "0403" }, subsystem = "tty" }\n'
    'rename = "/dev/modem{index}"\ndoor = "both"',
)
PORTS = st.sampled_from(["1", "2", "3.1", "3.2"])


class Bench:
    """A machine with the survey that is made of it again and again."""

    def __init__(self, root: Path) -> None:
        self.tree = NodeTree(root)
        self.tree.controller()
        self.memory = Memory()

    def look(self) -> GenericSurvey:
        """What is offered now."""
        scan = self.tree.reader.read(wanted([MODEM]))
        found = survey(scan, [MODEM], driver=DRIVER, memory=self.memory)
        self.memory = found.memory
        return found

    def paths(self) -> dict[str, str]:
        """Where each device is, by identity."""
        return {each.identity: each.path for each in self.look().peripherals}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A machine without devices."""
    return Bench(tmp_path)


def test_device_comes_and_goes_and_is_the_same(bench: Bench) -> None:
    """In a loop, at changing ports and under changing numbers."""
    told = set()
    for number, port in enumerate(["1", "2", "3.1", "1", "3.2"]):
        bench.tree.tty(port, number)
        (device,) = bench.look().peripherals
        told.add((device.identity, device.name, device.ids, device.edits.nodes[0].path))
        assert device.edits.nodes[0].minor == number
        bench.tree.unplug(port)
        assert bench.look().peripherals == ()

    assert len(told) == 1


def test_device_without_serial_is_its_port(bench: Bench) -> None:
    """At another port it is another one, whatever number it gets."""
    bench.tree.tty("1", 0, serial="")
    before = bench.paths()
    bench.tree.unplug("1")
    bench.tree.tty("2", 0, serial="")

    assert before == {"path:pci-0000:00:14.0-usb-0:1:1.0/ttyUSB": "/dev/ttyUSB0"}
    assert bench.paths() == {"path:pci-0000:00:14.0-usb-0:2:1.0/ttyUSB": "/dev/ttyUSB0"}


def test_place_is_the_same_with_and_without_udev(bench: Bench) -> None:
    """A udevd that starts late renames nothing."""
    bench.tree.tty("1", 0, serial="")
    before = bench.paths()
    bench.tree.properties("c188:0", ID_PATH="pci-0000:00:14.0-usb-0:1:1.0")

    assert bench.paths() == before


def test_twins_that_changed_their_numbers_stay_apart(bench: Bench) -> None:
    """Their ports tell; the one that is left does not become the other one."""
    bench.tree.tty("1", 0)
    bench.tree.tty("2", 1)
    before = bench.paths()
    bench.tree.unplug("1")
    bench.tree.unplug("2")
    bench.tree.tty("2", 0)

    serial = "usb:0403:6001:A50285BI:00/ttyUSB"
    assert before == {
        f"{serial}@pci-0000:00:14.0-usb-0:1:1.0": "/dev/ttyUSB0",
        f"{serial}@pci-0000:00:14.0-usb-0:2:1.0": "/dev/ttyUSB1",
    }
    assert bench.paths() == {f"{serial}@pci-0000:00:14.0-usb-0:2:1.0": "/dev/ttyUSB0"}


@settings(max_examples=20)
@given(st.lists(PORTS, max_size=8))
def test_whatever_is_plugged_keeps_name_and_number(toggled: list[str]) -> None:
    """Each serial number has one name and one path in containers for good."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        plugged: set[str] = set()
        told: dict[str, tuple[str, str]] = {}
        for number, port in enumerate(toggled):
            if port in plugged:
                bench.tree.unplug(port)
            else:
                bench.tree.tty(port, number, serial=f"S-{port}")
            plugged ^= {port}
            devices = bench.look().peripherals
            assert {str(each.attributes["serial"]) for each in devices} == {
                f"S-{port}" for port in plugged
            }
            for each in devices:
                here = (each.name, each.edits.nodes[0].path)
                assert told.setdefault(each.identity, here) == here
        assert len(set(told.values())) == len(told)


def test_memory_lost_changes_no_identity(bench: Bench) -> None:
    """Numbers in the group may change then; identity, name and ids may not."""
    bench.tree.tty("1", 0, serial="B")
    bench.look()
    bench.tree.tty("2", 1, serial="A")
    before = bench.look().peripherals
    bench.memory = Memory()
    after = bench.look().peripherals

    assert [each.name for each in before] == [each.name for each in after]
    assert [each.ids for each in before] == [each.ids for each in after]
    assert attrs.evolve(before[0], edits=after[0].edits, admin=after[0].admin) == after[0]
