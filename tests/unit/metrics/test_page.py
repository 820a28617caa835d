"""The page: what was entered is what a scraper reads."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.errors import LocalProtocolError
from berth.metrics.families import BY_NAME
from berth.metrics.page import Page
from berth.model.meter import BUCKETS_S, Tally, Timing
from tests.unit.metrics.exposition import read

NAME = "berth_device_excluded"


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=8), st.text(max_size=8)),
        st.one_of(st.floats(), st.integers(-(10**12), 10**12)),
        min_size=1,
        max_size=6,
    )
)
def test_every_label_and_number_is_read_as_it_was_entered(
    series: dict[tuple[str, str], float],
) -> None:
    """Quotes, backslashes and ends of lines too."""
    page = Page()
    page.put_all(NAME, series)
    told = read(page.text())[NAME]

    wanted = {values: float(value) for values, value in series.items()}
    found = {(one.labels["kind"], one.labels["reason"]): one.value for one in told.samples}
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        assert value == wanted[key] or (math.isnan(value) and math.isnan(wanted[key]))
    assert (told.kind, told.help) == ("gauge", BY_NAME[NAME].help)


def test_what_is_no_text_is_replaced() -> None:
    """The kernel's names are bytes, and a page with other than UTF-8 is refused as a whole."""
    page = Page()
    page.put(NAME, 1, "tty\udcff", "")

    assert read(page.text())[NAME].samples[0].labels["kind"] == "tty?"


def test_histogram_is_cumulative_and_ends_with_all() -> None:
    """As the format wants it: each bound counts everything below."""
    timing = Timing("kind", "result")
    for took_s in (0.0005, 0.3, 0.4, 100.0):
        timing.observe(took_s, "nic", "ok")
    page = Page()
    page.put_figure("berth_prepare_seconds", timing)
    told = read(page.text())["berth_prepare_seconds"]

    buckets = [one for one in told.samples if one.name.endswith("_bucket")]
    assert [float(one.labels["le"]) for one in buckets] == [*BUCKETS_S, math.inf]
    assert [one.value for one in buckets] == [1] * 8 + [3] * 7 + [4]
    rest = {one.name: one.value for one in told.samples if one not in buckets}
    assert rest == {
        "berth_prepare_seconds_sum": pytest.approx(100.7005),
        "berth_prepare_seconds_count": 4,
    }


def test_figures_of_several_are_added() -> None:
    """Two folders write records, and the page tells of both."""
    one, other = Tally("result"), Tally("result")
    one.add("ok")
    other.add("ok", by=2)
    other.add("error")
    page = Page()
    page.put_figure("berth_state_writes_total", one, other)

    assert page.series("berth_state_writes_total") == {("ok",): 3, ("error",): 1}


def test_figure_without_labels_is_there_from_the_start() -> None:
    """Else the first increase would be seen by nobody."""
    page = Page()
    page.put_figure("berth_uevent_overflows_total", Tally())
    page.put_figure("berth_event_loop_lag_seconds", Timing())
    page.put_figure("berth_uevents_total", Tally("subsystem"))
    told = read(page.text())

    assert told.keys() == {"berth_uevent_overflows_total", "berth_event_loop_lag_seconds"}
    assert {one.value for family in told.values() for one in family.samples} == {0}


@pytest.mark.parametrize(
    ("enter", "words"),
    [
        (lambda page: page.put("berth_nothing", 1), "berth_nothing: is no family"),
        (lambda page: page.put("berth_ready", 1, "x"), "is entered with 1 labels: it is a gauge"),
        (
            lambda page: page.put("berth_prepare_seconds", 1, "nic", "ok"),
            "is entered as something else: it is a histogram by kind, result",
        ),
        (
            lambda page: page.put_figure("berth_cdi_writes_total", Tally("outcome")),
            "is counted by outcome: it is a counter by result",
        ),
        (
            lambda page: page.put_figure("berth_ready", Tally()),
            "is entered as something else: it is a gauge by no label",
        ),
    ],
)
def test_what_is_in_no_table_cannot_be_entered(enter: Callable[[Page], None], words: str) -> None:
    """A name or label that nobody documented is a defect, found by whichever test reads a page."""
    with pytest.raises(LocalProtocolError) as caught:
        enter(Page())

    assert words in str(caught.value)
