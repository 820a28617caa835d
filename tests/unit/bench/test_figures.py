"""Figures of the bench: percentiles, verdicts, the table and the JSON."""

from __future__ import annotations

import json

import pytest

from tests.bench.figures import SOLE, Aim, Row, document, number, percentile, table

ROW = Row(
    name="prepare",
    unit="ms",
    samples=(4.0, 2.0, 30.0),
    aims=(Aim(of="p50", most=5), Aim(of="p99", most=20)),
    beside=(2.0,),
    beside_name="link down",
    note="on an idle machine",
)


@pytest.mark.parametrize(
    ("part", "wanted"), [(50, 50.0), (99, 99.0), (99.5, 100.0), (1, 1.0), (0, 1.0), (100, 100.0)]
)
def test_percentile_is_a_sample(part: float, wanted: float) -> None:
    """Nothing is interpolated: of a hundred samples each is its own percentile."""

    assert percentile([float(n) for n in range(100, 0, -1)], part) == wanted


def test_percentile_of_few_samples_is_the_worst() -> None:
    """The 99th of fewer than a hundred is the largest."""

    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([7.0], 50) == 7.0


def test_verdicts_tell_by_how_much() -> None:
    """Each aim is judged by its own figure."""

    assert ROW.verdicts == ("p50 ≤ 5.00: met", "p99 ≤ 20.0: missed by 10.0")
    only = Row(name="writes", unit="", samples=(0.0,), aims=(Aim(of=SOLE, most=0),))
    assert only.verdicts == ("≤ 0: met",)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.5, "1.50"), (62.48, "62.5"), (1234, "1234")],
)
def test_number_has_three_digits(value: float, text: str) -> None:
    """Enough to compare, and no more."""

    assert number(value) == text


def test_table_has_columns_and_notes() -> None:
    """A reader sees figure, ratio and verdict in one line."""

    head, line, note = table([ROW])

    assert head.split() == ["what", "unit", "n", "p50", "p99", "ratio", "aim"]
    assert line.split("  ")[0] == "prepare"
    assert "2.00 x link down" in line
    assert line.index("2.00 x") == head.index("ratio")
    assert note == "    on an idle machine"


def test_single_figure_has_no_ratio_and_no_percentile() -> None:
    """What was measured once is told once."""

    line = table([Row(name="memory", unit="MB", samples=(62.5,))])[1]

    assert line.split() == ["memory", "MB", "1", "62.5"]


def test_document_holds_every_sample() -> None:
    """Whoever doubts a figure can compute it again."""

    made = json.loads(document([ROW], {"cpus": 2}))

    assert made["machine"] == {"cpus": 2}
    (row,) = made["rows"]
    assert (row["p50"], row["p99"], row["ratio"]) == (4.0, 30.0, 2.0)
    assert row["samples"] == [4.0, 2.0, 30.0]
    assert [aim["verdict"] for aim in row["aims"]] == list(ROW.verdicts)
