"""What kubelet remembers of devices' health, and what it makes of it in a pod's status.

It stamps a report with the time at which it came, whatever the report says, and looks whether one
has lapsed when it makes a status, or for what the next report leaves out. A report that lapsed and
comes again as it was is no change to it: the status is not made anew for that.

Source: KC §6.2 (kubelet 1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

DEVICES_LIMIT: Final = 16384
"""Devices of one driver that are remembered."""

LEASE_S: Final = 30.0
"""How long a report without a time of its own holds."""

MESSAGE_LIMIT: Final = 1024
"""Most bytes of a message that are kept."""

UNKNOWN: Final = "Unknown"
WORDS: Final = {0: UNKNOWN, 1: "Healthy", 2: "Unhealthy"}


@attrs.frozen(kw_only=True)
class DeviceHealth:
    """How a device is, in the words of a pod's status."""

    health: str = UNKNOWN
    message: str = ""

    def __str__(self) -> str:
        return f"{self.health}: {self.message}" if self.message else self.health


@attrs.frozen(kw_only=True)
class _Remembered:
    told: DeviceHealth
    timeout_s: float
    came_s: float

    def is_lapsed(self, now_s: float) -> bool:
        return now_s - self.came_s > self.timeout_s


class HealthInfo:
    """The memory of one life, of all drivers."""

    def __init__(self) -> None:
        self._drivers: dict[str, dict[tuple[str, str], _Remembered]] = {}

    def take(
        self, driver: str, reports: Iterable[Any], now_s: float
    ) -> tuple[tuple[str, str], ...]:
        """Remember a message of either version; gives the devices whose pods get a new status.

        Returns:
            Pools and names.
        """
        known = self._drivers.setdefault(driver, {})
        named = set()
        changed = []
        for report in reports:
            key = (report.device.pool_name, report.device.device_name)
            if key not in known and len(known) >= DEVICES_LIMIT:
                continue
            named.add(key)
            new = _remembered(report, now_s)
            old = known.get(key)
            if old is None or (old.told, old.timeout_s) != (new.told, new.timeout_s):
                changed.append(key)
            known[key] = new
        for key, old in known.items():
            if key not in named and old.told.health != UNKNOWN and old.is_lapsed(now_s):
                known[key] = attrs.evolve(old, told=DeviceHealth(), came_s=now_s)
                changed.append(key)
        return tuple(changed)

    def forget(self, driver: str) -> None:
        """Remember nothing of a driver, whose stream has ended; no status is made for that."""
        self._drivers.pop(driver, None)

    def of(self, driver: str, pool: str, device: str, now_s: float) -> DeviceHealth:
        """What the status of a pod that has the device says, if it is made now."""
        known = self._drivers.get(driver, {}).get((pool, device))
        return DeviceHealth() if known is None or known.is_lapsed(now_s) else known.told


def _remembered(report: Any, now_s: float) -> _Remembered:
    timeout_s = report.health_check_timeout_seconds
    return _Remembered(
        told=DeviceHealth(health=WORDS.get(report.health, UNKNOWN), message=_cut(report.message)),
        timeout_s=timeout_s if timeout_s > 0 else LEASE_S,
        came_s=now_s,
    )


def _cut(message: str) -> str:
    content = message.encode()
    if len(content) <= MESSAGE_LIMIT:
        return message
    return content[: MESSAGE_LIMIT - 3].decode(errors="ignore") + "..."
