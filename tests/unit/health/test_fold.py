"""From causes to one verdict."""

from __future__ import annotations

import math
from typing import Final

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.health.course import Course, Flapping, Moment
from berth.health.finding import MESSAGE_LIMIT, Severity
from berth.health.fold import EXPIRED, REFUSED, ended, expires_s, fold, shown
from berth.health.verdict import UNASKED, Status
from tests.unit.health.moments import EPOCH, LOST, MUTE, SICK, TERMS, WORN, at, heard

YEAR_S: Final = 365 * 24 * 3600


def test_never_asked_is_unknown() -> None:
    """Nobody has said anything, or only what was heard by the way."""

    for course in (Course(), Course().reported("inventory", (), asked=False, at=at(0))):
        verdict = fold((course,), TERMS, at(1))
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, UNASKED.reason)
        assert verdict.observed_s == 0
        assert verdict.timeout_s == TERMS.timeout_s


def test_nobody_is_well_before_all_have_answered_who_are_going_to_ask() -> None:
    """One of two sources may know of a fault; what is expected of one that asks is no change."""

    course = heard(Course().expected("bus"), s=0)
    assert fold((course,), TERMS, at(1)).reason == UNASKED.reason

    course = heard(course, s=2, source="bus")
    assert fold((course,), TERMS, at(3)).status is Status.HEALTHY
    assert course.expected("bus") is course


def test_answer_without_findings_is_healthy() -> None:
    """It says when it was confirmed, and nothing else."""

    verdict = fold((heard(Course(), s=3),), TERMS, at(4))

    assert verdict.status is Status.HEALTHY
    assert (verdict.severity, verdict.reason, verdict.message) == (None, "", "")
    assert verdict.observed_s == EPOCH + 3


def test_degraded_is_healthy_with_a_reason() -> None:
    """Pods get it, and a person is told."""

    verdict = fold((heard(Course(), WORN, s=3),), TERMS, at(4))

    assert verdict.is_degraded
    assert verdict.reason == "remap-pending"


def test_worst_cause_wins_and_then_the_oldest() -> None:
    """The others are counted, and named as far as there is room."""

    course = heard(Course(), WORN, s=0)
    course = heard(heard(course, WORN, MUTE, s=5), WORN, MUTE, SICK, s=10)

    verdict = fold((course,), TERMS, at(11))
    assert (verdict.status, verdict.reason, verdict.causes) == (Status.UNHEALTHY, "no-answer", 3)
    assert verdict.message == (
        f"it does not answer (since {shown(EPOCH + 5)}); 2 more: xid-48, remap-pending"
    )
    lost = fold((heard(course, WORN, MUTE, SICK, LOST, s=20),), TERMS, at(20))
    assert (lost.reason, lost.severity) == ("lost", Severity.LOST)


def test_what_two_sources_see_is_told_once() -> None:
    """It is two causes, since each heals by itself."""
    course = heard(heard(Course(), LOST, s=0), LOST, WORN, s=1, source="inventory")

    verdict = fold((course,), TERMS, at(2))

    assert verdict.causes == 3
    assert verdict.message == (
        f"it fell off the bus; reboot (since {shown(EPOCH)}); 1 more: remap-pending"
    )


def test_fault_of_a_whole_is_its_parts() -> None:
    """What the part has of its own stays its own."""

    whole, part = heard(Course(), SICK, s=0), heard(Course(), WORN, s=0)

    verdict = fold((part, whole), TERMS, at(1))
    assert (verdict.reason, verdict.causes) == ("xid-48", 2)
    assert fold((heard(Course(), s=0),), TERMS, at(1)).status is Status.HEALTHY


def test_word_of_a_whole_counts_for_a_part_that_nobody_asks() -> None:
    """It expires with it, too."""

    courses = (Course(), heard(Course(), s=0))

    assert fold(courses, TERMS, at(29)).status is Status.HEALTHY
    assert expires_s(courses, TERMS, at(29)) == 30
    assert fold(courses, TERMS, at(30)).reason == EXPIRED


def test_verdict_expires_with_whoever_asks_most_seldom() -> None:
    """Whoever asks more often can not speak for the other."""

    course = heard(heard(Course(), s=0, source="pci"), s=25, source="nvml")

    assert expires_s((course,), TERMS, at(25)) == 30
    assert fold((course,), TERMS, at(29.9)).status is Status.HEALTHY
    late = fold((course,), TERMS, at(30))
    assert (late.status, late.reason) == (Status.UNKNOWN, EXPIRED)
    assert shown(EPOCH) in late.message
    assert expires_s((course,), TERMS, at(30)) == math.inf


def test_source_that_cannot_ask_makes_it_unknown_at_once() -> None:
    """With its words; the next answer ends that."""

    course = heard(Course(), WORN, s=0).unasked("nvml", "the session was released", at(2))

    verdict = fold((course,), TERMS, at(3))
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, REFUSED)
    assert "the session was released" in verdict.message
    assert "reset it soon" in verdict.message
    assert verdict.severity is Severity.DEGRADED
    assert fold((heard(course, WORN, s=4),), TERMS, at(4)).is_degraded


@pytest.mark.parametrize("silent", [True, False])
def test_fault_stands_though_nobody_asks_any_more(silent: bool) -> None:
    """Silence makes no sick device unknown."""

    course = heard(Course(), SICK, s=0)
    course = course if silent else course.unasked("nvml", "down", at(1))

    assert fold((course,), TERMS, at(1e6)).status is Status.UNHEALTHY


def test_flapping_is_told() -> None:
    """Of a sick device and of one that is well by now."""

    flapping = Flapping(changes=(0.0,), doublings=1)
    sick = attrs.evolve(heard(Course(), SICK, s=0), flapping=flapping)
    well = attrs.evolve(heard(Course(), s=0), flapping=flapping)

    assert fold((sick,), TERMS, at(1)).message.endswith("; flapping")
    assert fold((well,), TERMS, at(1)).message == "flapping"


@pytest.mark.parametrize("jump_s", [-YEAR_S, YEAR_S, -(10**12), 10**15])
def test_wall_clock_decides_nothing(jump_s: int) -> None:
    """However it is set, verdicts differ in the times that they tell alone."""

    def jumped(s: float) -> Moment:
        return Moment(s=s, wall_s=at(s).wall_s + (jump_s if s >= 10 else 0))

    course = heard(Course(), SICK, s=0).reported("nvml", (), asked=True, at=jumped(10))
    for s in (12, 14, 16):
        course = course.reported("nvml", (), asked=True, at=jumped(s))

    held = fold((course,), TERMS, jumped(39))
    assert held.status is Status.UNHEALTHY
    assert course.settled(jumped(39.9), recover_after_s=30, asked=course).causes
    well = course.settled(jumped(40), recover_after_s=30, asked=course)
    assert fold((well,), TERMS, jumped(45.9)).status is Status.HEALTHY
    assert fold((well,), TERMS, jumped(46)).reason == EXPIRED


@settings(max_examples=50)
@given(text=st.text(max_size=400), rest=st.text(max_size=40), limit=st.integers(0, 700))
def test_message_keeps_its_limit_in_bytes(text: str, rest: str, limit: int) -> None:
    """No half of a character is left, and the rest is whole where there is room for it."""

    whole = text + rest

    found = ended(text, rest, limit=limit)

    assert len(found.encode()) <= limit
    if len(whole.encode()) <= limit:
        assert found == whole
    elif len(rest.encode()) <= limit:
        assert found.endswith(rest)


def test_half_a_character_of_a_source_is_no_fault() -> None:
    """What a device's driver says need not be text."""

    assert ended("of \ud800 device", "\udc00") == "of ? device?"


def test_message_is_never_longer_than_its_limit() -> None:
    """What a source says at length is cut, and since when stays."""

    said = heard(Course(), attrs.evolve(SICK, message="é" * 600), s=0)

    verdict = fold((said,), TERMS, at(1))
    assert len(verdict.message.encode()) <= MESSAGE_LIMIT
    assert verdict.message.endswith(f"… (since {shown(EPOCH)})")
    unknown = fold((heard(Course(), s=0).unasked("nvml", "ü" * 600, at(1)),), TERMS, at(2))
    assert len(unknown.message.encode()) <= MESSAGE_LIMIT
