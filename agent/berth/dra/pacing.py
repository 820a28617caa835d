"""When a pool may be written: at once after quiet, never more than 20 times a minute, and after
failures with growing, spread pauses.

Source: gpu-and-health.md §6.6; daemon.md §4 (a round counts once, however many slices it writes,
since a half-written pool offers nothing).
"""

from __future__ import annotations

from typing import Final

import attrs
from typing_extensions import Self

from berth.runtime.backoff import BackOff

COALESCE_S: Final = 0.05
"""How long changes are gathered before a round, in seconds."""

BURST: Final = 8
"""Rounds that may follow each other without a pause."""

REFILL_S: Final = 5.0
"""Seconds after which one more round is allowed."""

RETRY: Final = BackOff(first_s=0.5, most_s=30.0)
"""Pauses after failures."""

_NEVER: Final = float("-inf")


@attrs.frozen(kw_only=True)
class Pace:
    """What a pool has written and failed to write, as a value; times are seconds of one clock.

    Attributes:
        rounds: Rounds that were allowed at ``since_s``.
        since_s: When that was.
        retry: Failures in a row.
        not_before_s: When the pause after the last failure is over.
    """

    rounds: float = BURST
    since_s: float = _NEVER
    retry: BackOff = RETRY
    not_before_s: float = _NEVER

    def ready_at_s(self, now_s: float) -> float:
        """When the next round may be made; not after ``now_s`` means now."""
        allowed_s = now_s + (1.0 - self._allowed(now_s)) * REFILL_S
        return max(self.not_before_s, allowed_s)

    def spent(self, now_s: float) -> Self:
        """The pace after a round was begun."""
        return attrs.evolve(self, rounds=self._allowed(now_s) - 1.0, since_s=now_s)

    def failed(self, now_s: float, *, chance: float) -> Self:
        """The pace after a failure; ``chance`` from 0 up to 1 spreads the pause."""
        retry, delay_s = self.retry.next_delay(chance=chance)
        return attrs.evolve(self, retry=retry, not_before_s=now_s + delay_s)

    def succeeded(self) -> Self:
        """The pace after a success: failures are forgiven, rounds are not."""
        return attrs.evolve(self, retry=self.retry.forgiven(), not_before_s=_NEVER)

    def _allowed(self, now_s: float) -> float:
        return min(float(BURST), self.rounds + (now_s - self.since_s) / REFILL_S)
