"""Series of devices that are gone."""

from __future__ import annotations

from berth.metrics.departed import KEEP_S, Departed


def test_series_of_a_device_outlive_it_by_an_hour() -> None:
    """One that came back in time keeps its own, and one that never was there has as long."""
    departed = Departed()
    departed.kept({"gone", "back", "stays"}, {"never"}, 0)
    departed.kept({"stays"}, {"gone", "never"}, 10)

    assert departed.kept({"stays", "back"}, {"gone"}, KEEP_S - 1) == {
        "gone",
        "back",
        "stays",
        "never",
    }
    assert departed.kept({"stays"}, {"gone", "never", "back"}, KEEP_S + 9) == {"back", "stays"}


def test_device_that_comes_again_begins_anew() -> None:
    """Whatever was there under its name is forgotten."""
    departed = Departed()
    departed.kept({"a"}, (), 0)
    assert departed.kept((), {"a"}, KEEP_S) == set()

    assert departed.kept({"a"}, (), 2 * KEEP_S) == {"a"}
