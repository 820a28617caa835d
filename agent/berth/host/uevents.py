"""The kernel's device events, through pyudev: the only module that imports it.

Where udevd runs its events come after links and properties exist, so they are taken; elsewhere the
kernel's own. ``source="udev"`` without udevd would give nothing, and no error.

Source: pyudev 0.24; measured without udevd (first event after 3 ms).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import attrs
import pyudev
import trio

from berth.errors import HostError

SUBSYSTEMS: Final = ("net", "pci", "infiniband")
"""What is listened to."""

_UDEV_CONTROL: Final = Path("/run/udev/control")


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


def source() -> str:
    """Whose events are taken here: ``udev`` where udevd runs, else ``kernel``."""
    return "udev" if _UDEV_CONTROL.exists() else "kernel"


async def uevents() -> AsyncIterator[Uevent]:
    """Every event from now on, until cancelled; a broken monitor is made anew after an overflow.

    Raises:
        HostError: The kernel gives no such socket.
    """
    context = pyudev.Context()
    monitor = _monitor(context)
    while True:
        await trio.lowlevel.wait_readable(monitor.fileno())
        try:
            for event in _read(monitor):
                yield event
        except OSError:
            # The queue overflowed; from here on every read fails, so the monitor is made anew.
            monitor = _monitor(context)
            yield Uevent(action="overflow")


def _monitor(context: Any) -> Any:
    try:
        monitor = pyudev.Monitor.from_netlink(context, source=source())
        for subsystem in SUBSYSTEMS:
            monitor.filter_by(subsystem)
        monitor.start()
    except OSError as error:
        raise HostError(
            "uevents", f"cannot be listened to: {error}", errno=error.errno or 0
        ) from error
    return monitor


def _read(monitor: Any) -> list[Uevent]:
    events = []
    while (device := monitor.poll(timeout=0)) is not None:
        events.append(
            Uevent(
                action=device.action or "",
                subsystem=device.subsystem or "",
                path=device.device_path or "",
            )
        )
    return events
