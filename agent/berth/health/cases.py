"""Every subject of the node with its course, and the verdicts on the devices that they stand for.

Only what a report touched, or what is due by time, is folded anew: a storm on one device costs the
others nothing.

Source: gpu-and-health.md §6.1, §6.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from berth.health.course import Cause, Course, Moment, asked_of
from berth.health.finding import Finding, wholes
from berth.health.fold import expires_s, fold
from berth.health.terms import Terms
from berth.health.verdict import HealthState, Verdict

UNLISTED_S: Final = 30.0
"""Hold time of what stands for no device, or for none yet."""


@attrs.frozen(kw_only=True)
class Watched:
    """One device.

    Attributes:
        subject: Its identity.
    """

    subject: str
    terms: Terms


@attrs.frozen(kw_only=True)
class _Folded:
    verdict: Verdict
    due_s: float


class Cases:
    """What is known of every subject; whoever calls says what time it is.

    Args:
        courses: As an earlier life left them.
    """

    def __init__(self, courses: Mapping[str, Course] | None = None) -> None:
        self._courses: dict[str, Course] = dict(courses or {})
        self._devices: Mapping[str, Watched] = {}
        self._names: dict[str, set[str]] = {}
        self._folded: dict[str, _Folded] = {}
        self._stale: set[str] = set()
        self._left = False

    @property
    def courses(self) -> Mapping[str, Course]:
        """Every subject of which anything is known."""
        return self._courses

    @property
    def devices(self) -> Mapping[str, Watched]:
        """Every device, by name."""
        return self._devices

    @property
    def due_s(self) -> float:
        """When `fold` finds something, if nobody says anything until then; infinity if never."""
        if self._stale:
            return -math.inf
        return min((folded.due_s for folded in self._folded.values()), default=math.inf)

    def copy(self) -> Cases:
        """The same, to be changed by itself."""
        cases = Cases(self._courses)
        cases.know(self._devices)
        return cases

    def know(self, devices: Mapping[str, Watched]) -> None:
        """These are the devices of the node from now on."""
        changed = {name for name, one in devices.items() if self._devices.get(name) != one}
        for name in self._devices.keys() - devices.keys():
            self._left = self._folded.pop(name, None) is not None or self._left
        self._devices = dict(devices)
        self._stale = (self._stale | changed) & devices.keys()
        self._names = {}
        for name, one in devices.items():
            for subject in (one.subject, *wholes(one.subject)):
                self._names.setdefault(subject, set()).add(name)

    def report(
        self, subject: str, source: str, findings: Iterable[Finding], *, asked: bool, at: Moment
    ) -> None:
        """A source has said all that it has against a subject."""
        self._change(subject, at, lambda c: c.reported(source, findings, asked=asked, at=at))

    def expect(self, subject: str, source: str, at: Moment) -> None:
        """A source is going to ask."""
        self._change(subject, at, lambda course: course.expected(source))

    def unasked(self, subject: str, source: str, why: str, at: Moment) -> None:
        """A source could not ask."""
        self._change(subject, at, lambda course: course.unasked(source, why, at))

    def retire(self, subject: str, source: str, at: Moment) -> None:
        """A source has let go of a subject."""
        if subject in self._courses:
            self._change(subject, at, lambda course: course.retired(source, at))

    def forget(self, subject: str) -> None:
        """What stood for a subject and its parts is gone for good; what comes there is another."""
        for each in tuple(self._courses):
            if subject in {each, *wholes(each)}:
                self._put(each, self._courses[each], Course())

    def clear(self, subject: str, drops: Callable[[Cause], bool], at: Moment) -> None:
        """A person has said that causes are over."""
        if subject in self._courses:
            self._change(subject, at, lambda course: course.cleared(drops, at))

    def of(self, subject: str) -> Course:
        """How one subject fares."""
        return self._courses.get(subject, Course())

    def courses_of(self, name: str) -> tuple[tuple[str, Course], ...]:
        """What a device's verdict comes from: its own subject, then its wholes, with their names.

        Raises:
            KeyError: No device is so called.
        """
        subject = self._devices[name].subject
        return tuple((each, self.of(each)) for each in (subject, *wholes(subject)))

    def verdict(self, name: str, at: Moment) -> Verdict | None:
        """The verdict on a device at once; ``None`` where no device is so called."""
        if name not in self._devices:
            return None
        self._settle(name, at)
        return self._fold(name, at).verdict

    def fold(self, at: Moment) -> bool:
        """Judge anew what was touched or is due.

        Returns:
            Whether `state` differs from what it was before by more than times of confirmation.
        """
        is_news = False
        self._stale |= {name for name, folded in self._folded.items() if folded.due_s <= at.s}
        for name in tuple(self._stale):
            self._settle(name, at)
        for name in self._stale:
            before, self._folded[name] = self._folded.get(name), self._fold(name, at)
            is_news = is_news or before is None or _differ(before, self._folded[name])
        self._stale = set()
        is_news, self._left = is_news or self._left, False
        return is_news

    @property
    def state(self) -> HealthState:
        """The verdict on every device, as `fold` found them last."""
        return HealthState(verdicts={name: one.verdict for name, one in self._folded.items()})

    def _change(self, subject: str, at: Moment, change: Callable[[Course], Course]) -> None:
        before = self.of(subject)
        self._put(subject, before, change(self._settled(subject, before, at)))

    def _settle(self, name: str, at: Moment) -> None:
        """Let heal what a device's verdict comes from."""
        for subject, course in self.courses_of(name):
            self._put(subject, course, self._settled(subject, course, at))

    def _put(self, subject: str, before: Course, after: Course) -> None:
        if after == before:
            return
        if after.is_void:
            self._courses.pop(subject, None)
        else:
            self._courses[subject] = after
        # What happens to a whole is news to all of its parts.
        self._stale |= self._names.get(subject, set())

    def _settled(self, subject: str, course: Course, at: Moment) -> Course:
        return course.settled(
            at, recover_after_s=self._recover_after_s(subject), asked=self._asked(subject)
        )

    def _asked(self, subject: str) -> Course | None:
        return asked_of(self.of(each) for each in (subject, *wholes(subject)))

    def _recover_after_s(self, subject: str) -> float:
        """The hold time of a subject: that of the device that waits longest for it."""
        times = [self._devices[name].terms.recover_after_s for name in self._names.get(subject, ())]
        return max(times, default=UNLISTED_S)

    def _fold(self, name: str, at: Moment) -> _Folded:
        terms = self._devices[name].terms
        each = self.courses_of(name)
        courses = [course for _, course in each]
        heals = (
            course.due_s(recover_after_s=self._recover_after_s(subject), asked=self._asked(subject))
            for subject, course in each
        )
        due_s = min((expires_s(courses, terms, at), *heals))
        return _Folded(verdict=fold(courses, terms, at), due_s=due_s)


def _differ(one: _Folded, other: _Folded) -> bool:
    """Whether two verdicts say another thing; that the same was confirmed again is none."""
    then = attrs.evolve(one.verdict, observed_s=other.verdict.observed_s)
    return then != other.verdict
