"""Asks devices how they are, before they are given to somebody.

Source: gpu-and-health.md §6.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

import attrs
import trio

from berth.health.fold import REFUSED
from berth.health.taints import Rules, closes
from berth.health.verdict import UNASKED, HealthState, Verdict
from berth.model.inventory import Inventory
from berth.node.health.fitness import Fitness
from berth.runtime.latest import Latest

ASK_S: Final = 2.0
"""Longest that whoever wants a device is kept waiting for its answer."""

PATIENCE_S: Final = 5.0
"""How long after a start devices may take to answer for the first time."""

_UNHEARD: Final = frozenset({UNASKED.reason, REFUSED})


class Judges(Protocol):
    """Whoever judges devices; see `berth.node.health.judge.Health`."""

    @property
    def state(self) -> Latest[HealthState]:
        """How every device is."""
        ...

    async def ask(self, name: str) -> Verdict:
        """Have a device asked now, and give what is known of it then."""
        ...


class Inquiry:
    """What whoever gives devices away knows of them, and how more is learnt.

    Args:
        rules: What an operator lets verdicts do.

    Attributes:
        settings: The same, as it is set now.
    """

    def __init__(self, health: Judges, rules: Rules) -> None:
        self.state = health.state
        self.settings = Latest(rules)
        self._health = health

    @property
    def rules(self) -> Rules:
        """What an operator lets verdicts do now."""
        return self.settings.get()

    def fitness(self, answers: Mapping[str, Verdict] | None = None) -> Fitness:
        """How devices are now.

        Args:
            answers: What `ask` gave before.
        """
        return Fitness(state=self.state.get(), rules=self.rules, answers=answers or {})

    def closed(self, inventory: Inventory) -> frozenset[str]:
        """Names of devices that the device plugin lists as unhealthy."""
        state = self.state.get()
        return frozenset(
            one.name for one in inventory.pluggable if closes(state.of(one.name), self.rules)
        )

    async def ask(self, names: Iterable[str]) -> Mapping[str, Verdict]:
        """Ask devices, all at a time; of one that says nothing within `ASK_S`, what was known."""
        answers: dict[str, Verdict] = {}

        async def ask(name: str) -> None:
            answers[name] = await self._health.ask(name)

        wanted: Collection[str] = frozenset(names)
        with trio.move_on_after(ASK_S):
            async with trio.open_nursery() as nursery:
                for name in wanted:
                    nursery.start_soon(ask, name)
        return {name: answers.get(name, self.state.get().of(name)) for name in wanted}

    async def wait_asked(self, names: Callable[[], Iterable[str]]) -> None:
        """Wait until devices were asked, for `PATIENCE_S`; who cannot ask yet may in a moment.

        A start would else tell of each that nobody knows how it is, and take it back in a moment.

        Args:
            names: Gives those of now.
        """
        with trio.move_on_after(PATIENCE_S):
            await self.state.wait_value(
                lambda state: all(state.of(name).reason not in _UNHEARD for name in names())
            )

    async def require(self, names: Collection[str]) -> Fitness:
        """Refuse what is sick, and what is asked and says nothing.

        Raises:
            ClaimError: One of them is.
        """
        fitness = self.fitness()
        answers = await self.ask(name for name in names if fitness.is_unsure(name))
        fitness = attrs.evolve(self.fitness(), answers=answers)
        for name in names:
            fitness.require(name)
        return fitness
