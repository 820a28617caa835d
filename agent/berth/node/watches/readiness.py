"""Asks devices whether they are ready, for as long as somebody waits for them.

A NIC's link is looked at when the kernel tells of links, and every few seconds since an event may
be lost. A command is run again and again, each time with its deadline. Of what nobody waits for
nothing is known.

Source: KC §9.2; gpu-and-health.md §6.2 for commands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import trio

from berth.config.bind import BindWhen, NicBind
from berth.errors import BerthError
from berth.generic.health import Answer as Said
from berth.generic.health import command_findings
from berth.host.commands import Launch, ask_program, start_program
from berth.host.netlink.link import Link
from berth.host.netlink.rtnl import Rtnl
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.readiness import Answer
from berth.nic.readiness import link_answer
from berth.node.watches.calls import Aside, in_thread
from berth.node.watches.commands import ENVIRONMENT, THREADS
from berth.node.watches.ears import hear_links
from berth.node.watches.nics import Hears
from berth.readiness.demands import Demands
from berth.runtime.latest import Latest
from berth.runtime.threads import thread_limiter

LOOK_S: Final = 5.0
"""From one look at a link to the next when nothing is heard of links."""

SPACING_S: Final = 0.5
"""Least time between two looks: a link that flaps is not told of more often."""

LIMIT: Final = 4
"""Most commands at once."""

_GONE: Final = Answer(ready=False, reason="Gone", message="it is not seen on this node")


@attrs.frozen(kw_only=True)
class _Question:
    """What is asked of one device; another one is asked anew.

    Attributes:
        index: Of the link that is looked at; 0 where it is nowhere.
        command: What is run instead, and its arguments; empty for a link.
    """

    index: int = 0
    command: tuple[str, ...] = ()
    interval_s: float = LOOK_S
    deadline_s: float = math.inf


def look_at_link(index: int) -> Link | None:
    """The link of that index on the host; blocks.

    Raises:
        HostError: The kernel refused.
        RemoteProtocolError: Its answer was malformed.
    """
    if not index:
        return None
    with Rtnl.home() as tables:
        return tables.link(index=index)


class ReadinessWatch:
    """Asks devices whether they are ready.

    Args:
        inventory: Which devices there are.
        commands: By identity of device nodes: their command, and its arguments.
        demands: What is asked of which devices.
        look: Looks at a link; it blocks.
        aside: Runs what blocks.
        hear: Tells what happens to links.
        launch: Starts programs.

    Attributes:
        answers: By slice name, what those say that somebody waits for.
    """

    def __init__(
        self,
        *,
        inventory: Latest[Inventory],
        commands: Latest[Mapping[str, tuple[str, ...]]],
        demands: Latest[Demands],
        look: Callable[[int], Link | None] = look_at_link,
        aside: Aside = in_thread,
        hear: Hears = hear_links,
        launch: Launch = start_program,
    ) -> None:
        self.answers: Latest[Mapping[str, Answer]] = Latest({})
        self._inventory = inventory
        self._commands = commands
        self._demands = demands
        self._look = look
        self._aside = aside
        self._hear = hear
        self._launch = launch
        self._wanted: dict[str, frozenset[str]] = {}
        self._asked: dict[str, tuple[_Question, trio.CancelScope]] = {}
        self._stirred = trio.Event()
        self._links_wanted = trio.Event()
        self._heard = trio.Event()
        self._places = trio.CapacityLimiter(LIMIT)

    def want(self, who: str, names: Iterable[str]) -> None:
        """Somebody waits for these devices from now on, and for no others.

        Args:
            who: A word for each who waits.
            names: By slice name.
        """
        wanted = frozenset(names)
        if wanted != self._wanted.get(who, frozenset()):
            self._wanted[who] = wanted
            if not wanted:
                del self._wanted[who]
            self._stirred.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask until cancelled; started at once."""
        async with trio.open_nursery() as nursery:
            for news in (self._inventory, self._commands, self._demands):
                nursery.start_soon(self._follow, news)
            nursery.start_soon(self._hear, self._links_wanted, self._heard_of_links)
            task_status.started()
            while True:
                await self._stirred.wait()
                self._stirred = trio.Event()
                self._settle(nursery)

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._stirred.set()

    def _heard_of_links(self, _: Iterable[object]) -> None:
        self._heard.set()
        self._heard = trio.Event()

    def _settle(self, nursery: trio.Nursery) -> None:
        """Ask what is to be asked now, and nothing else."""
        names = frozenset[str]().union(*self._wanted.values())
        questions = {name: self._question(name) for name in names}
        for name, (question, scope) in list(self._asked.items()):
            if questions.get(name) != question:
                scope.cancel()
                del self._asked[name]
        self._forget(names)
        for name, found in questions.items():
            if found is None:
                self._tell(name, _GONE)
            elif name not in self._asked:
                scope = trio.CancelScope()
                self._asked[name] = (found, scope)
                nursery.start_soon(self._keep_asking, name, found, scope)

    def _question(self, name: str) -> _Question | None:
        """What to ask a device; ``None`` for one that is not there, or that nothing is asked of."""
        inventory = self._inventory.get()
        one = inventory.seen(name)
        bind = self._demands.get().of_seen(one) if one is not None else None
        if one is None or bind is None:
            return None
        if bind.when is BindWhen.LINK_UP and isinstance(one, Nic):
            return _Question(index=one.ifindex)
        command = self._commands.get().get(one.identity, ())
        if isinstance(bind, NicBind) and isinstance(one, Nic):
            places = {"name": one.name, "ifname": one.ifname, "pci": one.pci}
            command = tuple(word.filled(places) for word in bind.command)
        if not command:
            return None
        return _Question(
            command=command, interval_s=bind.interval_s, deadline_s=float(bind.deadline_s)
        )

    async def _keep_asking(self, name: str, question: _Question, scope: trio.CancelScope) -> None:
        ask = self._ask_command if question.command else self._ask_link
        with scope:
            if not question.command:
                self._links_wanted.set()
            while True:
                heard = self._heard
                self._tell(name, await ask(question))
                await trio.sleep(min(SPACING_S, question.interval_s))
                with trio.move_on_after(question.interval_s - SPACING_S):
                    if question.command:
                        await trio.sleep_forever()
                    await heard.wait()

    async def _ask_link(self, question: _Question) -> Answer:
        try:
            return link_answer(await self._aside(partial(self._look, question.index)))
        except BerthError as error:
            return _unknown(str(error))

    async def _ask_command(self, question: _Question) -> Answer:
        program = question.command[0]
        async with self._places:
            try:
                ended = await ask_program(
                    question.command,
                    environment=ENVIRONMENT,
                    deadline_s=question.deadline_s,
                    limiter=thread_limiter("readiness", total=THREADS),
                    launch=self._launch,
                )
            except BerthError as error:
                return _unknown(str(error))
        said = Said(
            status=ended.status,
            late_s=question.deadline_s if ended.is_late else None,
            said=ended.said,
            complained=ended.complained,
        )
        found = command_findings(program, said, well="ready")
        if isinstance(found, str):
            return _unknown(found)
        if found:
            return Answer(ready=False, reason="CommandSaysNo", message=found[0].message)
        return Answer(ready=True, reason="CommandSaysYes", message=f"{program} says so")

    def _tell(self, name: str, answer: Answer) -> None:
        if any(name in names for names in self._wanted.values()):
            self.answers.set({**self.answers.get(), name: answer})

    def _forget(self, names: frozenset[str]) -> None:
        """Know nothing of what nobody waits for."""
        known = self.answers.get()
        self.answers.set({name: answer for name, answer in known.items() if name in names})


def _unknown(why: str) -> Answer:
    return Answer(ready=None, reason="Unknown", message=why)
