"""How every device of the node is: sources report here, and every reader is told the same verdict.

Sources report at any time and wait for nothing. One task folds what came in since it last ran, has
it written down, and tells; it sleeps until something is reported, or until a verdict expires or a
cause has healed. What is decided by time is decided by a clock that nobody sets.

Source: gpu-and-health.md §6.1, §6.4, §6.5.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import trio

from berth.errors import BerthError, ClaimError
from berth.health.cases import Cases, Watched
from berth.health.changes import Changes
from berth.health.course import CAUSE_LIMIT, Cause, Course, Moment
from berth.health.finding import OPERATOR, Finding, Severity
from berth.health.reports import Prober
from berth.health.terms import Terms
from berth.health.verdict import UNASKED, HealthState, Status, Verdict
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.node.health.file import HealthFile
from berth.node.health.journal import HealthJournal
from berth.node.health.words import Words
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log

ASK_S: Final = 2.0
"""Longest that prepare waits for a device to be asked."""

CONFIRM_S: Final = 1.0
"""That verdicts hold still is told no more often: nobody has to do anything about it at once."""

PATIENCE_S: Final = 0.05
"""Longest that telling waits for the disk: readers are to know within 100 ms (GH §6.6)."""

PACE_S: Final = 0.05
"""While the disk rests after a write: least time between two tellings, so that what many devices
report in one moment is told as one."""

_log = get_log(__name__)


class Watching(Protocol):
    """The settings of now: by which times each device is watched."""

    def of_peripheral(self, one: Peripheral, /) -> Terms:
        """Those of a device that stays where it is."""
        ...

    def of_nic(self, nic: Nic, /) -> Terms:
        """Those of a NIC."""
        ...


class Health:
    """The owner of all that is known of health; what sources report to (`health.reports.Reports`).

    Args:
        inventory: Which devices there are.
        terms: How they are watched.
        file: Where causes outlive the process; ``None`` to keep nothing.
        wall: The clock on the wall, for texts.
        patience_s: Longest that telling waits for the disk.

    Attributes:
        state: The verdict on every device; set once however much was reported at one moment.
        changes: How often verdicts changed, and how long readers took.
    """

    def __init__(
        self,
        *,
        inventory: Latest[Inventory],
        terms: Latest[Watching],
        file: HealthFile | None = None,
        wall: Callable[[], float] = time.time,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.state: Latest[HealthState] = Latest(HealthState())
        self.changes = Changes()
        self._inventory = inventory
        self._terms = terms
        self._file = file
        self._wall = wall
        self._patience_s = patience_s
        self._cases = Cases()
        self._journal = HealthJournal()
        self._holders: Mapping[str, tuple[str, ...]] = {}
        self._words = Words(self)
        self._probers: list[Prober] = [self._words]
        self._stirred = trio.Event()
        self._again_s = self._late_s = math.inf
        self._told_s = -math.inf

    @property
    def courses(self) -> Mapping[str, Course]:
        """What is known of every subject, for views."""
        return self._cases.courses

    def courses_of(self, name: str) -> tuple[tuple[str, Course], ...]:
        """What a device's verdict comes from, by subject; nothing where no device is so called."""
        return self._cases.courses_of(name) if name in self._cases.devices else ()

    def add_prober(self, prober: Prober) -> None:
        """Ask this source as well when somebody needs to know now."""
        self._probers.append(prober)

    def report(
        self, subject: str, source: str, findings: Iterable[Finding], *, asked: bool = True
    ) -> None:
        """See `Reports`."""
        self._cases.report(subject, source, findings, asked=asked, at=self._now())
        self._stirred.set()

    def expect(self, subject: str, source: str) -> None:
        """See `Reports`."""
        self._cases.expect(subject, source, at=self._now())
        self._stirred.set()

    def unasked(self, subject: str, source: str, why: str) -> None:
        """See `Reports`."""
        self._cases.unasked(subject, source, why, at=self._now())
        self._stirred.set()

    def retire(self, subject: str, source: str) -> None:
        """See `Reports`."""
        self._cases.retire(subject, source, at=self._now())
        self._stirred.set()

    def standing(self, subject: str, source: str) -> tuple[Finding, ...]:
        """See `Reports`."""
        return self._cases.of(subject).standing(source)

    async def ask(self, name: str) -> Verdict:
        """The verdict on a device, for whoever is to have it now.

        Where nobody knows, the device is asked, for at most `ASK_S`; then it is as it is.
        """
        await trio.lowlevel.checkpoint()
        if self.verdict(name).status is Status.UNKNOWN:
            await self.probe_now(name)
        return self.verdict(name)

    def verdict(self, name: str) -> Verdict:
        """The verdict on a device by all that was reported until now."""
        verdict = self._cases.verdict(name, self._now())
        if self._cases.due_s < trio.current_time():
            # What has healed in this moment is news to others as well.
            self._stirred.set()
        return verdict or UNASKED

    def forget(self, subject: str) -> None:
        """Drop all that is known of a subject and its parts: another device is in its place."""
        self._cases.forget(subject)
        self._stirred.set()

    async def probe_now(self, name: str) -> None:
        """Have a device asked by everybody who can, for at most `ASK_S`; failures are logged."""
        await trio.lowlevel.checkpoint()
        subjects = [subject for subject, _ in self.courses_of(name)]
        with trio.move_on_after(ASK_S):
            async with trio.open_nursery() as nursery:
                for prober in self._probers:
                    for subject in subjects:
                        nursery.start_soon(_probe, prober, subject)

    async def set_by_operator(self, name: str, code: str, message: str) -> None:
        """Take a person's word against a device; it is on disk before it counts as said.

        Raises:
            ClaimError: No device is so called, or so much was said already that this would be lost.
            HostError: The disk refused; nothing has changed.
        """
        subject = self._subject(name)
        codes = {one.code for one in self.standing(subject, OPERATOR)}
        if len(codes - {code}) >= CAUSE_LIMIT:
            raise ClaimError(
                name,
                f"was taken out of service for {CAUSE_LIMIT} reasons already",
                mend=f"`berth health clear {name} REASON` drops one",
            )
        said = Finding(code=code, severity=Severity.FAULT, message=message)

        def say(cases: Cases) -> None:
            said_before = cases.of(subject).standing(OPERATOR)
            every = (*(one for one in said_before if one.code != code), said)
            cases.report(subject, OPERATOR, every, asked=False, at=self._now())

        await self._change(say)

    async def clear(self, name: str, code: str = "") -> tuple[str, ...]:
        """Drop what a person said against a device, or every cause of one code, whoever named it.

        Whoever named such a cause has to ask anew before the device counts as well. What was found
        against a whole is cleared there, for all its parts, unless no device is the whole.

        Returns:
            The codes that were dropped; empty when there was nothing to drop.

        Raises:
            ClaimError: No device is so called.
            HostError: The disk refused; nothing has changed.
        """
        self._subject(name)

        def drops(cause: Cause) -> bool:
            return cause.finding.code == code if code else cause.source == OPERATOR

        devices = {one.subject: called for called, one in self._cases.devices.items()}
        each = [
            (subject, course)
            for subject, course in self._cases.courses_of(name)
            if devices.get(subject, name) == name
        ]
        subjects = [subject for subject, course in each if any(map(drops, course.causes))]
        dropped = {c.finding.code for _, course in each for c in course.causes if drops(c)}

        def clear(cases: Cases) -> None:
            for subject in subjects:
                cases.clear(subject, drops, self._now())

        if subjects:
            await self._change(clear)
        return tuple(sorted(dropped))

    async def recall(self) -> None:
        """Take up what the life before left; before anybody is told anything."""
        if self._file is not None:
            self._cases = Cases(await self._file.recall(self._now()))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tell every change until cancelled; started when the first state is told."""
        async with trio.open_nursery() as nursery:
            for news in (self._inventory, self._terms):
                nursery.start_soon(self._follow, news, news.version)
            if self._file is not None:
                nursery.start_soon(self._file.run, lambda: self._cases.courses, self._now)
            self._survey()
            await self._tell()
            task_status.started()
            while True:
                with trio.move_on_at(min(self._cases.due_s, self._journal.due_s, self._late_s)):
                    await self._stirred.wait()
                await self._tell()

    async def _tell(self) -> None:
        """Fold what came, have it written, and tell it."""
        self._stirred = trio.Event()
        is_news = self._cases.fold(self._now())
        if self._file is not None and self._file.is_behind(self._cases.courses):
            await self._note_down(self._file)
        now = self._now()
        is_news = self._cases.fold(now) or is_news
        self._late_s = math.inf
        if is_news or self._again_s <= now.s:
            state = self._cases.state
            self.changes.changed(self.state.get(), state, now.s)
            self._told_s = now.s
            if self.state.set(state):
                self._again_s = now.s + CONFIRM_S
        else:
            self._late_s = self._again_s
        self._journal.tell(self.state.get(), self._holders, now_s=now.s)

    async def _note_down(self, file: HealthFile) -> None:
        """Have it written; where the disk is free what is told is on it first, if it is quick."""
        if file.rests:
            # The write is too far off to be waited for: nothing would come of it but a later word.
            file.want()
            await trio.sleep_until(self._told_s + PACE_S)
            return
        with trio.move_on_after(self._patience_s):
            await file.wait_tried()

    async def _change(self, change: Callable[[Cases], None]) -> None:
        """Change what is known on disk first, then in memory."""
        if self._file is not None:

            def changed() -> Mapping[str, Course]:
                cases = self._cases.copy()
                change(cases)
                return cases.courses

            await self._file.write(changed, self._now())
        change(self._cases)
        self._stirred.set()

    async def _follow(self, news: Latest[Any], version: int) -> None:
        while True:
            version = await news.wait_changed(version)
            self._survey()
            self._stirred.set()

    def _survey(self) -> None:
        """Take the devices and the surveys' words of now."""
        inventory, terms = self._inventory.get(), self._terms.get()
        self._cases.know(
            {
                **{
                    n.name: Watched(subject=n.identity, terms=terms.of_nic(n))
                    for n in inventory.nics
                },
                **{
                    one.name: Watched(subject=one.identity, terms=terms.of_peripheral(one))
                    for one in inventory.peripherals
                },
            }
        )
        self._holders = {one.name: one.held_by for one in inventory.every}
        self._words.see(inventory)

    def _subject(self, name: str) -> str:
        device = self._cases.devices.get(name)
        if device is None:
            raise ClaimError(name, "is no device of this node", mend="`berth devices` lists them")
        return device.subject

    def _now(self) -> Moment:
        return Moment(s=trio.current_time(), wall_s=int(self._wall()))


async def _probe(prober: Prober, subject: str) -> None:
    try:
        await prober.probe_now(subject)
    except BerthError as error:
        _log.warning("device not asked", subject=subject, reason=error)
