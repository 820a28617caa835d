"""How one GPU and its parts are, by what it answers, what events tell, and the time that passes.

What an answer said holds until the next one. What an event told is an ailment, and has to be cured:
a fault by the GPU saying that it needs no recovery, after the last of the questions that follow an
XID, since the need may show late; a lesser one by a reset or by an hour without another; lasting
damage by a person. Where the GPU cannot say what it needs, a new binding of its driver cures, or a
person.

All is pure: the clock and the answers come in, findings and times to ask at come out. How long a
device has to be well before it is called so is decided where verdicts are made.

Source: gpu-and-health.md §6.2, §6.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final

import attrs

from berth.config.xid import XidClass, XidTable
from berth.gpu.told import (
    ACTION,
    EVENT_CODES,
    LOST_NOW,
    REMAP_FAILURE,
    RESETS,
    event_finding,
    field_findings,
    plain_refusal,
    refusal_finding,
    silence_finding,
)
from berth.gpu.xid import class_unasked, subjects_of, xid_finding
from berth.health.finding import Finding, Severity
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal

ASKS_S: Final = (0.0, 1.0, 5.0, 15.0)
"""When the GPU is asked after an XID: the action that it needs may show later."""

BETWEEN_S: Final = 0.25
"""No two of these questions are nearer than this: XIDs come in storms."""

AN_HOUR_S: Final = 3600.0

MOST: Final = 32
"""Ailments that are kept of one GPU; the worst ones."""

_NO_SESSION: Final = 1
# Code of a refusal that says nothing of the GPU.


class Cure(Enum):
    """What ends an ailment."""

    ACTION = "action"
    """The GPU says that it needs no recovery."""
    TIME = "time"
    """A reset, or an hour without another."""
    PERSON = "person"


@attrs.frozen(kw_only=True)
class Ailment:
    """Something that an event told, or that an answer told once and for all.

    Attributes:
        subject: The GPU, or the part that has it.
        last_s: When it was told last.
    """

    subject: str
    finding: Finding
    cure: Cure
    last_s: float


@attrs.frozen(kw_only=True)
class Suspect:
    """An XID of which the GPU is to say whether it is one of the bad ones."""

    subject: str
    code: int


@attrs.frozen(kw_only=True)
class Condition:
    """All that is known of one GPU.

    Attributes:
        subject: Its identity.
        parts: Identities of its MIG parts, by the ids of their GPU and compute instance.
        ailments: What it has.
        suspects: What it may have.
        told: What the last answer spoke against it.
        plight: Why there is no answer; ``None`` while it answers.
        gone: What the PCI bus speaks against it; ``None`` where that has it.
        action: The recovery that it needs, 0 for none; ``None`` while it does not say.
        refusals: How many errors it answered in a row.
        asks: When it is to be asked, in rising order.
        asked_s: When it was asked so last.
    """

    subject: str
    parts: Mapping[tuple[int, int], str] = MappingProxyType({})
    ailments: tuple[Ailment, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    told: tuple[Finding, ...] = ()
    plight: Finding | None = None
    gone: Finding | None = None
    action: int | None = None
    refusals: int = 0
    asks: tuple[float, ...] = ()
    asked_s: float = -math.inf

    @property
    def next_ask_s(self) -> float:
        """When it is to be asked next; never is infinite."""
        return max(self.asks[0], self.asked_s + BETWEEN_S) if self.asks else math.inf

    @property
    def subjects(self) -> tuple[str, ...]:
        """The GPU and its parts."""
        return (self.subject, *self.parts.values())

    def against(self, subject: str, now_s: float) -> tuple[Finding, ...]:
        """What speaks against the GPU itself or one of its parts; each code once."""
        found = [one.finding for one in self.ailments if _is_of(one, subject, now_s)]
        if subject == self.subject:
            found += [one for one in (self.gone, self.plight) if one is not None]
            found += self.told
        return tuple({one.code: one for one in reversed(found)}.values())[::-1]


def _is_of(one: Ailment, subject: str, now_s: float) -> bool:
    over = one.cure is Cure.TIME and now_s - one.last_s >= AN_HOUR_S
    return one.subject == subject and not over


def laid_out(condition: Condition, parts: Mapping[tuple[int, int], str]) -> Condition:
    """The condition when the GPU is divided otherwise; a part takes its ailments with it."""
    if parts == condition.parts:
        return condition
    subjects = {condition.subject, *parts.values()}
    return attrs.evolve(
        condition,
        parts=parts,
        ailments=tuple(one for one in condition.ailments if one.subject in subjects),
        suspects=tuple(one for one in condition.suspects if one.subject in subjects),
    )


def heard(condition: Condition, event: NvmlEvent, classes: XidTable, *, now_s: float) -> Condition:
    """The condition after an event of this GPU; that events were missed calls for a probe."""
    if event.kind is EventKind.XID:
        return _after_xid(condition, event, classes, now_s)
    if event.kind is EventKind.LOST:
        return attrs.evolve(condition, plight=LOST_NOW)
    if event.kind is not EventKind.OTHER:
        return condition
    finding = event_finding(event.type)
    if finding is not None:
        condition = _with(condition, condition.subject, finding, now_s)
    # Those that name no error tell that the need for recovery has changed, or count errors.
    return _to_ask(condition, (0.0,), now_s)


def _after_xid(
    condition: Condition, event: NvmlEvent, classes: XidTable, now_s: float
) -> Condition:
    xid_class = classes.class_of(event.data)
    finding = xid_finding(event.data, xid_class)
    for subject in subjects_of(event.gi, event.ci, whole=condition.subject, parts=condition.parts):
        if finding is not None:
            condition = _with(condition, subject, finding, now_s)
        elif xid_class is XidClass.CONFIRM:
            suspects = {*condition.suspects, Suspect(subject=subject, code=event.data)}
            kept = tuple(sorted(suspects, key=lambda one: (one.subject, one.code)))[:MOST]
            condition = attrs.evolve(condition, suspects=kept)
    return _to_ask(condition, ASKS_S, now_s)


def _to_ask(condition: Condition, after_s: Iterable[float], now_s: float) -> Condition:
    # On a grid, so that a storm comes to few questions, none of them sooner than it is due.
    asks = {
        math.ceil((now_s + delay_s) / BETWEEN_S) * BETWEEN_S if delay_s else now_s
        for delay_s in after_s
    }
    others = (due_s for due_s in condition.asks if due_s > now_s)
    return attrs.evolve(condition, asks=tuple(sorted({*asks, *others})))


def _with(condition: Condition, subject: str, finding: Finding, now_s: float) -> Condition:
    new = Ailment(subject=subject, finding=finding, cure=_cure(finding), last_s=now_s)
    others = [
        one
        for one in condition.ailments
        if (one.subject, one.finding.code) != (subject, finding.code)
    ]
    # By severity alone, so that of equals the oldest stay.
    worst = sorted((*others, new), key=lambda one: -one.finding.severity)
    return attrs.evolve(condition, ailments=tuple(worst[:MOST]))


def _cure(finding: Finding) -> Cure:
    if finding.permanent:
        return Cure.PERSON
    return Cure.TIME if finding.severity is Severity.DEGRADED else Cure.ACTION


def asking(condition: Condition, *, now_s: float) -> Condition:
    """The condition when the questions that are due are asked, as one."""
    left = tuple(due_s for due_s in condition.asks if due_s > now_s)
    return attrs.evolve(condition, asks=left, asked_s=now_s)


def answered(
    condition: Condition, answer: Probe | Refusal | NoAnswer, *, now_s: float
) -> Condition:
    """The condition after an answer, or after a question that was not answered in its time.

    That a GPU is silent for so long that it counts as sick is told by `silent`.
    """
    if isinstance(answer, NoAnswer):
        return _unconfirmed(condition, now_s)
    refusal = plain_refusal(answer)
    if refusal is None and isinstance(answer, Probe):
        return _after_fields(condition, answer.fields, now_s)
    condition = _unconfirmed(condition, now_s)
    if refusal is None or refusal.code == _NO_SESSION:
        return condition
    times = condition.refusals + 1
    plight = refusal_finding(refusal, times) or condition.plight
    return attrs.evolve(condition, refusals=times, plight=plight)


def _after_fields(condition: Condition, fields: Mapping[int, int], now_s: float) -> Condition:
    action = fields.get(ACTION)
    reset = condition.action in RESETS and action == 0
    condition = attrs.evolve(
        condition,
        told=tuple(one for one in field_findings(fields) if not one.permanent),
        plight=None,
        refusals=0,
        action=action,
        ailments=tuple(
            one for one in condition.ailments if not _is_cured(one, action, now_s, reset=reset)
        ),
    )
    if fields.get(REMAP_FAILURE):
        for one in field_findings(fields):
            if one.permanent:
                condition = _with(condition, condition.subject, one, now_s)
    return (
        _unconfirmed(condition, now_s) if action is None else attrs.evolve(condition, suspects=())
    )


def _is_cured(one: Ailment, action: int | None, now_s: float, *, reset: bool) -> bool:
    if one.cure is Cure.ACTION:
        return action == 0 and now_s - one.last_s >= ASKS_S[-1]
    return one.cure is Cure.TIME and (reset or now_s - one.last_s >= AN_HOUR_S)


def _unconfirmed(condition: Condition, now_s: float) -> Condition:
    """Nobody can say what is behind the suspects, so each counts as what it is without."""
    for suspect in condition.suspects:
        finding = xid_finding(suspect.code, class_unasked(suspect.code))
        if finding is not None:
            condition = _with(condition, suspect.subject, finding, now_s)
    return attrs.evolve(condition, suspects=())


def silent(condition: Condition, *, deadline_s: float) -> Condition:
    """The condition of a GPU that does not answer, by its own fault as far as one can see.

    Args:
        deadline_s: How long it was waited for.
    """
    return attrs.evolve(condition, plight=silence_finding(deadline_s))


def rebound(condition: Condition) -> Condition:
    """The condition when a driver was bound anew: what needs no person is cured."""
    left = tuple(one for one in condition.ailments if one.cure is Cure.PERSON)
    return attrs.evolve(
        condition, ailments=left, suspects=(), told=(), plight=None, refusals=0, asks=()
    )


def taken_up(
    condition: Condition, standing: Mapping[str, Sequence[Finding]], *, now_s: float
) -> Condition:
    """The condition at the start of a process, by what stands from the last one.

    How old an ailment is nobody knows, so its time begins anew. What an answer had told stands
    until the first one now.
    """
    for subject, findings in standing.items():
        for finding in findings:
            if _is_ailment(finding):
                condition = _with(condition, subject, finding, now_s)
    told = [one for one in standing.get(condition.subject, ()) if not _is_ailment(one)]
    return attrs.evolve(condition, told=(*condition.told, *told))


def _is_ailment(finding: Finding) -> bool:
    return finding.permanent or finding.code in EVENT_CODES or finding.code.startswith("xid-")


def let_stand(condition: Condition, standing: Mapping[str, Sequence[Finding]]) -> Condition:
    """The condition when a person may have cleared something: what stands no more is cured.

    Args:
        standing: What stands against each subject, after all of this was reported.
    """
    left = tuple(
        one
        for one in condition.ailments
        if any(one.finding.code == other.code for other in standing.get(one.subject, ()))
    )
    return condition if left == condition.ailments else attrs.evolve(condition, ailments=left)
