"""What follows a wait that gave no event."""

from __future__ import annotations

import pytest

from berth.host.nvml.pace import MOST_EMPTY, PAUSE_S, After, Pace, after


def test_slow_returns_need_no_pause() -> None:
    """One wait's length apart, they are what is expected."""

    pace = Pace()
    for turn in range(100):
        pace, pause_s = pace.counted(turn * 0.5)
        assert pause_s == 0


def test_storm_of_returns_is_slowed_down() -> None:
    """Twenty in a second may be; the next one waits."""

    pace, pauses = Pace(), []
    for turn in range(MOST_EMPTY + 1):
        pace, pause_s = pace.counted(turn / 1000)
        pauses.append(pause_s)

    assert pauses == [0.0] * MOST_EMPTY + [PAUSE_S]
    assert pace == Pace()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (10, After.GO_ON),
        (3, After.GO_ON),
        (15, After.LOST),
        (999, After.BROKEN),
        (1, After.BROKEN),
    ],
)
def test_error_of_a_wait_decides_of_the_set(code: int, what: After) -> None:
    """Some leave it usable."""

    assert after(code) is what
