"""Figures: what is counted, and how much room it may take."""

from __future__ import annotations

import pytest

from berth.model.meter import BUCKETS_S, SERIES_LIMIT, Spread, Tally, Timing


def test_tally_counts_by_its_labels() -> None:
    """What was read before does not change."""
    tally = Tally("result")
    tally.add("ok")
    before = tally.series()
    tally.add("ok")
    tally.add("error", by=3)

    assert before == {("ok",): 1}
    assert tally.series() == {("ok",): 2, ("error",): 3}


@pytest.mark.parametrize(
    ("took_s", "place"),
    [(0.0, 0), (0.001, 0), (0.0011, 1), (45.0, len(BUCKETS_S) - 1), (45.1, len(BUCKETS_S))],
)
def test_time_belongs_to_the_first_bound_that_it_keeps(took_s: float, place: int) -> None:
    """A bound is kept by what is just as long."""
    timing = Timing("call")
    timing.observe(took_s, "probe")
    spread = timing.series()["probe",]

    assert (spread.counts.index(1), sum(spread.counts), spread.sum_s) == (place, 1, took_s)


def test_times_add_up() -> None:
    """By series, in counts and in seconds."""
    timing = Timing()
    for took_s in (0.5, 0.25, 100):
        timing.observe(took_s)

    assert timing.counts() == {(): 3}
    assert timing.series()[()].sum_s == pytest.approx(100.75)
    assert Spread().with_one(1) == Spread().with_one(1)


def test_series_that_are_begun_are_there_at_zero() -> None:
    """So that their first increase can be seen."""
    tally = Tally("result").begin("ok", "error")
    tally.add("ok")

    assert tally.series() == {("ok",): 1, ("error",): 0}


def test_series_are_bounded() -> None:
    """The one that was not touched for longest goes."""
    tally = Tally("name")
    for number in range(SERIES_LIMIT):
        tally.add(str(number))
    tally.add("0")
    tally.add("one more")

    assert len(tally.series()) == SERIES_LIMIT
    assert tally.series()["0",] == 2
    assert ("1",) not in tally.series()


def test_series_of_what_is_gone_are_dropped() -> None:
    """All others stay."""
    tally = Tally("device", "to")
    tally.add("gpu-a", "healthy")
    tally.add("gpu-b", "healthy")
    tally.retain(lambda values: values[0] == "gpu-b")

    assert tally.series() == {("gpu-b", "healthy"): 1}
