"""How often a pool may be written: at once after quiet, and never more than 20 times a minute.

Source: gpu-and-health.md §6.6; daemon.md §4 (a round counts once, however many slices it writes,
since a half-written pool offers nothing).
"""

from __future__ import annotations

from typing import Final

import attrs
from typing_extensions import Self

COALESCE_S: Final = 0.05
"""How long changes are gathered before a round, in seconds."""

BURST: Final = 8
"""Rounds that may follow each other without a pause."""

REFILL_S: Final = 5.0
"""Seconds after which one more round is allowed."""


@attrs.frozen(kw_only=True)
class Allowance:
    """The rounds that a pool may still make, as a value; times are seconds of one clock.

    Attributes:
        rounds: Rounds that were left at ``since_s``.
        since_s: When that was.
    """

    rounds: float = BURST
    since_s: float = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Seconds until a round may be made; 0 for now."""
        return max(0.0, (1.0 - self._left(now_s)) * REFILL_S)

    def spent(self, now_s: float) -> Self:
        """The allowance after a round."""
        return attrs.evolve(self, rounds=self._left(now_s) - 1.0, since_s=now_s)

    def _left(self, now_s: float) -> float:
        return min(float(BURST), self.rounds + (now_s - self.since_s) / REFILL_S)
