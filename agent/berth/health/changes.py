"""How often verdicts changed, and how long each reader took until it was told.

A reader tells with each of its messages of which devices it says something else than before; the
first such message after a change is what that change waited for. What a reader never tells, since
nothing of it concerns its own reader, is measured by nobody.

Source: gpu-and-health.md §6.6, §7.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.health.verdict import HealthState
from berth.model.meter import Tally, Timing

LIST: Final = "list"
STREAM: Final = "stream"
SLICE: Final = "slice"
CLAIM: Final = "claim"


class Changes:
    """Counts them; whoever calls says what time it is.

    Attributes:
        count: Changes of verdicts, by device and the status that it came to.
        seconds: How long the readers took, by reader.
    """

    def __init__(self) -> None:
        self.count = Tally("device", "to")
        self.seconds = Timing("sink")
        self._changed_s: dict[str, float] = {}
        self._told: dict[str, set[str]] = {}

    def changed(self, before: HealthState, after: HealthState, now_s: float) -> None:
        """Devices are like this now; of one that is new nobody was told anything else before."""
        for name, verdict in after.verdicts.items():
            known = before.verdicts.get(name)
            if known is None or known == verdict:
                continue
            if known.status is not verdict.status:
                self.count.add(name, verdict.status.value)
            if (known.status, known.reason) != (verdict.status, verdict.reason):
                self._changed_s[name] = now_s
                for told in self._told.values():
                    told.discard(name)
        for name in self._changed_s.keys() - after.verdicts.keys():
            del self._changed_s[name]

    def told(self, sink: str, names: Iterable[str], now_s: float) -> None:
        """A reader was told something else of these devices."""
        told = self._told.setdefault(sink, set())
        told.intersection_update(self._changed_s)
        for name in self._changed_s.keys() & set(names) - told:
            told.add(name)
            self.seconds.observe(now_s - self._changed_s[name], sink)
