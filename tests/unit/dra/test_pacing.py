"""How often a pool may be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.pacing import BURST, REFILL_S, Pace


def test_ready_at_once_after_quiet() -> None:
    """A pool that was quiet may be written eight times in a row, and then waits 5 s."""

    pace = Pace()
    for _ in range(BURST):
        assert pace.ready_at_s(100.0) <= 100.0
        pace = pace.spent(100.0)

    assert pace.ready_at_s(100.0) == 100.0 + REFILL_S
    assert pace.ready_at_s(104.0) == pytest.approx(105.0)
    assert pace.ready_at_s(105.0) <= 105.0


def test_failed_waits_longer_each_time_and_is_forgiven() -> None:
    """Pauses double up to 30 s, chance takes off up to a fifth, a success ends them."""

    pace, pauses = Pace(), []
    for _ in range(9):
        pace = pace.failed(0.0, chance=0.0)
        pauses.append(pace.ready_at_s(0.0))

    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert pace.failed(0.0, chance=1.0).ready_at_s(0.0) == 24
    assert pace.succeeded().ready_at_s(0.0) <= 0
    assert pace.succeeded().failed(0.0, chance=0.0).ready_at_s(0.0) == 0.5


@given(st.lists(st.floats(0, 10), min_size=30, max_size=120))
def test_rounds_never_exceed_twenty_a_minute(gaps: list[float]) -> None:
    """Whatever the rhythm of changes, no minute sees more than 20 rounds."""

    pace, now, rounds = Pace(), 0.0, []
    for gap in gaps:
        now = max(now + gap, pace.ready_at_s(now + gap))
        pace = pace.spent(now)
        rounds.append(now)

    assert max(sum(start <= at < start + 59.99 for at in rounds) for start in rounds) <= 20
