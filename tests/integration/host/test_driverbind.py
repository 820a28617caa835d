"""What the kernel makes of `driver_override`, asked of a function that no driver has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.errors import HostError
from berth.host.driverbind import Bound, DriverFiles

pytestmark = pytest.mark.root

DEVICES = Path("/sys/bus/pci/devices")


@pytest.fixture(name="idle")
def _idle() -> Iterator[str]:
    """A function without a driver; what it may be bound to is none of its own affair."""
    unbound = (folder for folder in DEVICES.glob("*") if not (folder / "driver").exists())
    found = next((one.name for one in sorted(unbound)), "")
    drivers = DriverFiles()
    if not found or drivers.bound(found) != Bound():
        pytest.skip("SKIPPED FOR WANT OF A PCI FUNCTION WITHOUT A DRIVER")
    yield found
    drivers.set_override(found, "")


def test_override_is_read_back_and_cleared_by_an_empty_line(idle: str) -> None:
    """As the stand-in of the driver core has it; nothing is probed, so nothing is bound."""

    drivers = DriverFiles()
    try:
        drivers.set_override(idle, "vfio-pci")
    except HostError as error:
        pytest.skip(f"SKIPPED FOR WANT OF A WRITABLE SYSFS: {error}")

    assert drivers.bound(idle) == Bound(override="vfio-pci")
    drivers.set_override(idle, "")
    assert drivers.bound(idle) == Bound()
    assert (DEVICES / idle / "driver_override").read_text() == "(null)\n"


def test_unbind_by_a_driver_that_is_not_loaded_is_done_already(idle: str) -> None:
    """Its module may have gone meanwhile."""

    DriverFiles().unbind(idle, "berth-no-such-driver")

    assert DriverFiles().bound(idle) == Bound()
