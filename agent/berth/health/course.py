"""How one subject fares over time: what speaks against it, who asks it, and how it heals.

Worse counts at once. Better counts when nothing as bad has been named for the hold time and the
subject was asked often enough in it; until then what was named stays a cause. So neither one lucky
answer nor a lesser event hides what is wrong. Whether it can be asked counts at once both ways, as
long as it does not change again and again.

Source: gpu-and-health.md §6.1, §6.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from berth.health.finding import Finding, Severity

PROBES: Final = 3
"""Answers that a subject must have given before it counts as well again."""

CHANGES: Final = 4
"""More changes than these within `WINDOW_S` are flapping."""

WINDOW_S: Final = 300.0

HOLD_LIMIT_S: Final = 600.0
"""Longest that flapping makes the hold time."""

QUIET_S: Final = 1800.0
"""Without a change for so long nothing flaps any more."""

CAUSE_LIMIT: Final = 32
"""Most causes of one source that are kept of a subject; the worst are."""

_DOUBLINGS: Final = 10
# Enough to bring the shortest hold time, 1 s, to the limit.

_NEVER: Final = math.inf


@attrs.frozen(kw_only=True)
class Moment:
    """A point in time.

    Attributes:
        s: By a clock that nobody sets; what is decided is decided by it.
        wall_s: Seconds since 1970, for people.
    """

    s: float
    wall_s: int


@attrs.frozen(kw_only=True)
class Cause:
    """One finding of one source, since when.

    Attributes:
        since: When its code was first named.
        gone_s: When it was named no more; ``None`` while it is named.
    """

    source: str
    finding: Finding
    since: Moment
    gone_s: float | None = None

    @property
    def key(self) -> tuple[str, str, Severity]:
        """What makes two findings the same: one that is told milder heals, and is not replaced."""
        return self.source, self.finding.code, self.finding.severity

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.finding.severity


@attrs.frozen(kw_only=True)
class Asker:
    """A source that asks the subject.

    Attributes:
        confirmed: When it had the last answer, or waited for one in vain; ``None`` if never.
        refused: Why it could not ask since then; empty while it can.
        refused_at: Since when it cannot.
        answers_s: Since when it answers again, where the refusal counts for a while yet: nobody is
            to be told in each turn of one that does not know in each other.
    """

    confirmed: Moment | None = None
    refused: str = ""
    refused_at: Moment | None = None
    answers_s: float | None = None


@attrs.frozen(kw_only=True)
class Flapping:
    """How often it became worse and better.

    Attributes:
        changes: The latest, by the clock that nobody sets.
        doublings: How many times the hold time is doubled.
    """

    changes: tuple[float, ...] = ()
    doublings: int = 0

    def changed(self, now_s: float) -> Flapping:
        """After one more change."""
        recent = (*(s for s in self.changes if now_s - s < WINDOW_S), now_s)
        if len(recent) <= CHANGES:
            return attrs.evolve(self, changes=recent)
        # What has doubled the time is counted; the next doubling takes as many changes again.
        return Flapping(changes=(now_s,), doublings=min(self.doublings + 1, _DOUBLINGS))

    def settled(self, now_s: float) -> Flapping:
        """At a moment at which nothing changed."""
        return Flapping() if now_s >= self.quiet_s else self

    @property
    def quiet_s(self) -> float:
        """When it is forgotten, if nothing changes until then."""
        return self.changes[-1] + QUIET_S if self.changes else _NEVER

    def hold_s(self, recover_after_s: float) -> float:
        """How long everything must be well."""
        longest = max(HOLD_LIMIT_S, recover_after_s)
        return min(recover_after_s * 2.0**self.doublings, longest)


@attrs.frozen(kw_only=True)
class Course:
    """How one subject is.

    Attributes:
        causes: Named and healing ones, the oldest first.
        askers: Sources that ask it, by name.
        answers: When it was asked, the last `PROBES` times.
    """

    causes: tuple[Cause, ...] = ()
    askers: Mapping[str, Asker] = MappingProxyType({})
    answers: tuple[float, ...] = ()
    flapping: Flapping = attrs.field(factory=Flapping)

    @property
    def worst(self) -> Severity | None:
        """The severity of its worst cause."""
        return max((cause.severity for cause in self.causes), default=None)

    @property
    def is_void(self) -> bool:
        """Nothing speaks against it, and nobody watches it."""
        return not self.causes and not self.askers

    def standing(self, source: str) -> tuple[Finding, ...]:
        """What a source has against it, healing or not; of one code the worst alone."""
        found: dict[str, Finding] = {}
        for cause in sorted(self.causes, key=lambda cause: cause.severity):
            if cause.source == source:
                found[cause.finding.code] = cause.finding
        return tuple(found.values())

    def reported(
        self, source: str, findings: Iterable[Finding], *, asked: bool, at: Moment
    ) -> Course:
        """After a source has said all that it has against the subject now."""
        named: dict[tuple[str, str, Severity], Finding] = {}
        for finding in findings:
            named[source, finding.code, finding.severity] = finding
        since = {cause.finding.code: cause.since for cause in self._of(source)[::-1]}
        kept = [
            attrs.evolve(cause, finding=named.pop(cause.key), gone_s=None)
            if cause.key in named
            else _gone(cause, at)
            for cause in self._of(source)
        ]
        kept += [
            Cause(source=source, finding=finding, since=since.get(finding.code, at))
            for finding in named.values()
        ]
        heard = self._answered(source, at) if asked else self
        return heard.with_causes(source, kept, at)

    def expected(self, source: str) -> Course:
        """After a source has said that it is going to ask."""
        if source in self.askers:
            return self
        return attrs.evolve(self, askers={**self.askers, source: Asker()})

    def unasked(self, source: str, why: str, at: Moment) -> Course:
        """After a source could not ask."""
        known = self.askers.get(source, Asker())
        refused_at = known.refused_at if known.refused else at
        why = why or "no reason was given"
        asker = attrs.evolve(known, refused=why, refused_at=refused_at, answers_s=None)
        changed = self.with_asker(source, asker, at)
        if known.answers_s is None:
            return changed
        # It changes again and again still, though nobody is told of it.
        return attrs.evolve(changed, flapping=self.flapping.changed(at.s))

    def retired(self, source: str, at: Moment) -> Course:
        """After a source has let go of it: what it found is void."""
        askers = {name: asker for name, asker in self.askers.items() if name != source}
        return attrs.evolve(self.with_causes(source, (), at), askers=askers)

    def cleared(self, drops: Callable[[Cause], bool], at: Moment) -> Course:
        """After a person has said that causes are over; whoever named one has to ask anew."""
        dropped = {cause.source for cause in self.causes if drops(cause)}
        causes = tuple(cause for cause in self.causes if not drops(cause))
        askers = {
            name: Asker() if name in dropped else asker for name, asker in self.askers.items()
        }
        return attrs.evolve(self._becoming(causes, at), askers=askers)

    def settled(self, at: Moment, *, recover_after_s: float, asked: Course | None) -> Course:
        """Without what has healed by now.

        Args:
            asked: Whose answers count: its own, or a whole's for a part that nobody asks;
                ``None`` where nobody is asked, so that time alone heals.
        """
        changed = self
        if self.causes:
            heals = self._heals(recover_after_s, asked)
            kept = tuple(cause for cause in self.causes if heals[cause.severity] > at.s)
            changed = self if len(kept) == len(self.causes) else self._becoming(kept, at)
        for source, answers_s in self._answering(recover_after_s):
            if answers_s <= at.s:
                known = Asker(confirmed=self.askers[source].confirmed)
                changed = changed.with_asker(source, known, at)
        quiet = changed.flapping.settled(at.s)
        return changed if quiet == changed.flapping else attrs.evolve(changed, flapping=quiet)

    def due_s(self, *, recover_after_s: float, asked: Course | None) -> float:
        """When `settled` changes it, if nobody says anything until then; infinity if never."""
        quiet_s = self.flapping.quiet_s if self.flapping.doublings else _NEVER
        quiet_s = min((quiet_s, *(s for _, s in self._answering(recover_after_s))))
        if not self.causes:
            return quiet_s
        heals = self._heals(recover_after_s, asked)
        return min(quiet_s, *(heals[cause.severity] for cause in self.causes))

    def _answering(self, recover_after_s: float) -> Iterator[tuple[str, float]]:
        """Who answers again, and when the refusal of before is over."""
        hold_s = self.flapping.hold_s(recover_after_s)
        for source, asker in self.askers.items():
            since_s = asker.answers_s
            if since_s is not None and sum(s >= since_s for s in self.answers) >= PROBES:
                yield source, since_s + hold_s

    def _of(self, source: str) -> list[Cause]:
        return [cause for cause in self.causes if cause.source == source]

    def with_causes(self, source: str, causes: Iterable[Cause], at: Moment) -> Course:
        """With other causes of one source."""
        kept = sorted(causes, key=_weight)[:CAUSE_LIMIT]
        others = (cause for cause in self.causes if cause.source != source)
        ordered = sorted((*others, *kept), key=lambda cause: cause.since.s)
        return self._becoming(tuple(ordered), at)

    def _becoming(self, causes: tuple[Cause, ...], at: Moment) -> Course:
        """With other causes; that it is worse or better for it is a change."""
        changed = attrs.evolve(self, causes=causes)
        if _band(changed.worst) == _band(self.worst):
            return changed
        return attrs.evolve(changed, flapping=self.flapping.changed(at.s))

    def _answered(self, source: str, at: Moment) -> Course:
        known, asker = self.askers.get(source, Asker()), Asker(confirmed=at)
        if known.refused and self.flapping.doublings:
            since_s = at.s if known.answers_s is None else known.answers_s
            asker = attrs.evolve(known, confirmed=at, answers_s=since_s)
        heard = self.with_asker(source, asker, at)
        return attrs.evolve(heard, answers=(*self.answers, at.s)[-PROBES:])

    def with_asker(self, source: str, asker: Asker, at: Moment) -> Course:
        """With another state of one who asks; that somebody can or cannot ask is a change."""
        changed = attrs.evolve(self, askers={**self.askers, source: asker})
        if changed.is_refused == self.is_refused:
            return changed
        return attrs.evolve(changed, flapping=self.flapping.changed(at.s))

    @property
    def is_refused(self) -> bool:
        """Whether somebody who asks it cannot."""
        return any(asker.refused for asker in self.askers.values())

    def _heals(self, recover_after_s: float, asked: Course | None) -> Mapping[Severity, float]:
        """When causes of each severity are over: nothing as bad is named, and for long enough."""
        hold_s = self.flapping.hold_s(recover_after_s)
        found: dict[Severity, float] = {}
        well_s = -_NEVER
        for severity in sorted(Severity, reverse=True):
            gone = (cause.gone_s for cause in self.causes if cause.severity is severity)
            well_s = max((well_s, *(_NEVER if s is None else s for s in gone)))
            answers = asked.answers if asked is not None else (_NEVER,) * PROBES
            is_proven = sum(s >= well_s for s in answers) >= PROBES
            found[severity] = well_s + hold_s if is_proven else _NEVER
        return found


def asked_of(courses: Iterable[Course]) -> Course | None:
    """The course whose answers count: the subject's own, else that of the nearest whole.

    Args:
        courses: Of the subject, and of its wholes from the nearest on.
    """
    return next((course for course in courses if course.askers), None)


def _gone(cause: Cause, at: Moment) -> Cause:
    return cause if cause.gone_s is not None else attrs.evolve(cause, gone_s=at.s)


def _weight(cause: Cause) -> tuple[int, bool, float]:
    """What is kept first: the worse, what is still named, the older."""
    return -cause.severity, cause.gone_s is not None, cause.since.s


def _band(severity: Severity | None) -> int:
    """What counts as a change: well, degraded, not given to pods."""
    return 0 if severity is None else min(severity, Severity.FAULT)
