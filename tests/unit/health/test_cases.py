"""Every device of a node: what a report touches, what is due, and what holds whatever comes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.health.cases import Cases, Watched
from berth.health.course import CAUSE_LIMIT, PROBES, Moment
from berth.health.document import from_bytes, kept_of, recalled, to_bytes
from berth.health.finding import Finding, Severity
from berth.health.verdict import HealthState, Status, Verdict
from tests.unit.health.moments import HOLD_S, LOST, MUTE, SICK, TERMS, WORN, at

GPU: Final = "pci:0000:3b:00.0"
PART: Final = f"{GPU}/gi-1"
OTHER: Final = "pci:0000:5e:00.0"
DEVICES: Final = {
    "gpu": Watched(subject=GPU, terms=TERMS),
    "part": Watched(subject=PART, terms=TERMS),
    "other": Watched(subject=OTHER, terms=TERMS),
}


def cases() -> Cases:
    """A node with a GPU, a part of it, and another GPU."""
    made = Cases()
    made.know(DEVICES)
    return made


def told(made: Cases, now: Moment) -> HealthState:
    """What is told then."""
    made.fold(now)
    return made.state


def of(made: Cases, name: str, s: float) -> Verdict:
    """The verdict on a device as it is told."""
    return told(made, at(s)).of(name)


def ask(made: Cases, *findings: Finding, s: float, subject: str = GPU) -> None:
    """The subject was asked, and this was found."""
    made.report(subject, "nvml", findings, asked=True, at=at(s))


def test_each_device_is_told_from_the_beginning() -> None:
    """As unknown, and nothing is due."""

    made = cases()

    assert {verdict.status for verdict in told(made, at(0)).verdicts.values()} == {Status.UNKNOWN}
    assert made.due_s == math.inf


def test_fault_of_a_whole_reaches_its_parts_alone() -> None:
    """And leaves them with it."""

    made = cases()
    for subject in (GPU, OTHER):
        ask(made, s=0, subject=subject)
    assert told(made, at(0)).of("part").status is Status.HEALTHY

    ask(made, SICK, s=1)
    assert of(made, "part", 1).reason == "xid-48"
    assert of(made, "other", 1).status is Status.HEALTHY
    for s in range(5, 50, 5):
        ask(made, s=s)
    assert of(made, "part", 45).status is Status.HEALTHY


def test_state_changes_by_itself_at_the_time_that_was_told() -> None:
    """A verdict expires, and a cause heals, neither sooner nor later."""

    made = cases()
    ask(made, s=0)
    made.fold(at(0))
    assert made.due_s == 30
    assert of(made, "gpu", 29.9).status is Status.HEALTHY
    assert of(made, "gpu", 30).status is Status.UNKNOWN
    assert made.due_s == math.inf

    ask(made, SICK, s=40)
    for s in (50, 60, 75):
        ask(made, s=s)
    assert of(made, "gpu", 79).status is Status.UNHEALTHY
    assert made.due_s == 50 + HOLD_S
    assert of(made, "gpu", 80).status is Status.HEALTHY


def test_only_what_says_another_thing_is_news() -> None:
    """That a verdict was confirmed again is none; that a device comes or goes is."""

    made = cases()
    assert made.fold(at(0))
    ask(made, s=1)
    assert made.fold(at(1))
    ask(made, s=2)
    assert not made.fold(at(2))
    assert made.state.of("gpu").observed_s == at(2).wall_s
    ask(made, attrs.evolve(WORN, message="worse"), s=3)
    assert made.fold(at(3))
    made.know({"gpu": DEVICES["gpu"]})
    assert made.fold(at(3))
    assert not made.fold(at(3))


def test_device_that_comes_later_finds_what_was_said_of_it() -> None:
    """A source may be sooner than the inventory."""

    made = Cases()
    ask(made, SICK, s=0)
    assert not told(made, at(0)).verdicts

    made.know(DEVICES)
    assert of(made, "gpu", 1).reason == "xid-48"
    made.know({})
    assert not told(made, at(2)).verdicts
    assert made.due_s == math.inf


def test_other_terms_hold_at_once() -> None:
    """A device whose word holds for longer is well for longer."""

    made = cases()
    ask(made, s=0)
    made.fold(at(1))

    terms = attrs.evolve(TERMS, timeout_s=90)
    made.know({name: attrs.evolve(one, terms=terms) for name, one in DEVICES.items()})

    assert of(made, "gpu", 80).timeout_s == 90
    assert made.due_s == 90


def test_forgotten_subject_is_forgotten_with_its_parts() -> None:
    """What comes to its place later begins anew."""

    made = cases()
    for subject in (GPU, PART, OTHER):
        ask(made, SICK, s=0, subject=subject)
    made.fold(at(0))
    made.forget(GPU)

    assert set(made.courses) == {OTHER}
    assert {of(made, name, 1).status for name in ("gpu", "part")} == {Status.UNKNOWN}


def test_copy_changes_by_itself() -> None:
    """So that what may fail can be tried on it."""

    made = cases()
    ask(made, SICK, s=0)
    other = made.copy()
    other.retire(GPU, "nvml", at(1))

    assert of(made, "gpu", 1).reason == "xid-48"
    assert of(other, "gpu", 1).status is Status.UNKNOWN
    assert not other.courses


def test_nobody_is_remembered_of_whom_nothing_is_known() -> None:
    """Sources that come and go leave nothing behind."""

    made = cases()
    for number in range(100):
        subject = f"usb:{number}"
        ask(made, SICK, s=number, subject=subject)
        made.retire(subject, "nvml", at(number))
        made.retire("usb:never", "nvml", at(number))

    assert not made.courses


Step: TypeAlias = "tuple[float, str, str, tuple[Finding, ...] | None]"

FOUND: Final = st.lists(st.sampled_from([LOST, SICK, MUTE, WORN]), max_size=3, unique=True).map(
    tuple
)
# In thousandths, as clocks tell them apart: times are kept as ages, so less is lost on the way.
PAUSES: Final = st.integers(min_value=0, max_value=40_000).map(lambda ms: ms / 1000)
SUBJECTS: Final = st.sampled_from([GPU, PART])

STEPS: Final = st.lists(
    st.tuples(PAUSES, SUBJECTS, st.just("nvml"), st.none() | FOUND)
    | st.tuples(PAUSES, SUBJECTS, st.just("events"), FOUND),
    max_size=40,
)


def played(made: Cases, steps: list[Step]) -> Iterator[tuple[float, dict[tuple[str, str], object]]]:
    """Each step, and what is named after it; ``None`` means that the source could not ask."""
    now_s = 0.0
    named: dict[tuple[str, str], object] = {}
    for pause_s, subject, source, findings in steps:
        now_s += pause_s
        if findings is None:
            made.unasked(subject, source, "busy", at(now_s))
        else:
            made.report(subject, source, findings, asked=source == "nvml", at=at(now_s))
            named[subject, source] = findings
        yield now_s, named


def worst(named: dict[tuple[str, str], object], subjects: set[str]) -> int:
    """The worst that anybody names of a subject or a whole of it."""
    return max(
        (
            finding.severity
            for (subject, _), findings in named.items()
            if subject in subjects and isinstance(findings, tuple)
            for finding in findings
        ),
        default=0,
    )


@settings(max_examples=50)
@given(steps=STEPS)
def test_nothing_hides_what_is_worse(steps: list[Step]) -> None:
    """Whatever comes in whatever order, no verdict is milder than the worst that is named now."""

    made = cases()
    for now_s, named in played(made, steps):
        for name, subjects in (("gpu", {GPU}), ("part", {GPU, PART})):
            verdict = of(made, name, now_s)
            assert (verdict.severity or 0) >= worst(named, subjects)
            if worst(named, subjects) >= Severity.FAULT:
                assert verdict.status is Status.UNHEALTHY


@settings(max_examples=50)
@given(steps=STEPS)
def test_last_state_is_told_in_the_end(steps: list[Step]) -> None:
    """Whoever only wakes when something is due has told by then what everybody says at last."""

    made, now_s = cases(), 0.0
    for now_s, _ in played(made, steps):
        made.fold(at(now_s))
    made.retire(PART, "nvml", at(now_s))
    for subject in (GPU, PART):
        made.report(subject, "events", (), asked=False, at=at(now_s))
    for _ in range(100):
        now_s += 15
        ask(made, WORN, s=now_s)
        if made.due_s <= now_s:
            state = told(made, at(now_s))

    assert state.of("gpu").reason == state.of("part").reason == "remap-pending"
    assert state.of("gpu").is_degraded


@settings(max_examples=50)
@given(steps=STEPS)
def test_restart_makes_nothing_healthier(steps: list[Step]) -> None:
    """The next process says no better of any device before anybody has asked it."""

    made = cases()
    now_s = [0.0, *(s for s, _ in played(made, steps))][-1]
    before = told(made, at(now_s))

    content = to_bytes(kept_of(made.courses, boot_id="this", at=at(now_s)))
    kept = from_bytes(content, where="causes.json")
    after = Cases(recalled(kept, boot_id="this", at=at(3)))
    after.know(DEVICES)

    for name in DEVICES:
        then, now = before.of(name), of(after, name, 3)
        assert now.severity == then.severity
        assert now.status is not Status.HEALTHY
        if then.status is Status.UNHEALTHY:
            assert (now.status, now.reason) == (then.status, then.reason)


def test_storm_of_changes_fills_no_memory() -> None:
    """A thousand changes a minute for ten minutes, with codes that never come again."""

    made, sizes = cases(), [0]
    for number in range(10_000):
        s = number * 0.06
        named = (attrs.evolve(SICK, code=f"xid-{number}"),) if number % 2 else ()
        ask(made, *named, s=s)
        if number % 10 == 0:
            made.fold(at(s))
        sizes.append(len(made.of(GPU).causes))

    assert max(sizes) == CAUSE_LIMIT
    course = made.of(GPU)
    assert len(to_bytes(kept_of(made.courses, boot_id="this", at=at(600)))) < 16_384
    assert len(course.flapping.changes) <= 5
    assert len(course.answers) == PROBES


def test_clock_that_nobody_sets_decides_over_the_whole_node() -> None:
    """A wall clock a year ahead, and then a year behind, changes neither verdicts nor times."""

    def run(jumps: bool) -> list[tuple[object, ...]]:
        made = cases()
        seen: list[tuple[object, ...]] = []
        for number in range(40):
            wall_s = (-1) ** number * 31_536_000 if jumps else 0
            now = Moment(s=number * 2.0, wall_s=at(0).wall_s + wall_s)
            made.report(GPU, "nvml", (SICK,) if 3 < number < 8 else (), asked=number < 25, at=now)
            verdict = told(made, now).of("gpu")
            seen.append((verdict.status, verdict.reason, verdict.causes, made.due_s))
        return seen

    assert run(jumps=True) == run(jumps=False)
    assert {status for status, *_ in run(jumps=True)} == set(Status)
