"""Device events and product names, with a stand-in for the C library's socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import pyudev
import trio

from berth.errors import HostError
from berth.host import uevents
from berth.host.uevents import HEARD, ProductNames, Uevent, UeventMonitor


@attrs.frozen
class Event:
    """A device as pyudev gives it."""

    action: str | None
    subsystem: str | None
    device_path: str | None


class Library:
    """Stands for pyudev's monitors, of which each is made anew after a fault.

    Attributes:
        told: What the next calls of ``poll`` give or raise.
        opened: Sources of the monitors made, and the subsystems that they were told to hear.
    """

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.told: list[Event | OSError | None] = []
        self.opened: list[tuple[str, list[str]]] = []
        self.fault: OSError | None = None

    def from_netlink(self, _context: object, source: str) -> Library:
        """Make a monitor."""
        if self.fault is not None:
            raise self.fault
        self.opened.append((source, []))
        return self

    def filter_by(self, subsystem: str) -> None:
        """Narrow a monitor."""
        self.opened[-1][1].append(subsystem)

    def start(self) -> None:
        """Begin to listen."""

    def fileno(self) -> int:
        """What is waited for."""
        return self.here.fileno()

    def poll(self, timeout: float) -> Event | None:
        """Give the next event that is there."""
        assert timeout == 0
        told = self.told.pop(0) if self.told else None
        if isinstance(told, OSError):
            raise told
        return told


@pytest.fixture(name="library")
def _library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    library = Library()
    monkeypatch.setattr(pyudev.Monitor, "from_netlink", library.from_netlink)
    with library.here, library.there:
        yield library


@pytest.mark.parametrize(("running", "source"), [(True, "udev"), (False, "kernel")])
def test_source_is_udev_only_where_it_runs(
    library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, running: bool, source: str
) -> None:
    """Without udevd its events would never come, and nothing would say so."""

    control = tmp_path / "control"
    if running:
        control.touch()
    monkeypatch.setattr(uevents, "UDEV_CONTROL", control)
    UeventMonitor()

    assert library.opened == [(source, ["pci", "infiniband"])]


async def test_events_are_given_together(library: Library) -> None:
    """All that are there, as plain values; what the library does not tell is empty."""

    monitor = UeventMonitor()
    library.told = [Event("bind", "pci", "/devices/a"), Event(None, None, None), None]
    library.there.send(b"x")

    assert await monitor.receive() == (
        Uevent(action="bind", subsystem="pci", path="/devices/a"),
        Uevent(action=""),
    )


async def test_events_and_losses_are_counted_over_all_monitors(library: Library) -> None:
    """Monitors are made anew after a loss, and their figures go on; who listens is known."""

    events, losses = dict(HEARD.events.series()), dict(HEARD.overflows.series())
    for _ in range(2):
        monitor = UeventMonitor()
        library.told = [Event("add", "made-up", "/a"), OSError("overflow"), None]
        assert len(monitor.receive_nowait()) == 2
    with trio.move_on_after(0):
        await monitor.receive()

    assert HEARD.events.series()["made-up",] - events.get(("made-up",), 0) == 2
    assert HEARD.overflows.series()[()] - losses.get((), 0) == 2
    assert HEARD.listeners == 0


async def test_wake_up_without_an_event_is_waited_out(
    library: Library, nursery: trio.Nursery
) -> None:
    """What was heard was of a subsystem that is filtered out."""

    monitor = UeventMonitor()
    heard: list[Uevent] = []

    async def listen() -> None:
        heard.extend(await monitor.receive())

    library.told = [None, Event("add", "pci", "/devices/a")]
    library.there.send(b"x")
    nursery.start_soon(listen)
    with trio.fail_after(5):
        while not heard:
            await trio.lowlevel.checkpoint()

    assert [event.action for event in heard] == ["add"]


async def test_overflow_makes_the_monitor_anew(library: Library) -> None:
    """Every read would fail from then on; what came before it is still told."""

    monitor = UeventMonitor()
    library.told = [Event("add", "pci", "/devices/a"), OSError(105, "No buffer space")]
    library.there.send(b"x")
    with trio.fail_after(5):
        events = await monitor.receive()

    assert [event.action for event in events] == ["add", "overflow"]
    assert len(library.opened) == 2


def test_monitor_that_cannot_be_opened_is_a_fault_of_the_host(library: Library) -> None:
    """With the kernel's number."""

    library.fault = PermissionError(1, "Operation not permitted")
    with pytest.raises(HostError, match="cannot be listened to") as caught:
        UeventMonitor()

    assert caught.value.errno == 1


def test_machine_without_libudev_is_a_fault_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""

    def fail() -> None:
        raise ImportError("No library named udev")

    monkeypatch.setattr(pyudev, "Context", fail)
    with pytest.raises(HostError, match="no libudev; install libudev1"):
        UeventMonitor()


@attrs.frozen
class Device:
    """A device of udev's database."""

    properties: dict[str, str]


def _database(monkeypatch: pytest.MonkeyPatch, control: Path, devices: dict[str, Device]) -> None:
    def from_name(_context: object, subsystem: str, name: str) -> Device:
        if subsystem != "pci" or name not in devices:
            raise pyudev.DeviceNotFoundByNameError(subsystem, name)
        return devices[name]

    monkeypatch.setattr(uevents, "UDEV_CONTROL", control)
    monkeypatch.setattr(pyudev.Devices, "from_name", from_name)


def test_product_is_what_the_database_calls_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And nothing for a device that it does not know, or knows no name of."""

    control = tmp_path / "control"
    control.touch()
    _database(
        monkeypatch,
        control,
        {"a": Device({"ID_MODEL_FROM_DATABASE": "82576 Gigabit"}), "b": Device({})},
    )
    names = ProductNames()

    assert [names.of_function(name) for name in ("a", "b", "c")] == ["82576 Gigabit", "", ""]


def test_product_is_unknown_where_udev_does_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library is not even asked."""

    devices = {"a": Device({"ID_MODEL_FROM_DATABASE": "82576"})}
    _database(monkeypatch, tmp_path / "none", devices)

    assert not ProductNames().of_function("a")
