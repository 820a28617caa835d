"""Faults are bounded in number and length, and told in the order of the texts."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.finding import Finding
from berth.errors import ClaimError, ConfigError
from berth.nic.config.report import FAULT_LIMIT, TEXT_LIMIT, Place, Report, dotted, shown


def test_place_when_inside_a_list() -> None:
    """A place is told as a path with items counted from 0."""

    place = Place(report=Report(), root="config[2]").at("opaque", "parameters", "routes", 1, "via")

    assert str(place) == "config[2].opaque.parameters.routes[1].via"


def test_place_when_at_the_top() -> None:
    """The top of a text is told by its name alone."""

    assert str(Place(report=Report(), root="config[2]", joint=": ")) == "config[2]"


def test_place_when_a_key_is_no_word() -> None:
    """Keys with odd signs, line ends or great length stand in brackets, in one short line."""

    assert dotted(["a b", "c\nd", 0, "x" * 90]) == f'["a b"]["c\\nd"][0]["{"x" * 58}…]'


def test_place_when_evolved_keeps_its_report() -> None:
    """What is said below a place reaches the same report."""

    report = Report()
    Place(report=report, root="x").at("y").refuse("5", rule="it must be a number", mend="write 5")

    assert [str(f) for f in report.faults(ClaimError)] == ['x.y: "5": it must be a number; write 5']


def test_cursor_methods_when_called_on_a_place() -> None:
    """Forms of the node's settings see values as JSON too."""

    place = Place(report=Report(), root="x")

    assert (place.written(None), place.shown(True)) == ("null", "true")


def test_faults_when_said_twice() -> None:
    """One fault of an entry that applies to two devices is told once, and counted twice."""

    report = Report()
    for _ in range(2):
        Place(report=report, root="x").say("wrong")

    assert (report.count, len(report.faults(ClaimError))) == (2, 1)


def test_faults_when_ranked() -> None:
    """Texts come in their order, the faults of one text as they were found."""

    report = Report()
    for rank, root in ((1, "b"), (0, "a"), (1, "a"), (0, "z")):
        Place(report=report, root=root, rank=rank).say("wrong")
    faults = report.faults(ConfigError)

    assert [fault.where for fault in faults] == ["a", "z", "b", "a"]
    assert {type(fault) for fault in faults} == {ConfigError}


def test_faults_when_more_than_the_limit() -> None:
    """Surplus faults are counted, not told."""

    report = Report()
    place = Place(report=report, root="x")
    for number in range(FAULT_LIMIT + 7):
        assert report.full is (number >= FAULT_LIMIT)
        place.say(f"wrong {number}")
    faults = report.faults(ClaimError)

    assert len(faults) == FAULT_LIMIT + 1
    assert str(faults[-1]) == "and 7 more, not shown"


def test_findings_when_of_the_nodes_settings() -> None:
    """The same faults can be told by whoever knows the file that the text stands in."""

    report = Report()
    place = Place(report=report, root="x")
    for number in range(FAULT_LIMIT + 1):
        place.at("a", number).say("wrong", rule="rule", mend="mend")
    findings = report.findings("nic", 0)

    assert findings[1] == Finding(
        steps=("nic", 0, "a"), joint="[1]: ", found="wrong", rule="rule", mend="mend"
    )
    assert findings[-1] == Finding(steps=("nic", 0), joint=": ", found="and 1 more, not shown")


def test_fault_when_a_part_is_long() -> None:
    """No part of a message outgrows the limit."""

    report = Report()
    Place(report=report, root="r" * 999).say("f" * 999, rule="u" * 999, mend="m" * 999)
    fault = report.faults(ClaimError)[0]

    parts = (fault.where, fault.found, fault.rule, fault.mend)
    assert [len(part) for part in parts] == [TEXT_LIMIT] * 4
    assert all(part.endswith("…") for part in parts)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (9000.5, "9000.5"),
        (float("inf"), "Infinity"),
        ("it's\n", '"it\'s\\n"'),
        ("\ud800", '"\\ud800"'),
        ({"a": 1}, "an object"),
        ([1, 2], "a list"),
        (2**64, "a number of 65 bits"),
        (-(2**64), "a number of 65 bits"),
        (2**64 - 1, "18446744073709551615"),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 58}…'),
    ],
)
def test_shown_when(value: object, text: str) -> None:
    """Values are shown as JSON, in one line of bounded length, whatever they are."""

    assert shown(value) == text


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_shown_when_anything(value: object) -> None:
    """No value makes a long or broken line."""

    text = shown(value)

    assert len(text) <= 60
    assert text.isprintable()
