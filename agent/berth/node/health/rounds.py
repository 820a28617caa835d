"""Probes subjects in turn, each by its own terms, and tells what they answer or that they do not.

A source of evidence gives `Rounds` what is to be probed and how. One task keeps the times; each
probe is a task of its own, so that one that hangs keeps nobody waiting, and there is never a second
of a subject: what hangs once would hang again, and each would hold a thread. When it returns after
all, its answer is told and the next comes at once.

When the machine was too busy to run us, answers lie ready that nobody could take. They are taken
before anyone's silence is told.

Source: gpu-and-health.md §6.1, §6.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from berth.errors import BerthError, printable
from berth.health.finding import Finding, Severity, cut
from berth.health.reports import Reports
from berth.health.schedule import NO_ANSWER, Turn, due, no_answer, silent, wake_s
from berth.health.terms import Terms
from berth.model.meter import Tally, Timing
from berth.runtime.logs import get_log

PROBE_FAILED: Final = "probe-failed"
"""Code of the finding that a probe ended by an error."""

TARDY_S: Final = 0.5
"""When we come so late to tell a silence, nobody was run; answers get as long to come in."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class Unanswerable:
    """Nobody could ask, by no fault of the subject.

    Attributes:
        why: For people.
    """

    why: str


@attrs.frozen(kw_only=True)
class Watched:
    """One subject that is probed.

    Attributes:
        terms: Its times.
        probe: Gives all the findings of now. It ends at once when it is cancelled: what waits for
            a thread that may hang leaves that behind (``abandon_on_cancel``). A `BerthError` of
            its is a finding against the subject; any other exception is a defect of ours.
        mend: What a person can do when it does not answer.
    """

    terms: Terms
    probe: Callable[[], Awaitable[Sequence[Finding] | Unanswerable]]
    mend: str = "the kernel's log may say what hangs"


@attrs.define(eq=False)
class _Subject:
    """What is known of one subject.

    Attributes:
        watched: ``None`` when it is watched no more and its probe is still out.
        answer: The findings of its last answer; ``None`` before the first.
        told: Set when something is told of it next.
        defect: What its last probe failed by, and should not have; empty when it did not.
    """

    watched: Watched | None
    turn: Turn
    answer: tuple[Finding, ...] | None = None
    told: trio.Event = attrs.field(factory=trio.Event)
    defect: str = ""

    def let_go(self) -> None:
        """Something was told: whoever waits for it goes on."""
        self.told.set()
        self.told = trio.Event()


class Rounds:
    """The probes of one source. It is a `health.reports.Prober`.

    Args:
        source: Under which findings are told; nobody else tells any under this word.
        limit: Most probes that are out at once, less those whose silence was told. The others wait
            for their turn, and a deadline counts from its beginning.

    Attributes:
        seconds: How long probes took that returned.
        timeouts: How many did not in time.
    """

    def __init__(self, reports: Reports, *, source: str, limit: int | None = None) -> None:
        self.seconds = Timing()
        self.timeouts = Tally()
        self._reports = reports
        self._source = source
        self._limit = limit
        self._subjects: dict[str, _Subject] = {}
        self._pause = trio.CancelScope()
        self._fresh = 0

    @property
    def stuck(self) -> int:
        """How many probes are out past their deadline."""
        return sum(each.turn.is_late for each in self._subjects.values())

    def watch(self, subjects: Mapping[str, Watched], *, of: Iterable[str] = ()) -> None:
        """This is all that is watched from now on.

        A new subject is probed at once, and nobody knows how it is before it has answered, whatever
        others say; one whose probe alone is another is probed when it is due.

        Args:
            of: What there is, watched or not. What another life found against one that is not
                watched is void: nobody would ever see it heal.
        """
        for name in self._subjects.keys() - subjects.keys():
            self._retire(name)
        for name in of:
            if name not in subjects and self._reports.standing(name, self._source):
                self._reports.retire(name, self._source)
        for name, watched in subjects.items():
            known = self._subjects.get(name)
            if known is None or known.watched is None:
                self._reports.expect(name, self._source)
            if known is None:
                self._subjects[name] = _Subject(watched, Turn(terms=watched.terms))
                continue
            back, known.watched = known.watched is None, watched
            known.turn = attrs.evolve(
                known.turn, terms=watched.terms, hurried=known.turn.hurried or back
            )
            if back and known.turn.is_late:
                self._tell_silence(name, known, trio.current_time())
        self._pause.cancel()

    def _retire(self, name: str) -> None:
        subject = self._subjects[name]
        if subject.watched is None:
            return
        subject.watched, subject.answer = None, None
        if not subject.turn.out:
            del self._subjects[name]
        self._reports.retire(name, self._source)
        subject.let_go()

    def probe_soon(self, subject: str) -> None:
        """Probe it at once, or as soon as the probe that is out has returned."""
        known = self._subjects.get(subject)
        if known is not None:
            known.turn = attrs.evolve(known.turn, hurried=True)
            self._pause.cancel()

    async def probe_now(self, subject: str) -> None:
        """Probe it, and return when that was told; joins the probe that is out.

        Returns at once where it is not watched, or its silence was told already.
        """
        known = self._subjects.get(subject)
        if known is None or known.watched is None or known.turn.is_late:
            await trio.lowlevel.checkpoint()
            return
        if not known.turn.out:
            self.probe_soon(subject)
        await known.told.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Probe until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                if silent(self._turns(), trio.current_time() - TARDY_S):
                    await trio.sleep(TARDY_S)
                self._turn_round(nursery, trio.current_time())
                with trio.CancelScope(deadline=self._wake_s()) as self._pause:
                    await trio.sleep_forever()

    def _turns(self) -> dict[str, Turn]:
        return {name: each.turn for name, each in self._subjects.items()}

    @property
    def _room(self) -> int | None:
        """How many more probes may go out; ``None`` for any number."""
        return None if self._limit is None else max(0, self._limit - self._fresh)

    def _wake_s(self) -> float:
        return wake_s(self._turns(), room=self._room)

    def _turn_round(self, nursery: trio.Nursery, now_s: float) -> None:
        """Do what is due: tell who is silent, start who is due."""
        turns = self._turns()
        for name in silent(turns, now_s):
            self._tell_silence(name, self._subjects[name], now_s)
        for name in due(turns, now_s, room=self._room):
            subject = self._subjects[name]
            if subject.watched is not None:
                subject.turn = subject.turn.begun(now_s)
                self._fresh += 1
                nursery.start_soon(self._probe, name, subject, subject.watched)

    async def _probe(self, name: str, subject: _Subject, watched: Watched) -> None:
        began = trio.current_time()
        try:
            answer = await self._answer(name, subject, watched)
            self.seconds.observe(trio.current_time() - began)
        finally:
            self._fresh -= not subject.turn.is_late
            subject.turn = subject.turn.returned()
            if subject.watched is None:
                del self._subjects[name]
        if subject.watched is not None:
            self._tell(name, subject, answer)
            subject.let_go()
        # With nobody out, deadlines are no reason to wake up.
        if self._fresh and self._limit is None:
            self._pause.deadline = min(self._pause.deadline, subject.turn.wake_s)
        else:
            self._pause.deadline = self._wake_s()

    async def _answer(
        self, name: str, subject: _Subject, watched: Watched
    ) -> Sequence[Finding] | Unanswerable:
        known, subject.defect = subject.defect, ""
        try:
            return await watched.probe()
        except BerthError as error:
            message = cut(printable(str(error)))
            return (Finding(code=PROBE_FAILED, severity=Severity.FAULT, message=message),)
        except Exception as error:  # noqa: BLE001 - a defect of one probe ends no other
            subject.defect = repr(error)
            # A machine without threads to spare has it with each probe of each device.
            if subject.defect != known:
                _log.exception("probe has a defect", subject=name, source=self._source)
            return Unanswerable(why=f"the probe of {self._source} has a defect; the log tells")

    def _tell(self, name: str, subject: _Subject, answer: Sequence[Finding] | Unanswerable) -> None:
        if isinstance(answer, Unanswerable):
            self._reports.unasked(name, self._source, answer.why)
            return
        subject.answer = tuple(answer)
        self._reports.report(name, self._source, subject.answer)
        named = {finding.code for finding in answer}
        standing = {finding.code for finding in self._reports.standing(name, self._source)}
        subject.turn = attrs.evolve(subject.turn, heals=not standing <= named)

    def _tell_silence(self, name: str, subject: _Subject, now_s: float) -> None:
        """What it was found to be before still stands: nobody has seen it otherwise.

        Unless a person has cleared it, or another thing is in its place by now.
        """
        self._fresh -= not subject.turn.is_late
        self.timeouts.add(by=not subject.turn.is_late)
        subject.turn = subject.turn.told(now_s)
        watched = subject.watched
        if watched is None:
            return
        standing = self._reports.standing(name, self._source)
        before = standing if subject.answer is None else subject.answer
        known = {each.code for each in standing} - {NO_ANSWER}
        findings = [each for each in before if each.code in known]
        findings.append(no_answer(subject.turn, now_s, mend=watched.mend))
        self._reports.report(name, self._source, findings)
        subject.let_go()
