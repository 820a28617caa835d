"""When the subjects of a source are probed, and when their silence is told; no clock, no I/O.

A moment is a number of seconds on whatever clock the caller has. Each subject has a `Turn`; the
functions look at all turns of a source and say what is due.

Theory. Intervals are counted from start to start, so that slow answers do not stretch them. A probe
that is nearly due goes along with one that is, and from then on the two stay together: so many
subjects of one interval come to one wake-up in it, however they came in. A probe that is out is
never started again; past its deadline it is told, and told anew in each interval, in words that
change ever more seldom. What has been named and is not any more needs several answers to heal, so
meanwhile probes come more often: what is plugged in again need not wait for three long intervals.

Source: gpu-and-health.md §6.1, §6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from berth.health.course import PROBES
from berth.health.finding import Finding, Severity
from berth.health.terms import Terms

ALONG: Final = 0.1
"""A probe that is due within this part of its interval goes along with one that is due now."""

LEAST_PACE_S: Final = 1.0
"""Never more often than this."""

NO_ANSWER: Final = "no-answer"
"""Code of the finding that a probe is out past its deadline."""

_NEVER: Final = float("-inf")


@attrs.frozen(kw_only=True)
class Turn:
    """Where one subject stands.

    Attributes:
        began_s: When the last probe was started.
        out: It has not returned yet.
        told_s: When the silence of the one that is out was told last; never while it was not.
        hurried: The next is due at once, or as soon as this one has returned.
        heals: Something that it named before heals.
    """

    terms: Terms
    began_s: float = _NEVER
    out: bool = False
    told_s: float = _NEVER
    hurried: bool = False
    heals: bool = False

    @property
    def pace_s(self) -> float:
        """From one probe to the next; while it heals, as many as that takes within its time."""
        terms = self.terms
        healing_s = max(terms.recover_after_s / PROBES, LEAST_PACE_S)
        return min(terms.interval_s, healing_s) if self.heals else terms.interval_s

    @property
    def due_s(self) -> float:
        """When the next probe is due, if none is out."""
        return _NEVER if self.hurried else self.began_s + self.pace_s

    @property
    def is_late(self) -> bool:
        """Its silence was told."""
        return self.out and self.told_s != _NEVER

    @property
    def wake_s(self) -> float:
        """When something has to be done about it, unless it answers before."""
        if not self.out:
            return self.due_s
        if self.is_late:
            return self.told_s + self.terms.interval_s
        return self.began_s + self.terms.deadline_s

    def begun(self, now_s: float) -> Turn:
        """The turn when its probe has been started."""
        return attrs.evolve(self, began_s=now_s, out=True, told_s=_NEVER, hurried=False)

    def told(self, now_s: float) -> Turn:
        """The turn when its silence has been told."""
        return attrs.evolve(self, told_s=now_s)

    def returned(self) -> Turn:
        """The turn when its probe has returned; after a late one the next comes at once."""
        return attrs.evolve(self, out=False, hurried=self.hurried or self.is_late)


def due(turns: Mapping[str, Turn], now_s: float, *, room: int | None = None) -> tuple[str, ...]:
    """Whose probes are to be started now: those that are due, and those that go along.

    Args:
        room: How many may be started, those first that wait longest; any number if ``None``.
    """
    idle = {name: turn for name, turn in turns.items() if not turn.out}
    if all(turn.due_s > now_s for turn in idle.values()):
        return ()
    found = [name for name, turn in idle.items() if turn.due_s <= now_s + ALONG * turn.pace_s]
    return tuple(sorted(found, key=lambda name: idle[name].due_s)[:room])


def silent(turns: Mapping[str, Turn], now_s: float) -> tuple[str, ...]:
    """Whose silence is to be told now."""
    return tuple(name for name, turn in turns.items() if turn.out and turn.wake_s <= now_s)


def wake_s(turns: Mapping[str, Turn], *, room: int | None = None) -> float:
    """When to look again; never, where there is nobody.

    Args:
        room: As for `due`; without any, only what is out counts.
    """
    awaited = (turn.wake_s for turn in turns.values() if turn.out or room != 0)
    return min(awaited, default=float("inf"))


def no_answer(turn: Turn, now_s: float, *, mend: str) -> Finding:
    """The finding on a probe that is out past its deadline.

    The seconds that it names double from one message to the next: another message is a change,
    which is told to everyone, and an hour of silence is to be some ten of them.

    Args:
        mend: What a person can do about it.
    """
    shown_s = turn.terms.deadline_s
    while 2 * shown_s <= now_s - turn.began_s:
        shown_s *= 2
    return Finding(
        code=NO_ANSWER,
        severity=Severity.FAULT,
        message=f"has not answered for {shown_s:g} s: {mend}",
    )
