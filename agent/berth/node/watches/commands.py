"""Asks the operator's commands how devices are.

A command has its deadline, after which it is killed, and that is its answer. The rounds have one
that comes later: what outlives the kill does not answer, and is not started again while it lives.
Until a command has answered for the first time nobody knows how its device is.

Source: gpu-and-health.md §6.1, §6.2.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from berth.errors import HostError
from berth.generic.health import Answer, command_findings
from berth.health.finding import Finding
from berth.health.reports import Reports
from berth.health.terms import Terms
from berth.host.commands import TERM_S, Launch, ask_program, start_program
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT
from berth.node.health.judge import Watching
from berth.node.health.rounds import Rounds, Unanswerable, Watched
from berth.runtime.latest import Latest
from berth.runtime.threads import thread_limiter

SOURCE: Final = "command"
"""Who tells it."""

LIMIT: Final = 4
"""Most commands at once, less those that cannot be killed (GH §6.2)."""

KILL_S: Final = TERM_S + 2.0
"""How long after its deadline a command may take to be gone."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
}
"""All that a command gets."""

THREADS: Final = 16
"""Most starts at once: one of a program on a file system that hangs keeps its thread."""

_OURS: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
# A machine that has no room for a process says nothing of the device.


class CommandWatch:
    """The watch over devices by commands.

    Args:
        inventory: Which devices there are.
        commands: By identity: the command, and its arguments.
        terms: How they are watched.
        launch: Starts programs; tests give another.

    Attributes:
        rounds: Its probes, for whoever wants one at once (`health.reports.Prober`).
    """

    def __init__(
        self,
        reports: Reports,
        *,
        inventory: Latest[Inventory],
        commands: Latest[Mapping[str, tuple[str, ...]]],
        terms: Latest[Watching],
        launch: Launch = start_program,
    ) -> None:
        self.rounds = Rounds(reports, source=SOURCE, limit=LIMIT)
        self._inventory = inventory
        self._commands = commands
        self._terms = terms
        self._launch = launch
        self._known: Mapping[str, tuple[str, ...]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            for news in (self._inventory, self._commands, self._terms):
                nursery.start_soon(self._follow, news)
            await nursery.start(self.rounds.run)
            task_status.started()

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._settle()

    def _settle(self) -> None:
        """Watch what there is now, and ask at once where the command is another."""
        terms, commands, before = self._terms.get(), self._commands.get(), self._known
        peripherals = self._inventory.get().peripherals
        devices = {
            one.identity: one
            for one in peripherals
            if one.identity in commands and one.exclusion is None and one.unhealthy != ABSENT
        }
        self._known = {identity: commands[identity] for identity in devices}
        self.rounds.watch(
            {
                identity: self._watched(identity, terms.of_peripheral(one))
                for identity, one in devices.items()
            },
            of=(one.identity for one in peripherals),
        )
        for identity, command in self._known.items():
            if before.get(identity, command) != command:
                self.rounds.probe_soon(identity)

    def _watched(self, identity: str, terms: Terms) -> Watched:
        return Watched(
            terms=attrs.evolve(terms, deadline_s=terms.deadline_s + KILL_S),
            probe=functools.partial(self._probe, identity, terms.deadline_s),
            mend=f"{self._known[identity][0]} cannot be killed, and is not started again before "
            "it ends; look at what it waits for in /proc",
        )

    async def _probe(self, identity: str, deadline_s: float) -> Sequence[Finding] | Unanswerable:
        command = self._known.get(identity)
        if command is None:
            # It went while its turn came; nobody hears the answer.
            return ()
        try:
            ended = await ask_program(
                command,
                environment=ENVIRONMENT,
                deadline_s=deadline_s,
                limiter=thread_limiter(SOURCE, total=THREADS),
                launch=self._launch,
            )
        except HostError as error:
            if error.errno in _OURS:
                return Unanswerable(why=str(error))
            raise
        answer = Answer(
            status=ended.status,
            late_s=deadline_s if ended.is_late else None,
            said=ended.said,
            complained=ended.complained,
        )
        found = command_findings(command[0], answer)
        return Unanswerable(why=found) if isinstance(found, str) else found
