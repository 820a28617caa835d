"""What the log says of health: one line for each change of a device, and no flood.

A change that was told within the last minute is held back and counted. What it came to is told when
the minute is over, so that the last line of a device is true.

Source: gpu-and-health.md §6.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from berth.health.verdict import UNASKED, HealthState, Status, Verdict
from berth.runtime.logs import get_log

REPEAT_S: Final = 60.0
"""The same change of a device is told again after this time at the earliest."""

Outcome: TypeAlias = tuple[Status, str]
"""What counts as another state: the status and the reason."""

_FIRST: Final[Outcome] = (UNASKED.status, UNASKED.reason)
_WELL: Final[Outcome] = (Status.HEALTHY, "")

_log = get_log(__name__)


class HealthJournal:
    """Tells the log how devices change.

    Attributes:
        due_s: When `tell` has something to say that it held back; infinity if it has not.
    """

    def __init__(self) -> None:
        self.due_s = math.inf
        self._devices: dict[str, _Device] = {}

    def tell(
        self, state: HealthState, holders: Mapping[str, tuple[str, ...]], *, now_s: float
    ) -> None:
        """Tell what is new since the last call.

        Args:
            holders: Who has each device, by name, in words for people.
        """
        self._devices = {name: self._devices.get(name) or _Device(name) for name in state.verdicts}
        for name, verdict in state.verdicts.items():
            self._devices[name].tell(verdict, holders.get(name, ()), now_s)
        self.due_s = min((one.due_s for one in self._devices.values()), default=math.inf)


class _Device:
    """What was told of one device."""

    def __init__(self, name: str) -> None:
        self.due_s = math.inf
        self._name = name
        self._told = _FIRST
        self._lines: dict[Outcome, float] = {}
        self._seen = _FIRST
        self._held = 0

    def tell(self, verdict: Verdict, holders: tuple[str, ...], now_s: float) -> None:
        outcome = (verdict.status, verdict.reason)
        is_new, self._seen = outcome != self._seen, outcome
        self.due_s = math.inf
        if outcome == self._told:
            self._held += is_new
            return
        if (self._told, outcome) == (_FIRST, _WELL):
            # That it is well when it is asked for the first time is what everybody expects.
            self._told = outcome
            return
        self._lines = {one: s for one, s in self._lines.items() if s + REPEAT_S > now_s}
        if outcome in self._lines:
            self._held += is_new
            self.due_s = self._lines[outcome] + REPEAT_S
            return
        self._write(verdict, holders)
        self._lines[outcome] = now_s
        self._told, self._held = outcome, 0

    def _write(self, verdict: Verdict, holders: tuple[str, ...]) -> None:
        is_well = verdict.status is Status.HEALTHY and verdict.severity is None
        write = _log.info if is_well else _log.warning
        write(
            "device health",
            device=self._name,
            **{"from": _shown(self._told)},
            to=verdict.status.value,
            reason=verdict.reason or "-",
            message=verdict.message or "-",
            holder="; ".join(holders) or "-",
            held_back=self._held,
        )


def _shown(outcome: Outcome) -> str:
    status, reason = outcome
    return f"{status.value}/{reason}" if reason else status.value
