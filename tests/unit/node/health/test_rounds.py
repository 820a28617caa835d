"""Probes go out in turn, one hanging probe keeps nobody waiting, and silence is told."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import HostError
from berth.health.finding import Finding, Severity
from berth.health.terms import Terms
from berth.node.health.rounds import TARDY_S, Rounds, Unanswerable, Watched
from tests.unit.node.reported import Reported

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

TERMS = Terms(interval_s=5, deadline_s=4, timeout_s=30)
HOUR_S = 3600
SICK = Finding(code="sick", severity=Severity.FAULT, message="is sick")

Answer = Sequence[Finding] | Unanswerable


class Subject:
    """Counts how often it is asked, and answers when it is let."""

    def __init__(self, answer: Answer = (), *, hangs: bool = False, takes_s: float = 0.0) -> None:
        self.answer = answer
        self.asked: list[float] = []
        self.inside = 0
        self.most_inside = 0
        self.takes_s = takes_s
        self.gate = trio.Event()
        if not hangs:
            self.gate.set()

    async def __call__(self) -> Answer:
        """Answer."""
        self.asked.append(trio.current_time())
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            await self.gate.wait()
            await trio.sleep(self.takes_s)
        finally:
            self.inside -= 1
        return self.answer


def watched(probe: Callable[[], Awaitable[Answer]], terms: Terms = TERMS) -> Watched:
    """A subject on the usual terms."""
    return Watched(terms=terms, probe=probe)


@pytest.fixture
def reports() -> Reported:
    """What was told."""
    return Reported()


@pytest.fixture
def rounds(reports: Reported) -> Rounds:
    """Rounds that are not yet run."""
    return Rounds(reports, source="test")


async def test_subject_is_expected_to_answer_when_it_is_watched(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Once each time that it comes, so that nobody else's word makes it well before."""

    one = watched(Subject())
    for subjects in ({"a": one}, {"a": one, "b": one}, {"b": one}, {"a": one, "b": one}):
        rounds.watch(subjects)

    await nursery.start(rounds.run)
    assert reports.expected == [("a", "test"), ("b", "test"), ("a", "test")]


async def test_subjects_are_asked_at_once_and_at_each_interval(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """From start to start, so that a slow answer does not stretch it."""
    subject = Subject([SICK], takes_s=2)
    rounds.watch({"a": watched(subject)})

    await nursery.start(rounds.run)
    await trio.sleep(11)

    assert subject.asked == [0, 5, 10]
    assert [(each.at_s, each.codes, each.asked) for each in reports.of("a")] == [
        (2, ("sick",), True),
        (7, ("sick",), True),
    ]


async def test_one_probe_hangs_an_hour_and_keeps_nobody_waiting(
    rounds: Rounds, reports: Reported, autojump_clock: MockClock
) -> None:
    """The others are answered on time, it is asked once, and the end waits for no one."""
    stuck, others = Subject(hangs=True), {f"gpu{n}": Subject() for n in range(7)}
    rounds.watch({"stuck": watched(stuck)} | {name: watched(each) for name, each in others.items()})

    with trio.move_on_after(HOUR_S):
        await rounds.run()

    assert trio.current_time() == HOUR_S
    assert len(stuck.asked) == 1
    for name, each in others.items():
        assert each.asked == [5 * n for n in range(HOUR_S // 5)]
        assert {told.codes for told in reports.of(name)} == {()}
    told = reports.of("stuck")
    assert [each.at_s for each in told] == [4 + 5 * n for n in range(HOUR_S // 5)]
    assert {each.codes for each in told} == {("no-answer",)}
    assert all(each.asked for each in told)
    assert len({each.message for each in told}) == 1 + int(math.log2(HOUR_S / 4))
    assert "has not answered for 4 s: " in told[0].message


async def test_late_answer_is_told_and_the_next_probe_comes_at_once(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """And the silence is over with it."""
    subject = Subject([SICK], hangs=True)
    rounds.watch({"a": watched(subject)})
    await nursery.start(rounds.run)
    await trio.sleep(100.5)

    subject.gate.set()
    await trio.sleep(6)

    assert subject.asked == [0, 100.5, 105.5]
    assert [each.codes for each in reports.of("a")][-3:] == [("sick",)] * 3


async def test_silence_leaves_what_was_found_before(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody has seen it otherwise, in this life or the one before."""
    reports.findings["a", "test"] = (SICK,)
    before, first = Subject(hangs=True), Subject([SICK])
    rounds.watch({"a": watched(before), "b": watched(first)})
    await nursery.start(rounds.run)
    await trio.sleep(1)

    first.gate = trio.Event()
    await trio.sleep(9)

    assert reports.findings["a", "test"][:-1] == (SICK,)
    assert [each.code for each in reports.findings["b", "test"]] == ["sick", "no-answer"]


async def test_probes_that_are_nearly_due_go_along(
    rounds: Rounds, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Three hundred devices that came in one after another come to one wake-up in an interval."""
    terms = Terms(interval_s=300, deadline_s=2, timeout_s=900)
    subjects: dict[str, Subject] = {}
    await nursery.start(rounds.run)
    for number in range(300):
        subjects[f"dev{number}"] = Subject()
        rounds.watch({name: watched(each, terms) for name, each in subjects.items()})
        await trio.sleep(1)

    await trio.sleep(3000)

    later = {at_s for each in subjects.values() for at_s in each.asked if at_s > 900}
    assert len(later) <= 2400 / 300 * 10
    assert {len(each.asked) for each in subjects.values()} <= set(range(10, 15))


async def test_probe_now_joins_the_one_that_is_out(
    rounds: Rounds, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Two who ask, and the turn of the subject itself, come to one probe."""
    subject = Subject(takes_s=1)
    rounds.watch({"a": watched(subject)})
    await nursery.start(rounds.run)
    await trio.sleep(3)

    async with trio.open_nursery() as asking:
        asking.start_soon(rounds.probe_now, "a")
        asking.start_soon(rounds.probe_now, "a")

    assert trio.current_time() == 4
    assert subject.asked == [0, 3]


async def test_probe_now_returns_when_there_is_nothing_to_wait_for(
    rounds: Rounds, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A subject that nobody watches, one whose silence is told, and one that is watched no more."""
    stuck = Subject(hangs=True)
    rounds.watch({"stuck": watched(stuck)})
    await nursery.start(rounds.run)

    await rounds.probe_now("unknown")
    await rounds.probe_now("stuck")
    assert trio.current_time() == 4
    await rounds.probe_now("stuck")
    assert trio.current_time() == 4
    rounds.watch({})
    await rounds.probe_now("stuck")

    assert trio.current_time() == 4
    assert len(stuck.asked) == 1


async def test_retired_subject_is_not_asked_and_not_told(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What its last probe answers is for nobody; watched again, it waits for that one."""
    subject = Subject([SICK], hangs=True)
    rounds.watch({"a": watched(subject)})
    await nursery.start(rounds.run)
    await trio.sleep(1)

    rounds.watch({})
    await trio.sleep(50)
    assert [each.codes for each in reports.told] == [("retired",)]
    rounds.watch({"a": watched(subject)})
    await trio.sleep(1)
    assert reports.told[-1].codes == ("no-answer",)
    rounds.watch({})
    subject.gate.set()
    await trio.sleep(50)

    assert reports.told[-1].codes == ("retired",)
    assert subject.most_inside == 1
    rounds.watch({"a": watched(subject)})
    await wait_all_tasks_blocked()
    assert subject.asked == [0, 102]


async def test_subject_that_is_watched_again_is_silent_at_once(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its probe is out still, and what was told of that went with the watching."""
    subject = Subject(hangs=True)
    rounds.watch({"a": watched(subject)})
    await nursery.start(rounds.run)
    await trio.sleep(4.5)

    rounds.watch({})
    rounds.watch({"a": watched(subject)})

    assert [each.codes for each in reports.told] == [("no-answer",), ("retired",), ("no-answer",)]
    subject.gate.set()
    await wait_all_tasks_blocked()
    assert (subject.asked, reports.told[-1].codes) == ([0, 4.5], ())


async def test_no_more_probes_are_out_than_may_be(
    reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Who waits is not silent, those that hang count no more, and nobody is passed over."""
    rounds = Rounds(reports, source="test", limit=4)
    slow = {f"slow{n}": Subject(takes_s=3) for n in range(20)}
    stuck = {f"stuck{n}": Subject(hangs=True) for n in range(4)}
    terms = Terms(interval_s=60, deadline_s=4, timeout_s=180)
    rounds.watch({name: watched(each, terms) for name, each in (stuck | slow).items()})
    await nursery.start(rounds.run)

    await trio.sleep(590)

    for name, each in slow.items():
        assert {told.codes for told in reports.of(name)} == {()}
        assert len(each.asked) == 10
    assert sorted({at_s for each in slow.values() for at_s in each.asked})[:5] == [4, 7, 10, 13, 16]
    assert {len(each.asked) for each in stuck.values()} == {1}


async def test_terms_may_change_while_it_is_watched(
    rounds: Rounds, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A shorter interval counts from the last start."""
    subject = Subject()
    rounds.watch({"a": watched(subject, Terms(interval_s=60, deadline_s=2, timeout_s=180))})
    await nursery.start(rounds.run)
    await trio.sleep(3)

    rounds.watch({"a": watched(subject)})
    await trio.sleep(8)

    assert subject.asked == [0, 5, 10]


async def test_probe_that_fails_is_a_finding_and_a_defect_is_none(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What the machine refused counts against the device, our own mistake does not."""

    async def fails() -> Answer:
        await trio.lowlevel.checkpoint()
        raise HostError("/dev/x", "cannot be read: I/O error\n" + 600 * "x")

    async def defect() -> Answer:
        await trio.lowlevel.checkpoint()
        raise ExceptionGroup("two", [KeyError("x")])

    async def nobody() -> Answer:
        await trio.lowlevel.checkpoint()
        return Unanswerable(why="the library is gone")

    rounds.watch({"a": watched(fails), "b": watched(defect), "c": watched(nobody)})
    await nursery.start(rounds.run)
    await trio.sleep(1)

    (failed,) = reports.findings["a", "test"]
    assert (failed.code, failed.severity) == ("probe-failed", Severity.FAULT)
    assert failed.message.startswith("/dev/x: cannot be read: I/O error\\nxxx")
    assert len(failed.message.encode()) == 500
    assert [(each.codes, each.message) for each in reports.of("b")] == [
        (("unasked",), "the probe of test has a defect; the log tells")
    ]
    assert [each.message for each in reports.of("c")] == ["the library is gone"]


async def test_what_heals_is_asked_more_often(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Three times in the time that it must be well, then as before."""
    reports.healing = (SICK,)
    terms = Terms(interval_s=30, deadline_s=2, timeout_s=90, recover_after_s=6)
    subject = Subject([SICK])
    rounds.watch({"a": watched(subject, terms)})
    await nursery.start(rounds.run)
    await trio.sleep(40)

    subject.answer = ()
    await trio.sleep(25)
    reports.healing = ()
    await trio.sleep(30)

    assert subject.asked == [0, 30, 60, 62, 64, 66]


async def test_soon_is_now_or_after_the_one_that_is_out(
    rounds: Rounds, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """An event says that something may have changed after the probe looked."""
    idle, busy = Subject(), Subject(takes_s=3)
    rounds.watch({"idle": watched(idle), "busy": watched(busy)})
    await nursery.start(rounds.run)
    await trio.sleep(2)

    for name in ("idle", "busy", "unknown"):
        rounds.probe_soon(name)
    await trio.sleep(2)

    assert idle.asked == [0, 2]
    assert busy.asked == [0, 3]


@pytest.mark.parametrize("again", range(5))
async def test_machine_that_stood_still_is_no_silence(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, mock_clock: MockClock, again: int
) -> None:
    """The answers that came meanwhile are taken before deadlines are looked at."""
    subjects = {f"gpu{n}": Subject(takes_s=1) for n in range(8)}
    rounds.watch({name: watched(each) for name, each in subjects.items()})
    await nursery.start(rounds.run)
    await wait_all_tasks_blocked()

    mock_clock.jump(1000)
    await wait_all_tasks_blocked()
    mock_clock.jump(TARDY_S)
    await wait_all_tasks_blocked()

    assert {each.codes for each in reports.told} == {()}
    assert {len(each.asked) for each in subjects.values()} == {2}


async def test_rounds_can_be_run_again(
    rounds: Rounds, reports: Reported, autojump_clock: MockClock
) -> None:
    """Probes that were out end with their run, and are started anew in the next."""
    subject = Subject(hangs=True)
    rounds.watch({"a": watched(subject)})
    with trio.move_on_after(10):
        await rounds.run()
    subject.gate.set()

    with trio.move_on_after(1):
        await rounds.run()

    assert subject.asked == [0, 10]
    assert reports.told[-1].codes == ()


async def test_what_another_life_found_against_the_unwatched_is_void(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody would ever see it heal; of what is not there now nothing is decided."""
    for subject in ("watched", "left", "away"):
        reports.report(subject, "test", [SICK])
    reports.report("left", "another", [SICK])

    rounds.watch({"watched": watched(Subject([SICK]))}, of=["watched", "left", "well"])
    await nursery.start(rounds.run)
    await trio.sleep(1)

    assert [told.subject for told in reports.told if told.codes == ("retired",)] == ["left"]
    assert set(reports.findings) == {("watched", "test"), ("away", "test"), ("left", "another")}


async def test_silence_does_not_tell_again_what_a_person_has_cleared(
    rounds: Rounds, reports: Reported, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nor what was found of the thing that was there before."""
    subject = Subject([SICK])
    rounds.watch({"a": watched(subject)})
    await nursery.start(rounds.run)
    await trio.sleep(1)
    reports.findings.clear()
    subject.gate = trio.Event()

    await trio.sleep(10)

    assert reports.of("a")[-1].codes == ("no-answer",)


async def test_defect_that_lasts_is_told_once(
    rounds: Rounds,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And anew when it comes back."""
    is_well = False

    async def probe() -> Answer:
        await trio.lowlevel.checkpoint()
        if not is_well:
            raise RuntimeError("can't start new thread")
        return ()

    rounds.watch({"a": watched(probe)})
    await nursery.start(rounds.run)
    await trio.sleep(61)
    assert caplog.text.count("probe has a defect") == 1
    is_well = True
    await trio.sleep(6)
    is_well = False
    await trio.sleep(61)

    assert caplog.text.count("probe has a defect") == 2
