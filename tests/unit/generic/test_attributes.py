"""What slices say of generic devices."""

from __future__ import annotations

import attrs
import pytest

from berth.host.nodefacts import UsbDevice
from berth.model.device import Version
from tests.unit.generic.nodes import CONTROLLER, MODEM, group, kvm, node, only, surveyed, tty


def test_device_says_what_it_is() -> None:
    """Own names are bare, those of the PCI function above it are the standard ones."""

    assert only(surveyed([tty(0)], MODEM)).attributes == {
        "type": "generic",
        "group": "modem",
        "node": "/dev/ttyUSB0",
        "subsystem": "tty",
        "usbVendor": "0403",
        "usbProduct": "6001",
        "serial": "A5",
        "model": "FT232R",
        "resource.kubernetes.io/pciBusID": "0000:00:14.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "resource.kubernetes.io/numaNode": 1,
    }


def test_all_devices_carry_the_same_keys() -> None:
    """An own key of one group stands on the others' devices with its neutral value (GH §1.3)."""
    own = '{ bench = 3, rack = "b", fw.version = "1.2.3", x = true }'
    text = f'match.path = "/dev/kvm"\nattributes = {own}'
    modem, lab = surveyed([tty(0), kvm()], MODEM, group("a", text)).peripherals[::-1]

    names = ("bench", "rack", "fw", "x")
    assert [lab.attributes[name] for name in names] == [3, "b", Version("1.2.3"), True]
    assert [modem.attributes[name] for name in names] == [0, "", Version("0.0.0"), False]
    bare = [{name for name in each.attributes if "/" not in name} for each in (modem, lab)]
    assert bare[0] == bare[1]


def test_udev_tells_what_is_missing() -> None:
    """Of what hangs from no USB."""
    properties = {"ID_SERIAL_SHORT": "S1", "ID_MODEL": "Disk"}
    device = only(
        surveyed(
            [node("/dev/x", "1:3", properties=properties)], group("g", 'match.path = "/dev/x"')
        )
    )

    assert (device.attributes["serial"], device.attributes["model"]) == ("S1", "Disk")


@pytest.mark.parametrize("serial", ["x" * 65, "é" * 33, "a\nb", "a\udcff"])
def test_serial_that_does_not_fit_is_left_out(serial: str) -> None:
    """A selector compares it, so a part of it would select the wrong device."""

    assert only(surveyed([tty(0, serial)], MODEM)).attributes["serial"] == ""


@pytest.mark.parametrize(
    ("name", "model"), [("é" * 40, "é" * 32), ("a\nb", "a\\nb"), ("x" * 65, "x" * 64)]
)
def test_model_is_cut_at_a_character(name: str, model: str) -> None:
    """It describes; what cannot be shown is escaped."""
    usb = UsbDevice(vendor="0403", product="6001", name=name, place="p")

    assert only(surveyed([tty(0, usb=usb)], MODEM)).attributes["model"] == model


def test_function_of_a_long_domain_has_no_standard_address() -> None:
    """Five digits fit no selector; a node of the machine without NUMA tells none."""
    function = attrs.evolve(CONTROLLER, address="10000:00:14.0", numa_node=None)
    bare = attrs.evolve(CONTROLLER, pcie_root="")

    names = only(surveyed([tty(0, pci=function)], MODEM)).attributes
    assert not [name for name in names if "/" in name]
    assert (
        "resource.kubernetes.io/pcieRoot"
        not in only(surveyed([tty(0, pci=bare)], MODEM)).attributes
    )
