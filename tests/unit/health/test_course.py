"""How a subject becomes worse at once, and better in time."""

from __future__ import annotations

import math

import attrs
import pytest

from berth.health.course import (
    CAUSE_LIMIT,
    HOLD_LIMIT_S,
    PROBES,
    QUIET_S,
    Asker,
    Course,
    Flapping,
    asked_of,
)
from berth.health.finding import OPERATOR, Finding, Severity
from tests.unit.health.moments import HOLD_S, LOST, MUTE, SICK, WORN, at, codes, heard


def settled(course: Course, s: float) -> Course:
    """What is left of it then, if nobody says anything until then."""
    return course.settled(at(s), recover_after_s=HOLD_S, asked=course)


def due_s(course: Course) -> float:
    """When it changes by itself."""
    return course.due_s(recover_after_s=HOLD_S, asked=course)


def test_finding_counts_at_once() -> None:
    """It needs no second one, and an event counts as well as an answer."""

    course = Course().reported("nvml", (SICK,), asked=False, at=at(7))

    (cause,) = course.causes
    assert (cause.finding, cause.since) == (SICK, at(7))
    assert course.worst is Severity.FAULT
    assert not course.askers


def test_what_is_named_no_more_heals_after_the_hold_time() -> None:
    """Until then it speaks against the subject; the time is told for whoever sleeps till then."""

    course = heard(heard(Course(), SICK, s=0), s=10)
    for s in (15, 20, 25):
        course = heard(course, s=s)

    assert due_s(course) == 10 + HOLD_S
    assert codes(settled(course, 10 + HOLD_S - 0.001)) == ["xid-48"]
    assert codes(settled(course, 10 + HOLD_S)) == []


def test_too_few_answers_heal_nothing() -> None:
    """Two answers in an hour are no proof; the third is, and no timer runs until it comes."""

    course = heard(heard(heard(Course(), SICK, s=0), s=10), s=3000)

    assert due_s(course) == math.inf
    assert codes(settled(course, 1e6)) == ["xid-48"]
    third = heard(course, s=4000)
    assert codes(settled(third, 4000)) == []


def test_events_are_no_answers() -> None:
    """A source that only tells what it hears of makes nothing well."""

    course = heard(Course(), SICK, s=0)
    for s in range(10, 60, 10):
        course = course.reported("nvml", (), asked=False, at=at(s))

    assert codes(settled(course, 1000)) == ["xid-48"]


def test_where_nobody_asks_time_alone_heals() -> None:
    """As of what only surveys look at."""

    course = Course().reported("inventory", (LOST,), asked=False, at=at(0))
    course = course.reported("inventory", (), asked=False, at=at(10))

    def left(s: float) -> list[str]:
        return codes(course.settled(at(s), recover_after_s=HOLD_S, asked=None))

    assert left(10 + HOLD_S - 1) == ["lost"]
    assert left(10 + HOLD_S) == []


def test_the_same_finding_again_starts_the_hold_time_anew() -> None:
    """It stays as old as it was when it was first named."""

    course = heard(heard(heard(Course(), SICK, s=0), s=10), SICK, s=20)
    for s in (30, 35, 39):
        course = heard(course, s=s)

    assert codes(settled(course, 30 + HOLD_S - 1)) == ["xid-48"]
    assert course.causes[0].since == at(0)
    assert codes(settled(course, 30 + HOLD_S)) == []


def test_another_fault_holds_up_the_healing_of_the_first() -> None:
    """All that is as bad must be over before anything of it is."""

    course = heard(heard(Course(), SICK, s=0), MUTE, s=10)
    for s in range(100, 115, 5):
        course = heard(course, s=s)

    assert codes(settled(course, 100 + HOLD_S - 1)) == ["xid-48", "no-answer"]
    assert codes(settled(course, 100 + HOLD_S)) == []


def test_what_stays_degraded_does_not_keep_a_fault_alive() -> None:
    """A pending remap may stand for weeks; the GPU goes to pods again once its fault has healed."""

    course = heard(Course(), SICK, WORN, s=0)
    for s in (10, 15, 20):
        course = heard(course, WORN, s=s)

    assert codes(settled(course, 10 + HOLD_S)) == ["remap-pending"]


def test_a_fault_that_is_told_milder_heals_as_if_it_was_named_no_more() -> None:
    """One event under the same code must not make a device well."""

    milder = attrs.evolve(SICK, severity=Severity.DEGRADED)
    course = heard(heard(Course(), SICK, s=0), milder, s=10)

    assert course.worst is Severity.FAULT
    assert course.standing("nvml") == (SICK,)
    for s in (15, 20, 25):
        course = heard(course, milder, s=s)
    (left,) = settled(course, 10 + HOLD_S).causes
    assert (left.finding, left.since) == (milder, at(0))


def test_another_message_is_the_same_cause() -> None:
    """It says the newest words, and since when the first held."""

    course = heard(heard(Course(), MUTE, s=0), attrs.evolve(MUTE, message="for 12 s"), s=8)

    (cause,) = course.causes
    assert (cause.finding.message, cause.since) == ("for 12 s", at(0))


def test_each_source_has_its_own_findings() -> None:
    """That one of them finds nothing says nothing of what another found."""

    course = heard(heard(Course(), SICK, s=0, source="nvml"), s=5, source="pci")
    for s in (10, 20, 30, 40, 50):
        course = heard(course, s=s, source="pci")

    assert codes(settled(course, 1000)) == ["xid-48"]
    assert course.standing("pci") == ()


def test_retired_source_leaves_nothing() -> None:
    """What it found is void at once, and nobody waits for its word."""

    course = heard(Course(), SICK, s=0).retired("nvml", at(1))

    assert course.is_void
    assert course.retired("nvml", at(2)) == course


def test_cleared_cause_is_gone_and_its_source_has_to_ask_anew() -> None:
    """What others found stays, and so does their word."""

    course = heard(heard(Course(), SICK, s=0), WORN, s=1, source="pci")

    left = course.cleared(lambda cause: cause.finding.code == "xid-48", at(2))

    assert codes(left) == ["remap-pending"]
    assert left.askers["nvml"].confirmed is None
    assert left.askers["pci"].confirmed == at(1)


def test_source_that_cannot_ask_says_since_when() -> None:
    """What it found stands; its next answer ends that."""

    course = heard(Course(), SICK, s=0).unasked("nvml", "busy", at(5)).unasked("nvml", "", at(9))

    asker = course.askers["nvml"]
    assert (asker.refused, asker.refused_at) == ("no reason was given", at(5))
    assert codes(course) == ["xid-48"]
    assert not heard(course, s=12).askers["nvml"].refused


@pytest.mark.parametrize("pace_s", [1, 60])
def test_source_that_knows_in_each_other_turn_is_not_told_each_time(pace_s: int) -> None:
    """After some changes it counts as one that cannot ask, until it has answered for a while."""

    course, changes, before = Course(), 0, False
    for number in range(3600 // pace_s):
        s = number * pace_s
        course = settled(course, s)
        course = course.unasked("nvml", "asleep", at(s)) if number % 2 else heard(course, s=s)
        refused = bool(course.askers["nvml"].refused)
        changes, before = changes + (refused is not before), refused

    assert (before, changes) == (True, 5)
    for s in range(3600, 3600 + int(HOLD_LIMIT_S) + 1, 100):
        course = settled(heard(course, s=s), s)
    assert course.askers["nvml"] == Asker(confirmed=at(s))


def test_refusal_that_is_over_after_flapping_tells_when_it_is_forgotten() -> None:
    """It is due by time alone, once there were enough answers; another refusal begins anew."""

    course = attrs.evolve(Course(), flapping=Flapping(changes=(0.0,), doublings=1))
    course = course.unasked("nvml", "asleep", at(10))
    for s in (20, 30, 40):
        course = heard(course, s=s)

    assert due_s(course) == 20 + 2 * HOLD_S
    assert settled(course, 79).askers["nvml"].refused == "asleep"
    assert settled(course, 80).askers["nvml"] == Asker(confirmed=at(40))
    again = heard(course.unasked("nvml", "asleep", at(50)), s=60)
    assert settled(again, 80).askers["nvml"].refused_at == at(10)


def test_more_than_four_changes_in_five_minutes_double_the_hold_time() -> None:
    """Again and again up to ten minutes; then nothing makes it longer."""

    flapping, holds = Flapping(), []
    for number in range(60):
        flapping = flapping.changed(number * 10.0)
        holds.append(flapping.hold_s(HOLD_S))

    assert holds[:5] == [30, 30, 30, 30, 60]
    assert holds[8] == 120
    assert holds[-1] == HOLD_LIMIT_S
    assert Flapping(doublings=9).hold_s(2000) == 2000


def test_slow_changes_are_no_flapping() -> None:
    """Four in five minutes, for as long as one likes."""

    flapping = Flapping()
    for number in range(100):
        flapping = flapping.changed(number * 76.0)

    assert flapping.doublings == 0
    assert len(flapping.changes) <= 5


def test_quiet_for_half_an_hour_ends_flapping() -> None:
    """The course tells when, since the message changes with it."""

    course = Course(flapping=Flapping(changes=(100.0,), doublings=3))

    assert due_s(course) == 100 + QUIET_S
    assert settled(course, 100 + QUIET_S - 1) == course
    assert settled(course, 100 + QUIET_S).flapping == Flapping()


def test_device_that_comes_and_goes_heals_later_each_time() -> None:
    """Each time it takes at least the hold time of then."""

    course, s, times = Course(), 0.0, []
    for _ in range(12):
        course = heard(course, SICK, s=s)
        began = s = s + 1
        while course.causes:
            course = heard(course, s=s)
            s += 1
        times.append(round(s - 1 - began))

    assert times == sorted(times)
    assert times[0] == HOLD_S
    assert times[-1] >= 4 * HOLD_S


@pytest.mark.parametrize("named", [SICK, WORN])
def test_of_too_many_causes_the_worst_stay(named: Finding) -> None:
    """A source that names more and more fills no memory, and hides nothing worse by it."""

    course = heard(Course(), LOST, s=0)
    for number in range(20):
        many = [attrs.evolve(named, code=f"c-{number}-{n}") for n in range(50)]
        course = heard(course, LOST, *many, s=number)

    assert len(course.causes) == CAUSE_LIMIT
    assert course.worst is Severity.LOST
    # What is named now is kept before what heals.
    assert any(cause.finding.code.startswith("c-19") for cause in course.causes)


def test_answers_of_the_nearest_whole_count_where_nobody_asks_the_part() -> None:
    """Its own do as soon as there are any."""

    part, whole = Course(), heard(Course(), s=1)

    assert asked_of((part, whole)) is whole
    asked = heard(part, s=2)
    assert asked_of((asked, whole)) is asked
    assert asked_of((part, part)) is None


def test_operator_is_no_asker() -> None:
    """What a person says stands until a person says otherwise, whoever answers what."""

    said = Finding(code="broken-fan", severity=Severity.FAULT, message="")
    course = Course().reported(OPERATOR, (said,), asked=False, at=at(0))
    for s in range(0, 1000, 5):
        course = heard(course, s=s)

    assert codes(settled(course, 1000)) == ["broken-fan"]
    assert len(course.answers) == PROBES
