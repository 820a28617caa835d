"""Watches the GPUs of NVIDIA's driver: probes them, hears their events, asks after each XID.

Each GPU has a `Condition`, which is told all that comes in and says what speaks against the GPU and
its MIG parts. The GPU is what is probed; its parts are told along with it, and count as asked when
it is. At each probe the PCI bus is looked at as well: a GPU that fell off it is lost, whatever
NVML says or keeps silent about, and one whose driver was bound anew is as good as new.

NVML's owner keeps the deadline of each call, because it alone knows whether a GPU is silent by its
own fault or held up by another one. That of the rounds lies far behind it.

Source: gpu-and-health.md §2.4, §2.5, §6.2, §6.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from berth.config.xid import XidTable
from berth.gpu.condition import (
    answered,
    asking,
    heard,
    rebound,
    silent,
)
from berth.gpu.layout import Layout
from berth.gpu.told import OFF_THE_BUS, UNLISTED, session_finding
from berth.health.finding import Finding
from berth.health.reports import Reports
from berth.health.terms import Terms
from berth.host.nvml.silence import Silence, nameless
from berth.host.nvml.values import EventKind, NoAnswer, NvmlEvent, Probe, Refusal
from berth.model.inventory import Inventory
from berth.node.gpus.grip import Grip
from berth.node.gpus.nvml import Nvml, is_closed, probe_when_open
from berth.node.health.judge import Watching
from berth.node.health.rounds import Rounds, Unanswerable, Watched
from berth.node.watches.gpucases import SOURCE, GpuCases, GpuFigures, WatchedGpu
from berth.node.watches.vfio import Signs, bound_for_good
from berth.node.watches.xids import XidJournal
from berth.runtime.latest import Latest

BUS_S: Final = 1.0
"""Longest that a probe waits for the PCI bus; reading a function's first bytes takes microseconds.
"""

BACKSTOP_S: Final = 30.0
"""How far the deadline of the rounds lies behind that of the call: where the session is not held it
is opened and closed around each, which may take `WALK_S` and more."""

REOPEN_S: Final = 10.0
"""Longest that a probe waits for a session that is let go of; less where a verdict holds less."""


class Gpus(Protocol):
    """Who keeps the GPUs; see `berth.node.gpus.gpus.Gpus`."""

    @property
    def grip(self) -> Grip:
        """The session with the driver."""

    @property
    def layouts(self) -> Latest[tuple[Layout, ...]]:
        """The driver's GPUs and their parts."""

    def tell_events(self, hear: Callable[[NvmlEvent], None]) -> None:
        """Let somebody hear every event."""
        ...


class GpuWatch:
    """The source ``nvml``. It is a `health.reports.Prober`.

    Args:
        gpus: Who keeps the GPUs.
        inventory: What devices they come to.
        reports: Who is told.
        terms: By which times they are watched.
        xids: What XIDs mean.
        signs: Looks at a PCI function.
    """

    def __init__(
        self,
        gpus: Gpus,
        *,
        inventory: Latest[Inventory],
        reports: Reports,
        terms: Latest[Watching],
        xids: XidTable,
        signs: Signs,
    ) -> None:
        self.journal = XidJournal()
        self._gpus = gpus
        self._inventory = inventory
        self._terms = terms
        self._xids = xids
        self._signs = signs
        self._rounds = Rounds(reports, source=SOURCE)
        self._cases = GpuCases(reports)
        self._stirred = trio.Event()
        gpus.tell_events(self.hear)

    def figures(self) -> Mapping[str, GpuFigures]:
        """Figures of each GPU, by its identity."""
        return self._cases.figures()

    @property
    def rounds(self) -> Rounds:
        """Its probes, for their figures."""
        return self._rounds

    def reload(self, xids: XidTable) -> None:
        """Take other classes of XIDs; what was found by the old ones heals as ever."""
        self._xids = xids

    async def probe_now(self, subject: str) -> None:
        """See `Prober`; a part is asked with its GPU."""
        await self._rounds.probe_now(subject)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            self._watch()
            nursery.start_soon(self._follow, self._gpus.layouts)
            nursery.start_soon(self._follow, self._inventory)
            nursery.start_soon(self._follow, self._terms)
            await nursery.start(self._rounds.run)
            task_status.started()
            await self._ask_when_due()

    def hear(self, event: NvmlEvent) -> None:
        """Take an event; what it says is told before this returns."""
        now_s = trio.current_time()
        self.journal.note(event, self._xids.class_of(event.data), now_s=now_s)
        if event.address == "":
            # Events were lost, or this one names no GPU that is known: each is asked, none judged.
            event = NvmlEvent(kind=EventKind.OVERFLOW)
        for subject, one in tuple(self._cases.watched.items()):
            if event.kind is EventKind.OVERFLOW or event.address == one.layout.address:
                self._cases.change(
                    one, partial(heard, event=event, classes=self._xids, now_s=now_s)
                )
                if event.kind in {EventKind.OVERFLOW, EventKind.REGISTERED}:
                    self._rounds.probe_soon(subject)
        self._stirred.set()

    async def _follow(
        self, news: Latest[tuple[Layout, ...]] | Latest[Inventory] | Latest[Watching]
    ) -> None:
        version = news.version
        while True:
            version = await news.wait_changed(version)
            self._watch()

    def _watch(self) -> None:
        """Watch what is there now, and go on with what is known of it."""
        terms = self._terms_by_address()
        layouts = {one.subject: one for one in self._gpus.layouts.get() if one.address in terms}
        changed = self._cases.settle(layouts, terms)
        self._rounds.watch(
            {
                subject: Watched(
                    terms=attrs.evolve(
                        one.terms, deadline_s=one.terms.deadline_s + BUS_S + BACKSTOP_S
                    ),
                    probe=partial(self._probe, one),
                    mend="`berth status` shows the session with NVML",
                )
                for subject, one in self._cases.watched.items()
            },
            # Of all others NVML may still learn.
            of=bound_for_good(self._inventory.get()),
        )
        for subject in changed:
            # NVML may have learned of it just now, and it was refused before.
            self._rounds.probe_soon(subject)

    def _terms_by_address(self) -> Mapping[str, Terms]:
        """Of each GPU: those of whatever of it is to be asked most often."""
        found: dict[str, Terms] = {}
        for one in self._inventory.get().peripherals:
            if one.kind == "gpu":
                terms = self._terms.get().of_peripheral(one)
                other = found.get(one.path)
                if other is None or terms.interval_s < other.interval_s:
                    found[one.path] = terms
        return found

    async def _probe(self, one: WatchedGpu) -> Sequence[Finding] | Unanswerable:
        """Ask the GPU, and look at the bus meanwhile; what either says is told at once."""
        nvml = self._gpus.grip.nvml
        if nvml is None:
            await trio.lowlevel.checkpoint()
            return Unanswerable(why="the session with NVML is not open yet")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_at_bus, one)
            answer = await probe_when_open(
                nvml,
                one.layout.address,
                deadline_s=one.terms.deadline_s,
                within_s=min(REOPEN_S, one.terms.timeout_s / 3),
            )
            why = await self._take(one, answer, nvml)
        if not self._cases.is_watched(one):
            # What this one had is no word on the one that is there.
            return Unanswerable(why="another card has come into its place")
        if why:
            return Unanswerable(why=why)
        return one.condition.against(one.condition.subject, trio.current_time())

    async def _look_at_bus(self, one: WatchedGpu) -> None:
        sign = await self._signs(one.layout.address, BUS_S)
        if isinstance(sign, NoAnswer):
            return  # that says little, and if the GPU hangs NVML will be silent too
        gone = OFF_THE_BUS if sign.is_gone else None
        anew = one.binding and sign.binding and sign.binding != one.binding
        one.binding = sign.binding or one.binding
        if gone != one.condition.gone or anew:
            before = rebound if anew else lambda condition: condition
            self._cases.change(one, lambda condition: attrs.evolve(before(condition), gone=gone))

    async def _take(self, one: WatchedGpu, answer: Probe | Refusal | NoAnswer, nvml: Nvml) -> str:
        """Take the answer to a probe.

        Returns:
            Why it is none; empty when it is one.
        """
        if isinstance(answer, NoAnswer):
            return self._take_silence(one, (await nvml.silences()).get(one.layout.address))
        if is_closed(answer):
            finding = session_finding(nvml.session)
            if finding is None:
                return f"the session with NVML is {nvml.session.state.value}"
            self._cases.change(one, lambda condition: attrs.evolve(condition, plight=finding))
            return ""
        listed = not isinstance(answer, Refusal) or answer.code != UNLISTED
        silence = None if listed else nameless(await nvml.silences())
        if silence is not None:
            return self._take_silence(one, silence)
        self._cases.change(one, partial(answered, answer=answer, now_s=trio.current_time()))
        self._stirred.set()
        return "" if listed or one.condition.plight is not None else "NVML does not list it yet"

    def _take_silence(self, one: WatchedGpu, silence: Silence | None) -> str:
        if silence is Silence.STALLED:
            return "NVML is held up, most likely by another GPU (nvml-stalled)"
        if silence is None:
            return "NVML is busy with a longer question about it"
        self._cases.change(one, partial(silent, deadline_s=one.terms.deadline_s))
        return ""

    async def _ask_when_due(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                now_s = trio.current_time()
                for one in self._cases.watched.values():
                    if not one.asking and one.condition.next_ask_s <= now_s:
                        one.condition = asking(one.condition, now_s=now_s)
                        one.asking = True
                        nursery.start_soon(self._ask, one)
                waiting = [
                    o.condition.next_ask_s for o in self._cases.watched.values() if not o.asking
                ]
                with trio.move_on_at(min(waiting, default=math.inf)):
                    await self._stirred.wait()
                self._stirred = trio.Event()

    async def _ask(self, one: WatchedGpu) -> None:
        """Ask what a GPU needs after an event; whatever it says of itself counts."""
        nvml = self._gpus.grip.nvml
        try:
            if nvml is None:
                await trio.lowlevel.checkpoint()
                return
            answer = await nvml.classify(one.layout.address)
            self._cases.change(one, partial(answered, answer=answer, now_s=trio.current_time()))
        finally:
            one.asking = False
            self._stirred.set()
