"""Drivers of PCI functions on a tree: what is written, read back, refused and waited for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio

from berth.errors import HostError
from berth.host.driverbind import Bound, DriverCalls, DriverFiles, write_now
from berth.rehearsal.drivercore import VFIO
from tests.vfio_tree import AWAY, GPU, HOME, OTHER, VfioMachine

NOWHERE = "0000:99:00.0"


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> VfioMachine:
    return VfioMachine(tmp_path / "machine")


def test_override_reads_as_nothing_when_there_is_none(machine: VfioMachine) -> None:
    """The kernel writes ``(null)`` for it."""

    drivers = machine.drivers
    assert drivers.bound(GPU) == Bound(driver="nvidia")

    drivers.set_override(GPU, VFIO)
    assert drivers.bound(GPU) == Bound(driver="nvidia", override=VFIO)

    drivers.set_override(GPU, "")
    assert machine.state() == HOME


def test_function_goes_from_one_driver_to_another(machine: VfioMachine) -> None:
    """Each step is one write, and what has the function is read back."""

    drivers = machine.drivers
    drivers.set_override(GPU, VFIO)
    drivers.unbind(GPU, "nvidia")
    assert drivers.bound(GPU) == Bound(override=VFIO)
    drivers.probe(GPU)

    assert machine.state() == AWAY
    assert drivers.driver(OTHER) == "nvidia"


def test_unbind_of_what_has_no_such_driver_is_done_already(machine: VfioMachine) -> None:
    """A crash came after it, or somebody else was first."""

    machine.drivers.unbind(GPU, VFIO)

    assert machine.state() == HOME


def test_function_that_is_gone_is_told(machine: VfioMachine) -> None:
    """It was pulled out; what is asked of it is refused by the kernel."""

    drivers = machine.drivers

    assert drivers.bound(NOWHERE) is None
    with pytest.raises(HostError, match="driver_override") as caught:
        drivers.set_override(NOWHERE, VFIO)
    assert caught.value.errno == errno.ENOENT


def test_function_without_the_file_is_a_fault_and_not_gone(machine: VfioMachine) -> None:
    """Taken for gone, its claim would be closed with the device away."""

    (machine.folder(GPU) / "driver_override").unlink()

    with pytest.raises(HostError, match="driver_override: cannot be read"):
        machine.drivers.bound(GPU)


def test_refusal_of_the_kernel_keeps_its_number(tmp_path: Path) -> None:
    """What is written goes to a file that is there, and never makes one."""

    with pytest.raises(OSError, match="No such file"):
        write_now(tmp_path / "unbind", b"x")
    (tmp_path / "there").write_text("long text")
    write_now(tmp_path / "there", b"x")

    assert (tmp_path / "there").read_text() == "xong text"


async def test_unbind_that_waits_is_left_to_its_thread(machine: VfioMachine) -> None:
    """The caller goes on, nothing else is asked of that function, and its return is told."""

    returned = trio.Event()
    calls = DriverCalls(machine.drivers, returned=returned.set, limit_s=0.3)
    machine.core.open(GPU)

    with pytest.raises(HostError, match=rf"{GPU}: is busy: its unbind .*berth gpu holders") as one:
        await calls.unbind(GPU, "nvidia")
    with pytest.raises(HostError, match="busy"):
        await calls.bound(GPU)

    assert one.value.errno == errno.EBUSY
    assert calls.is_out(GPU)
    assert len([text for name, text in machine.core.written if name == "unbind"]) == 1
    machine.core.close(GPU)
    with trio.fail_after(30):
        await returned.wait()
    assert not calls.is_out(GPU)


async def test_one_function_that_waits_keeps_no_other(machine: VfioMachine) -> None:
    """A call is for one function, and so is its thread."""

    calls = DriverCalls(machine.drivers, limit_s=0.3)
    machine.core.open(GPU)
    with pytest.raises(HostError, match="busy"):
        await calls.unbind(GPU, "nvidia")

    calls = DriverCalls(machine.drivers)
    await calls.unbind(OTHER, "nvidia")
    await calls.set_override(OTHER, VFIO)
    await calls.probe(OTHER)

    assert machine.state(OTHER) == AWAY
    machine.core.close(GPU)


def test_files_of_another_root_are_not_the_machines(tmp_path: Path) -> None:
    """Nothing of a tree that is empty."""

    assert DriverFiles(tmp_path).bound(GPU) is None
    assert DriverFiles(tmp_path).driver(GPU) == ""
