"""What is due of the probes of a source at a moment."""

from __future__ import annotations

import math

import attrs
from hypothesis import given
from hypothesis import strategies as st

from berth.health.schedule import Turn, due, no_answer, silent, wake_s
from berth.health.terms import Terms

TERMS = Terms(interval_s=10, deadline_s=4, timeout_s=30)
NEW = Turn(terms=TERMS)


def test_new_subject_is_due() -> None:
    """At once, whatever the clock says."""

    assert due({"a": NEW}, -5) == ("a",)
    assert wake_s({"a": NEW}) == -math.inf
    assert wake_s({}) == math.inf


def test_interval_counts_from_start_to_start() -> None:
    """And what is nearly due goes along, but never alone."""
    done = NEW.begun(100).returned()
    other = NEW.begun(101).returned()

    assert wake_s({"a": done, "b": other}) == 110
    assert due({"a": done, "b": other}, 109.9) == ()
    assert due({"a": done, "b": other}, 110) == ("a", "b")


def test_longest_waiting_goes_first_where_room_is_short() -> None:
    """And without room only what is out is waited for."""
    turns = {"late": NEW.begun(3).returned(), "later": NEW.begun(1).returned(), "new": NEW}

    assert due(turns, 50, room=2) == ("new", "later")
    assert due(turns, 50, room=0) == ()
    assert wake_s({**turns, "out": NEW.begun(50)}, room=0) == 54


def test_silence_is_told_at_the_deadline_and_at_each_interval() -> None:
    """It is never due meanwhile."""
    out = NEW.begun(100)

    assert silent({"a": out}, 103.9) == ()
    assert silent({"a": out}, 104) == ("a",)
    assert not out.is_late
    told = out.told(104)
    assert told.is_late
    assert silent({"a": told}, 113.9) == ()
    assert silent({"a": told}, 114) == ("a",)
    assert due({"a": told}, 1000) == ()


def test_after_a_late_answer_the_next_probe_is_due_at_once() -> None:
    """Also when silence was told in the moment in which it came, and the next is not late yet."""
    back = NEW.begun(100).told(104).returned()

    assert due({"a": back}, 104) == ("a",)
    assert not back.begun(104).is_late
    assert attrs.evolve(NEW.begun(100), hurried=True).returned().due_s == -math.inf


@given(st.floats(min_value=4, max_value=1e6))
def test_seconds_that_are_told_are_true_and_double(waited_s: float) -> None:
    """It has been silent for so long at least, and for less than twice that."""
    message = no_answer(NEW.begun(0), waited_s, mend="look").message

    shown_s = float(message.removeprefix("has not answered for ").removesuffix(" s: look"))
    assert shown_s <= waited_s * 1.000001
    assert waited_s < shown_s * 2.000001
