"""What is published: the devices of the inventory, with the taints of how they are.

A verdict comes to the slices without a look at the machine. A sick device stays in them with its
taint, so that the scheduler keeps its record of whoever has it.

Before every device was asked once nothing is published anew: each restart would say of all that
nobody knows how they are, and take it back a moment later.

Source: gpu-and-health.md §6.5, §6.6.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import trio

from berth.health.taints import Rules, taints_of
from berth.health.verdict import UNASKED, HealthState
from berth.model.device import Device
from berth.model.inventory import Inventory
from berth.runtime.latest import Latest

PATIENCE_S: Final = 5.0
"""How long after a start devices may take to answer for the first time."""


def judged(inventory: Inventory, state: HealthState, rules: Rules) -> Inventory:
    """The inventory whose devices have the taints of their verdicts, besides theirs."""
    return attrs.evolve(
        inventory, devices=tuple(_judged(one, state, rules) for one in inventory.devices)
    )


def _judged(device: Device, state: HealthState, rules: Rules) -> Device:
    taints = taints_of(state.of(device.name), rules)
    return attrs.evolve(device, taints=(*device.taints, *taints)) if taints else device


class Offered:
    """Keeps what is published at what was seen and how it is.

    Args:
        seen: What the machine has.
        state: How its devices are.

    Attributes:
        inventory: What is to be published; ``None`` before devices were asked.
        settled: Devices were asked, or time was up.
    """

    def __init__(self, seen: Latest[Inventory], state: Latest[HealthState], rules: Rules) -> None:
        self.inventory: Latest[Inventory | None] = Latest(None)
        self.settled = trio.Event()
        self._seen = seen
        self._state = state
        self._rules = rules

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow both until cancelled; started at once."""
        task_status.started()
        with trio.move_on_after(PATIENCE_S):
            await self._state.wait_value(self._is_asked)
        self.settled.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, self._seen)
            nursery.start_soon(self._follow, self._state)

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self.inventory.set(judged(self._seen.get(), self._state.get(), self._rules))

    def _is_asked(self, state: HealthState) -> bool:
        """Whether of every device more is known than that nobody has asked it yet."""
        names = (device.name for device in self._seen.get().devices)
        return all(state.of(name).reason != UNASKED.reason for name in names)
