"""Figures that are counted where something happens, and read when somebody asks.

Whoever does the work owns its figures and counts whether anybody reads them or not: a count is a
look-up in a dict. There are no locks: all of it happens in the trio thread, and what a worker
thread did is counted by whoever waited for it. Values of labels are words from small sets; a
mistake there costs at most `SERIES_LIMIT` series, of which the one that was not touched for longest
is dropped.

Source: Prometheus' data model (counter, histogram).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

BUCKETS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 20.0, 45.0),
)
"""Upper bounds of every histogram, in seconds; kubelet waits 45 s for a claim."""

SERIES_LIMIT: Final = 1024
"""Most series of one figure."""

Values: TypeAlias = tuple[str, ...]
"""What the labels of one series are, in the order of the figure's labels."""

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Spread:
    """How long things took.

    Attributes:
        counts: How many ended up to each bound of `BUCKETS_S` and above the one before it; the last
            is of those beyond all bounds.
        sum_s: All of them together, in seconds.
    """

    counts: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    sum_s: float = 0.0

    def with_one(self, took_s: float) -> Spread:
        """The spread with one more."""
        place = bisect.bisect_left(BUCKETS_S, took_s)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Spread(counts=counts, sum_s=self.sum_s + took_s)


class Figure(Generic[T]):
    """One figure, by the values of its labels.

    Args:
        labels: What its series are told apart by; none for a single one.
    """

    def __init__(self, *labels: str) -> None:
        self.labels = labels
        self._series: dict[Values, T] = {}

    def series(self) -> Mapping[Values, T]:
        """Every series, as it is now."""
        return dict(self._series)

    def retain(self, keep: Callable[[Values], bool]) -> None:
        """Drop every series of which this is not said, such as those of devices long gone."""
        self._series = {values: one for values, one in self._series.items() if keep(values)}

    def _take(self, values: Values) -> T | None:
        """Give a series away to be put back as the one that was touched last."""
        found = self._series.pop(values, None)
        if found is None and len(self._series) >= SERIES_LIMIT:
            del self._series[next(iter(self._series))]
        return found


class Tally(Figure[float]):
    """How often something happened since the start."""

    def begin(self, *words: str) -> Tally:
        """Have a series at 0 for each value of its only label; gives the figure itself.

        A series that is born at 1 has no increase that anybody could see.
        """
        for word in words:
            self.add(word, by=0)
        return self

    def add(self, *values: str, by: float = 1) -> None:
        """Count."""
        self._series[values] = (self._take(values) or 0) + by


class Timing(Figure[Spread]):
    """How long something takes."""

    def observe(self, took_s: float, *values: str) -> None:
        """Enter one."""
        self._series[values] = (self._take(values) or Spread()).with_one(took_s)

    def counts(self) -> Mapping[Values, int]:
        """How many were entered, by series."""
        return {values: sum(spread.counts) for values, spread in self._series.items()}
