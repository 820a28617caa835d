"""How changes of verdicts are counted, and what each reader's time is taken for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from berth.health.changes import SLICE, STREAM, Changes
from berth.health.verdict import HealthState, Status, Verdict

WELL = Verdict(status=Status.HEALTHY)
SICK = Verdict(status=Status.UNHEALTHY, reason="xid-79")


def state(**verdicts: Verdict) -> HealthState:
    """Devices by name."""
    return HealthState(verdicts=verdicts)


def test_change_of_status_is_counted_by_what_it_came_to() -> None:
    """The first verdict on a device is none, and neither is another message."""
    changes = Changes()
    again = Verdict(status=Status.UNHEALTHY, reason="xid-79", message="since 12:00")
    steps = (state(), state(a=WELL), state(a=SICK, b=WELL), state(a=again, b=WELL), state(b=WELL))
    for before, after in pairwise(steps):
        changes.changed(before, after, 0)

    assert changes.count.series() == {("a", "unhealthy"): 1}


def test_each_reader_is_timed_once_for_each_change() -> None:
    """Whatever it says again later, and whatever it says of others."""
    changes = Changes()
    changes.changed(state(a=WELL, b=WELL), state(a=SICK, b=WELL), 10)
    changes.told(STREAM, ["a", "b"], 10.05)
    changes.told(STREAM, ["a"], 20)
    changes.told(SLICE, ["b"], 10.5)
    changes.told(SLICE, ["a"], 11)

    assert changes.seconds.counts() == {(STREAM,): 1, (SLICE,): 1}
    assert changes.seconds.series()[STREAM,].sum_s == pytest.approx(0.05)
    assert changes.seconds.series()[SLICE,].sum_s == pytest.approx(1)


def test_newer_change_is_what_the_next_message_tells() -> None:
    """And a device that has gone is waited for by nobody."""
    changes = Changes()
    changes.changed(state(a=WELL, b=WELL), state(a=SICK, b=SICK), 0)
    changes.told(STREAM, ["a", "b"], 1)
    changes.changed(state(a=SICK, b=SICK), state(a=WELL), 30)
    changes.told(STREAM, ["a", "b"], 32)

    assert changes.seconds.counts() == {(STREAM,): 3}
    assert changes.seconds.series()[STREAM,].sum_s == pytest.approx(1 + 1 + 2)
    changes.changed(state(), state(b=WELL), 40)
    changes.told(STREAM, ["b"], 50)
    assert changes.seconds.counts() == {(STREAM,): 3}
