"""What is due after each return of a wait for events: go on, slow down, or end.

Some drivers return TIMEOUT at once, again and again; that must not spin.

Source: GH §2.7 and §2.8.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

MOST_EMPTY: Final = 20
"""More returns than this within a second, without an event, are slowed down."""

PAUSE_S: Final = 1.0


class After(Enum):
    """What becomes of the event set."""

    GO_ON = "go-on"
    LOST = "lost"
    """Some GPU is lost; the set would say so for ever."""
    BROKEN = "broken"
    """The set is of no further use."""


@attrs.frozen(kw_only=True)
class Pace:
    """Returns without an event, within the second that began at ``since_s``."""

    since_s: float = float("-inf")
    empty: int = 0

    def counted(self, now_s: float) -> tuple[Pace, float]:
        """Count a return without an event, and give the pause that it asks for, in seconds."""
        if now_s - self.since_s > 1:
            return Pace(since_s=now_s, empty=1), 0.0
        if self.empty < MOST_EMPTY:
            return attrs.evolve(self, empty=self.empty + 1), 0.0
        return Pace(), PAUSE_S


def after(code: int) -> After:
    """Give what an error of the wait does to the set: TIMEOUT and NOT_SUPPORTED leave it usable."""
    if code in {3, 10}:
        return After.GO_ON
    return After.LOST if code == 15 else After.BROKEN
