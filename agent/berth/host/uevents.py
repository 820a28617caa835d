"""The kernel's device events and udev's database, through pyudev: the only module that imports it.

Where udevd runs its events come after links and properties exist, so they are taken; elsewhere the
kernel's own. ``source="udev"`` without udevd would give nothing, and no error.

Links are not listened to here: netlink tells them sooner, and a node starts pods all day, each
with links that are no device's.

Source: pyudev 0.24; measured without udevd (first event after 3 ms).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import pyudev
import trio

from berth.errors import HostError
from berth.model.meter import Tally

SUBSYSTEMS: Final = ("pci", "infiniband")
"""What is listened to for NICs."""

NETWORK: Final = frozenset({"net", "queues"})
"""Subsystems whose events come with each pod, and are no device nodes."""

UDEV_CONTROL: Final = Path("/run/udev/control")
"""Exists while udevd runs."""

_MODEL: Final = "ID_MODEL_FROM_DATABASE"
_WHERE: Final = "uevents"


@attrs.frozen(kw_only=True)
class Uevent:
    """One event.

    Attributes:
        action: ``add``, ``remove``, ``bind``, ``unbind``, ``change`` or ``move``; ``overflow``
            when events were lost and everything is to be looked at anew.
        path: Device path below ``/sys``; empty for an overflow.
    """

    action: str
    subsystem: str = ""
    path: str = ""


class Heard:
    """What the monitors of this process have heard; they come and go with who listens.

    Attributes:
        events: Counts events, once for each monitor that heard them.
        overflows: Counts losses of some.
        listeners: Tasks that wait for events now.
    """

    def __init__(self) -> None:
        self.events = Tally("subsystem")
        self.overflows = Tally()
        self.listeners = 0


HEARD: Final = Heard()
"""All of it."""


def source() -> str:
    """Whose events are taken here: ``udev`` where udevd runs, else ``kernel``."""
    return "udev" if UDEV_CONTROL.exists() else "kernel"


def every_subsystem(sys: Path = Path("/sys")) -> tuple[str, ...]:
    """All subsystems that there are now, but those of `NETWORK`; blocks.

    What a module adds later is not among them, so whoever listens looks around now and then.
    """
    found = set[str]()
    for folder in (sys / "class", sys / "bus"):
        try:
            found |= {path.name for path in folder.iterdir()}
        except OSError:
            continue
    return tuple(sorted(found - NETWORK))


class UeventMonitor:
    """Hears the events of some subsystems from its making on.

    Making one blocks (the C library is looked for by a subprocess); nothing else does.

    Args:
        subsystems: Whose events are heard.

    Raises:
        HostError: There is no libudev, or the kernel gives no such socket.
    """

    def __init__(self, subsystems: Iterable[str] = SUBSYSTEMS) -> None:
        self._subsystems = tuple(subsystems)
        self._context = _context()
        self._monitor = self._open()

    async def receive(self) -> tuple[Uevent, ...]:
        """Wait for events and give those that are there, never none.

        Raises:
            HostError: Events were lost and the kernel gives no new socket.
        """
        HEARD.listeners += 1
        try:
            while True:
                await trio.lowlevel.wait_readable(self._monitor.fileno())
                events = self.receive_nowait()
                if events:
                    return events
        finally:
            HEARD.listeners -= 1

    def receive_nowait(self) -> tuple[Uevent, ...]:
        """Give the events that are there, none if none are; raises as `receive` does."""
        events = []
        try:
            while (device := self._monitor.poll(timeout=0)) is not None:
                events.append(_event(device))
                HEARD.events.add(events[-1].subsystem)
        except OSError:
            # The queue overflowed; from here on every read fails, so the monitor is made anew.
            self._monitor = self._open()
            HEARD.overflows.add()
            events.append(Uevent(action="overflow"))
        return tuple(events)

    def _open(self) -> Any:
        try:
            monitor = pyudev.Monitor.from_netlink(self._context, source=source())
            for subsystem in self._subsystems:
                monitor.filter_by(subsystem)
            monitor.start()
        except OSError as error:
            found = f"cannot be listened to: {error}"
            raise HostError(_WHERE, found, errno=error.errno or 0) from error
        return monitor


class ProductNames:
    """Names of PCI devices from udev's database; blocks, for one thread at a time."""

    def __init__(self) -> None:
        self._context: Any = None

    def of_function(self, address: str) -> str:
        """What the model of a PCI function is called; empty where udev does not say."""
        if not UDEV_CONTROL.exists():
            return ""
        try:
            self._context = self._context or _context()
            device = pyudev.Devices.from_name(self._context, "pci", address)
            return str(device.properties.get(_MODEL, ""))
        except (HostError, pyudev.DeviceNotFoundError, UnicodeDecodeError):
            return ""


def _context() -> Any:
    try:
        return pyudev.Context()
    except ImportError as error:
        raise HostError(_WHERE, "there is no libudev", mend="install libudev1") from error


def _event(device: Any) -> Uevent:
    return Uevent(
        action=device.action or "",
        subsystem=device.subsystem or "",
        path=device.device_path or "",
    )
