"""What is published: the devices of the inventory, with the taints of how they are.

A verdict comes to the slices without a look at the machine. A sick device stays in them with its
taint, so that the scheduler keeps its record of whoever has it. Where the server takes no taints,
one that no claim has leaves them instead: the scheduler would try it first for every pod, and each
would be refused.

Before every device was asked once nothing is published anew: each restart would say of all that
nobody knows how they are, and take it back a moment later.

Source: gpu-and-health.md §6.5, §6.6.
"""

from __future__ import annotations

from typing import Any

import attrs
import trio

from berth.health.taints import Rules, taints_of
from berth.health.verdict import HealthState
from berth.model.device import Device
from berth.model.inventory import Inventory
from berth.node.equipment import HELD
from berth.node.inquiry import Inquiry
from berth.runtime.latest import Latest


def judged(inventory: Inventory, state: HealthState, rules: Rules) -> Inventory:
    """The inventory whose devices have the taints of their verdicts, besides theirs."""

    def judge(device: Device) -> Device:
        taints = (*device.taints, *taints_of(state.of(device.name), rules))
        if not taints:
            return device
        return attrs.evolve(device, taints=taints, claimed=_is_claimed(device, inventory))

    return attrs.evolve(inventory, devices=tuple(map(judge, inventory.devices)))


def _is_claimed(device: Device, inventory: Inventory) -> bool:
    """Whether somebody has it, and not by the other door, which has a taint of its own for that."""
    nic = inventory.nic_by_name.get(device.name)
    held = nic or inventory.peripheral_by_name.get(device.name)
    by_plugin = any(taint.key.endswith(f"/{HELD}") for taint in device.taints)
    return held is not None and bool(held.held_by) and not by_plugin


class Offered:
    """Keeps what is published at what was seen and how it is.

    Args:
        seen: What the machine has.
        inquiry: Tells how its devices are.

    Attributes:
        inventory: What is to be published; ``None`` before devices were asked, or time was up.
    """

    def __init__(self, seen: Latest[Inventory], inquiry: Inquiry) -> None:
        self.inventory: Latest[Inventory | None] = Latest(None)
        self._seen = seen
        self._inquiry = inquiry

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow both until cancelled; started at once."""
        task_status.started()
        await self._inquiry.wait_asked(lambda: (one.name for one in self._seen.get().devices))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, self._seen)
            nursery.start_soon(self._follow, self._inquiry.state)

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            state, rules = self._inquiry.state.get(), self._inquiry.rules
            self.inventory.set(judged(self._seen.get(), state, rules))
