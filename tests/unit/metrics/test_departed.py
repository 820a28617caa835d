"""Series of devices that are gone."""

from __future__ import annotations

from berth.metrics.departed import KEEP_S, Departed
from berth.model.meter import Tally


def test_series_of_a_device_outlive_it_by_an_hour() -> None:
    """One that came back in time keeps its own, and one that never was in the lists has as long."""
    changes, xids = Tally("device", "to"), Tally("xid", "device")
    changes.add("gone", "unhealthy")
    changes.add("back", "unhealthy")
    changes.add("stays", "healthy")
    xids.add("79", "gone")
    xids.add("13", "never-listed")
    departed = Departed()
    departed.drop({"gone", "back", "stays"}, (changes, xids), 0)
    departed.drop({"stays"}, (changes, xids), 10)
    departed.drop({"stays", "back"}, (changes, xids), KEEP_S - 1)

    assert len(changes.series()) == 3
    departed.drop({"stays"}, (changes, xids), KEEP_S + 9)
    assert changes.series().keys() == {("back", "unhealthy"), ("stays", "healthy")}
    assert xids.series() == {}

    # It is there again, under a name that nobody remembers.
    changes.add("gone", "healthy")
    departed.drop({"gone"}, (changes,), 2 * KEEP_S)
    assert ("gone", "healthy") in changes.series()
