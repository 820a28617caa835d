"""How a GPU fares: events, answers and time in, findings and questions out."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.config.xid import XidTable
from berth.gpu.condition import (
    AN_HOUR_S,
    MOST,
    Condition,
    answered,
    asking,
    heard,
    laid_out,
    let_stand,
    rebound,
    silent,
    taken_up,
)
from berth.gpu.told import ACTION, REMAP_FAILURE
from berth.health.finding import MESSAGE_LIMIT, Finding, Severity
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal

GPU = "pci:0000:1b:00.0"
ONE, TWO, THREE = f"{GPU}/1g.10gb/0+1/0+1", f"{GPU}/1g.10gb/1+1/0+1", f"{GPU}/2g.20gb/2+2/0+2"
PARTS = {(7, 0): ONE, (8, 0): TWO, (9, 0): THREE}
DIVIDED = Condition(subject=GPU, parts=PARTS)
WELL = Probe(fields={ACTION: 0})
RESET = Probe(fields={ACTION: 1})
MUTE = Probe(fields={144: 0})
"""An answer of a driver that has no recovery action."""
TABLE = XidTable()


def xid(code: int, gi: int | None = None, ci: int | None = None) -> NvmlEvent:
    """An XID."""
    return NvmlEvent(kind=EventKind.XID, type=8, data=code, gi=gi, ci=ci)


def event(number: int) -> NvmlEvent:
    """Another event."""
    return NvmlEvent(kind=EventKind.OTHER, type=number)


def told(condition: Condition, now_s: float = 0.0) -> dict[str, list[str]]:
    """Codes of what speaks against the GPU and its parts; those without are left out."""
    found = {
        each: [one.code for one in condition.against(each, now_s)] for each in condition.subjects
    }
    return {each: codes for each, codes in found.items() if codes}


def worst(condition: Condition, subject: str = GPU) -> Severity:
    """The severity of the worst against it."""
    return max(one.severity for one in condition.against(subject, 0.0))


def after(condition: Condition, *events: NvmlEvent, now_s: float = 0.0) -> Condition:
    """The condition after these events."""
    for each in events:
        condition = heard(condition, each, TABLE, now_s=now_s)
    return condition


@pytest.mark.parametrize(
    ("number", "code", "severity"),
    [
        (1, "reset-required", Severity.FAULT),
        (4, "reset-required", Severity.FAULT),
        (6, "reset-required", Severity.FAULT),
        (2, "reboot-required", Severity.FAULT),
        (7, "reboot-required", Severity.FAULT),
        (3, "drain-p2p", Severity.DEGRADED),
        (5, "imex", Severity.DEGRADED),
        (8, "recovery-8", Severity.FAULT),
    ],
)
def test_recovery_that_is_needed_counts_for_the_whole(
    number: int, code: str, severity: Severity
) -> None:
    """Until the GPU says that none is."""

    sick = answered(DIVIDED, Probe(fields={ACTION: number}), now_s=1)

    assert told(sick) == {GPU: [code]}
    assert worst(sick) is severity
    assert told(answered(sick, WELL, now_s=2)) == {}


@pytest.mark.parametrize(
    ("field", "code"),
    [(144, "remap-pending"), (31, "retired-pages-pending"), (307, "bank-remap-pending")],
)
def test_field_that_is_pending_degrades(field: int, code: str) -> None:
    """Work goes on, so pods get it."""

    found = answered(Condition(subject=GPU), Probe(fields={ACTION: 0, field: 1}), now_s=1)

    assert told(found) == {GPU: [code]}
    assert worst(found) is Severity.DEGRADED
    assert told(answered(found, WELL, now_s=2)) == {}


def test_failed_remap_stays_until_a_person_clears_it() -> None:
    """Neither an answer without it, nor a new driver, nor a reset cures the card."""

    sick = answered(Condition(subject=GPU), Probe(fields={REMAP_FAILURE: 1, ACTION: 1}), now_s=1)
    (failure,) = [one for one in sick.against(GPU, 1) if one.permanent]
    assert (failure.code, failure.severity) == ("remap-failure", Severity.FAULT)
    later = rebound(answered(sick, WELL, now_s=2))
    assert told(later) == {GPU: ["remap-failure"]}

    assert told(let_stand(later, {GPU: [failure]})) == {GPU: ["remap-failure"]}
    assert told(let_stand(later, {GPU: []})) == {}


@pytest.mark.parametrize(
    ("number", "code", "severity"),
    [
        (0x4000, "gpu-unavailable", Severity.FAULT),
        (0x2000, "poison", Severity.FAULT),
        (0x800, "retirement-failure", Severity.FAULT),
        (0x200, "ecc-storm", Severity.DEGRADED),
        (0x400, "retirement-pending", Severity.DEGRADED),
        (0x1000, "poison-contained", Severity.DEGRADED),
    ],
)
def test_event_speaks_against_the_whole(number: int, code: str, severity: Severity) -> None:
    """At once, and the GPU is asked at once what it needs."""

    sick = after(DIVIDED, event(number), now_s=5)

    assert told(sick) == {GPU: [code]}
    assert worst(sick) is severity
    assert sick.asks == (5,)


@pytest.mark.parametrize("number", [0x1, 0x2, 0x8000])
def test_event_that_names_no_error_only_asks(number: int) -> None:
    """Single errors are counted; a changed need is asked for."""

    found = after(DIVIDED, event(number), now_s=5)

    assert (told(found), found.asks) == ({}, (5,))


def test_every_xid_is_followed_by_four_questions() -> None:
    """Whatever its class; the need may follow the event."""

    for code in (13, 63, 48, 74):
        assert after(DIVIDED, xid(code), now_s=100).asks == (100, 101, 105, 115)


def test_storm_of_xids_asks_no_oftener_than_four_times_a_second() -> None:
    """And keeps few times in mind."""

    condition, asked = DIVIDED, 0
    for number in range(4000):
        now_s = number / 1000
        condition = after(condition, xid(13), now_s=now_s)
        if condition.next_ask_s <= now_s:
            condition, asked = asking(condition, now_s=now_s), asked + 1

    assert 12 <= asked <= 17
    assert len(condition.asks) < 100


def test_fault_heals_when_the_last_question_found_nothing() -> None:
    """The zero of before may come too early; another fault begins it anew."""

    sick = after(DIVIDED, xid(48, 7, 0), now_s=0)
    assert told(sick) == {ONE: ["xid-48"]}
    early = answered(sick, WELL, now_s=5)
    assert told(early) == {ONE: ["xid-48"]}
    again = after(early, xid(48, 7, 0), now_s=10)
    assert told(answered(again, WELL, now_s=16)) == {ONE: ["xid-48"]}

    assert told(answered(again, WELL, now_s=25)) == {}


def test_need_that_shows_late_counts_for_the_siblings_too() -> None:
    """A part's own error is its own until the whole has to be reset."""

    sick = answered(after(DIVIDED, xid(48, 7, 0)), WELL, now_s=0)
    assert told(sick) == {ONE: ["xid-48"]}
    late = answered(sick, RESET, now_s=15)
    assert told(late) == {GPU: ["reset-required"], ONE: ["xid-48"]}

    assert told(answered(late, WELL, now_s=60)) == {}


def test_fault_stays_where_the_driver_has_no_such_field() -> None:
    """A new binding of the driver ends it, or a person."""

    sick = answered(after(DIVIDED, xid(48), event(0x2000)), MUTE, now_s=0)
    later = answered(sick, MUTE, now_s=100_000)
    assert told(later) == {GPU: ["xid-48", "poison"]}

    assert told(rebound(later)) == {}
    cleared = let_stand(later, {GPU: [Finding(code="poison", severity=Severity.FAULT, message="")]})
    assert told(cleared) == {GPU: ["poison"]}


def test_degraded_is_over_after_an_hour_without_another() -> None:
    """An answer that nothing is needed is no reset."""

    found = answered(after(DIVIDED, xid(63), event(0x200)), WELL, now_s=20)
    assert told(found, 20) == {GPU: ["xid-63", "ecc-storm"]}
    again = after(found, xid(63), now_s=3000)
    assert told(again, AN_HOUR_S) == {GPU: ["xid-63"]}

    assert told(again, 3000 + AN_HOUR_S) == {}
    assert answered(again, WELL, now_s=3000 + AN_HOUR_S).ailments == ()


def test_degraded_is_over_after_a_reset() -> None:
    """Of which the need for one tells, by its end."""

    found = answered(after(DIVIDED, xid(63)), RESET, now_s=20)

    assert told(answered(found, WELL, now_s=60), 60) == {}


def test_lesser_xid_hides_no_worse_one() -> None:
    """All stand side by side (F2)."""

    sick = after(Condition(subject=GPU), xid(79), xid(13), xid(63), xid(48))

    assert told(sick) == {GPU: ["xid-79", "xid-48", "xid-63"]}
    assert worst(sick) is Severity.LOST


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (WELL, {}),
        (RESET, {GPU: ["reset-required"]}),
        (MUTE, {ONE: ["xid-74"]}),
        (NoAnswer(purpose="probe", open_s=0.5), {ONE: ["xid-74"]}),
        (Refusal.of(1), {ONE: ["xid-74"]}),
        (Refusal.of(999), {ONE: ["xid-74"]}),
        (Refusal.of(15), {GPU: ["lost"], ONE: ["xid-74"]}),
    ],
)
def test_xid_to_confirm_is_settled_by_the_answer(answer: Any, found: dict[str, list[str]]) -> None:
    """Until then nothing is said; where nothing can be asked it is a fault."""

    suspect = after(DIVIDED, xid(74, 7, 0))
    assert told(suspect) == {}

    assert told(answered(suspect, answer, now_s=0.1)) == found


def test_xid_109_that_cannot_be_asked_about_is_harmless() -> None:
    """Unlike the others to confirm."""

    assert told(answered(after(DIVIDED, xid(109)), MUTE, now_s=0.1)) == {}
    assert told(answered(after(DIVIDED, xid(109)), RESET, now_s=0.1)) == {GPU: ["reset-required"]}


@pytest.mark.parametrize(
    ("refusal", "times", "code", "severity"),
    [
        (15, 1, "lost", Severity.LOST),
        (16, 1, "reset-required", Severity.FAULT),
        (28, 3, "lost", Severity.LOST),
        (999, 3, "nvml-999", Severity.FAULT),
    ],
)
def test_refusals_speak_against_the_gpu(
    refusal: int, times: int, code: str, severity: Severity
) -> None:
    """Some at once, others the third time in a row; the next answer ends it."""

    condition = DIVIDED
    for number in range(times):
        assert told(condition) == {}
        condition = answered(condition, Refusal.of(refusal), now_s=number)

    assert told(condition) == {GPU: [code]}
    assert worst(condition) is severity
    assert told(answered(condition, WELL, now_s=9)) == {}


def test_refusals_in_between_answers_are_no_fault() -> None:
    """Thrice is thrice in a row."""

    condition = DIVIDED
    for number in range(6):
        condition = answered(condition, Refusal.of(999) if number % 3 else WELL, now_s=number)

    assert told(condition) == {}


def test_field_may_tell_that_the_gpu_is_lost() -> None:
    """The call as a whole goes well then."""

    answer = Probe(fields={144: 0}, refused={ACTION: Refusal.of(15)})

    assert told(answered(DIVIDED, answer, now_s=0)) == {GPU: ["lost"]}


def test_refusal_for_want_of_a_session_says_nothing() -> None:
    """However often."""

    condition = DIVIDED
    for number in range(9):
        condition = answered(condition, Refusal.of(1), now_s=number)

    assert told(condition) == {}


def test_silence_stands_beside_what_was_told() -> None:
    """Its text stays the same however long it lasts; the next answer ends both."""

    sick = answered(DIVIDED, Probe(fields={ACTION: 1}), now_s=0)
    mute = silent(sick, deadline_s=4)
    assert told(mute) == {GPU: ["no-answer", "reset-required"]}
    assert "4 s" in mute.against(GPU, 0)[0].message
    assert silent(mute, deadline_s=4) == mute

    assert told(answered(mute, WELL, now_s=60)) == {}


def test_loss_that_an_event_tells_counts_at_once() -> None:
    """NVML's owner has asked the GPU before it says so."""

    lost = after(DIVIDED, NvmlEvent(kind=EventKind.LOST))

    assert told(lost) == {GPU: ["lost"]}


@pytest.mark.parametrize("kind", [EventKind.REGISTERED, EventKind.OVERFLOW, EventKind.MIG_CHANGED])
def test_event_that_says_nothing_of_health_changes_nothing(kind: EventKind) -> None:
    """What to do about it is for the others to know."""

    assert after(DIVIDED, NvmlEvent(kind=kind), now_s=3) == DIVIDED


def test_new_layout_takes_the_ailments_of_its_parts_along() -> None:
    """What concerns the whole or a part that stays, stays."""

    sick = after(DIVIDED, xid(48, 7, 0), xid(48, 9, 0), xid(95))
    less = laid_out(sick, {(7, 0): ONE})

    assert told(less) == {GPU: ["xid-95"], ONE: ["xid-48"]}
    assert laid_out(less, {(7, 0): ONE}) is less


def test_process_takes_up_what_stands() -> None:
    """What events told until it is cured, what an answer told until the next one."""

    before = silent(answered(after(DIVIDED, xid(48, 7, 0), xid(63)), RESET, now_s=1), deadline_s=4)
    standing = {each: before.against(each, 1) for each in before.subjects}
    now = taken_up(DIVIDED, standing, now_s=0)
    assert told(now) == told(before)

    assert told(answered(now, MUTE, now_s=60), 60) == {GPU: ["xid-63"], ONE: ["xid-48"]}
    assert told(answered(now, WELL, now_s=60), 60) == {GPU: ["xid-63"]}


def test_flood_of_different_xids_keeps_the_worst() -> None:
    """Memory is bounded, and the verdict is not another for it."""

    flood = after(DIVIDED, *(xid(code) for code in range(200, 400)))
    sick = after(answered(flood, MUTE, now_s=0), xid(79), xid(63))

    assert len(flood.suspects) == MOST
    assert len(sick.ailments) == MOST
    assert worst(sick) is Severity.LOST


_EVENTS = st.builds(
    NvmlEvent,
    kind=st.sampled_from(EventKind),
    type=st.sampled_from([1 << bit for bit in range(16)]),
    data=st.one_of(st.sampled_from([13, 48, 63, 74, 79, 109]), st.integers(0, 2**64 - 1)),
    gi=st.sampled_from([None, 7, 8, 3]),
    ci=st.sampled_from([None, 0, 1]),
)
_ANSWERS = st.one_of(
    st.builds(
        Probe,
        fields=st.dictionaries(
            st.sampled_from([230, 144, 145, 31, 307]), st.integers(-(2**63), 2**64)
        ),
    ),
    st.builds(Refusal.of, st.integers(0, 999)),
    st.just(NoAnswer(purpose="probe", open_s=1.0)),
)


@given(story=st.lists(st.one_of(_EVENTS, _ANSWERS), max_size=30))
@settings(max_examples=50)
def test_any_story_gives_valid_findings_and_can_heal(story: list[Any]) -> None:
    """Codes once, texts of a size; after well-being for long only lasting damage is left."""

    condition, now_s = DIVIDED, 0.0
    for each in story:
        now_s += 0.7
        if isinstance(each, NvmlEvent):
            condition = heard(condition, each, TABLE, now_s=now_s)
        else:
            condition = answered(condition, each, now_s=now_s)
        for subject in condition.subjects:
            found = condition.against(subject, now_s)
            assert len({one.code for one in found}) == len(found)
            assert all(0 < len(one.message.encode()) <= MESSAGE_LIMIT for one in found)
    end = answered(condition, WELL, now_s=now_s + 2 * AN_HOUR_S)

    assert {code for codes in told(end, now_s + 2 * AN_HOUR_S).values() for code in codes} <= {
        "remap-failure"
    }
    assert attrs.evolve(end, asks=()).suspects == ()
