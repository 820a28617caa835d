"""Delays between restarts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.runtime.backoff import BackOff


def delays(count: int, *, ran_s: float = 0.0) -> list[float]:
    """Give the delays after that many failures in a row."""
    back_off = BackOff()
    seen = []
    for _ in range(count):
        back_off, delay_s = back_off.next_delay(ran_s=ran_s)
        seen.append(delay_s)
    return seen


def test_delays_when_failures_follow_each_other() -> None:
    """Each delay is twice the one before, up to a minute."""

    assert delays(8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_delay_when_it_ran_steadily() -> None:
    """Two minutes of steady running forgive what was before."""

    assert delays(3, ran_s=120) == [1, 1, 1]


def test_delay_when_it_ran_just_too_short() -> None:
    """Less than two minutes forgive nothing."""

    assert delays(3, ran_s=119.9) == [1, 2, 4]


def test_forgiven_when_asked() -> None:
    """A caller that saw success starts over."""

    back_off, _ = BackOff().next_delay()

    assert BackOff() == back_off.forgiven()


@given(failures=st.integers(0, 10**6), chance=st.floats(0, 1, exclude_max=True))
def test_delay_within_bounds_whatever_chance_says(failures: int, chance: float) -> None:
    """Chance takes at most a fifth off, and nothing makes a delay longer than a minute."""

    state = BackOff(failures=failures)

    _, full_s = state.next_delay()
    _, delay_s = state.next_delay(chance=chance)

    assert 0.8 * full_s <= delay_s <= full_s <= 60
