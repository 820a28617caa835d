"""How long to wait before trying again: twice as long each time, forgiven after steady running."""

from __future__ import annotations

import attrs
from typing_extensions import Self


@attrs.frozen(kw_only=True)
class BackOff:
    """The delays after failures in a row, as a value.

    Attributes:
        first_s: Delay after the first failure, in seconds.
        most_s: No delay is longer, in seconds.
        steady_s: A run of at least this many seconds before a failure forgives those before.
        spread: Part of a delay, from 0 to 1, that chance may take off, so that many nodes do not
            come back in one moment.
        failures: Failures in a row so far.
    """

    first_s: float = 1.0
    most_s: float = 60.0
    steady_s: float = 120.0
    spread: float = 0.2
    failures: int = 0

    def next_delay(self, *, ran_s: float = 0.0, chance: float = 0.0) -> tuple[Self, float]:
        """Count a failure, and give the state after it and the delay to keep, in seconds.

        Args:
            ran_s: How long it ran well before it failed.
            chance: A random number from 0 up to 1; 0 gives the full delay.
        """
        failures = 0 if ran_s >= self.steady_s else self.failures
        # 2**63 is beyond any limit; the exponent is bounded so that years of failures stay cheap.
        delay_s = min(self.most_s, self.first_s * 2 ** min(failures, 63))
        return attrs.evolve(self, failures=failures + 1), delay_s * (1 - self.spread * chance)

    def forgiven(self) -> Self:
        """Give the state without failures."""
        return attrs.evolve(self, failures=0)
