"""What is published: the devices of the inventory, with the taints of how they are.

A verdict comes to the slices without a look at the machine. A sick device stays in them with its
taint, so that the scheduler keeps its record of whoever has it. Where the server takes no taints,
one that no claim has leaves them instead: the scheduler would try it first for every pod, and each
would be refused.

Before every device was asked once nothing is published anew: each restart would say of all that
nobody knows how they are, and take it back a moment later. For the same reason a device that comes
later is published when it was asked, and one that has to be asked anew stays as it was until it
has, for a few seconds each. Where a device that nobody could ask is given to nobody, that is told
at once.

Source: gpu-and-health.md §6.5, §6.6.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import attrs
import trio

from berth.health.taints import HEALTH_WORDS, TELLS, Rules, taints_of
from berth.health.verdict import UNASKED, HealthState
from berth.model.device import RESTORE_FAILED, Device, Taint
from berth.model.inventory import Inventory
from berth.node.health.inquiry import PATIENCE_S, Inquiry
from berth.node.holders.equipment import HELD
from berth.runtime.latest import Latest


def judged(
    inventory: Inventory,
    state: HealthState,
    rules: Rules,
    *,
    waiting: Collection[str] = (),
    before: Inventory | None = None,
) -> Inventory:
    """The inventory whose devices have the taints of their verdicts, besides or instead of theirs.

    Args:
        waiting: Names of devices whose first answer is waited for.
        before: What was published before: those stay as they were in it, or out.
    """
    told = _told(before, rules)

    def judge(device: Device) -> Device:
        is_waiting = device.name in waiting
        health = told[device.name] if is_waiting else taints_of(state.of(device.name), rules)
        keys = {taint.key for taint in health}
        taints = (*(one for one in device.taints if one.key not in keys), *health)
        if not taints:
            return device
        return attrs.evolve(device, taints=taints, claimed=_is_claimed(device, inventory))

    devices = (one for one in inventory.devices if one.name not in waiting or one.name in told)
    return attrs.evolve(inventory, devices=tuple(map(judge, devices)))


def _told(before: Inventory | None, rules: Rules) -> Mapping[str, tuple[Taint, ...]]:
    """The taints of health that each published device has."""
    keys = {f"{rules.driver}/{word}" for word in HEALTH_WORDS}
    devices = before.devices if before is not None else ()
    return {one.name: tuple(t for t in one.taints if t.key in keys) for one in devices}


def _is_claimed(device: Device, inventory: Inventory) -> bool:
    """Whether a claim has it; who has it by the other door is told by a taint of its own."""
    nic = inventory.nic_by_name.get(device.name)
    held = nic or inventory.peripheral_by_name.get(device.name)
    if nic is not None and nic.exclusion is not None and nic.exclusion.reason == RESTORE_FAILED:
        return False
    by_plugin = any(taint.key.endswith(f"/{HELD}") for taint in device.taints)
    return held is not None and bool(held.held_by) and not by_plugin


class Marks(Protocol):
    """Whoever has more to say of devices on their way to the slices."""

    @property
    def news(self) -> tuple[Latest[Any], ...]:
        """What changes it."""
        ...

    async def wait_decided(self) -> None:
        """Wait until it is known; a start would else write devices twice."""
        ...

    def mark(self, inventory: Inventory) -> Inventory:
        """The inventory with what is said of its devices."""
        ...


class Offered:
    """Keeps what is published at what was seen and how it is.

    Args:
        seen: What the machine has.
        inquiry: Tells how its devices are.
        marks: Says more of them; ``None`` for nothing.

    Attributes:
        inventory: What is to be published; ``None`` before devices were asked, or time was up.
    """

    def __init__(
        self, seen: Latest[Inventory], inquiry: Inquiry, *, marks: Marks | None = None
    ) -> None:
        self.inventory: Latest[Inventory | None] = Latest(None)
        self._seen = seen
        self._inquiry = inquiry
        self._marks = marks
        self._unasked_s: Mapping[str, float] = {}
        self._stirred = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow both until cancelled; started at once."""
        task_status.started()
        await self._inquiry.wait_asked(lambda: (one.name for one in self._seen.get().devices))
        further: tuple[Latest[Any], ...] = ()
        if self._marks is not None:
            await self._marks.wait_decided()
            further = self._marks.news
        # Who has said nothing by now has had its time.
        self._unasked_s = dict.fromkeys(self._unasked(), -math.inf)
        async with trio.open_nursery() as nursery:
            followed: tuple[Latest[Any], ...] = (
                self._seen,
                self._inquiry.state,
                self._inquiry.settings,
                *further,
            )
            for news in followed:
                nursery.start_soon(self._follow, news)
            while True:
                with trio.move_on_at(self._offer(trio.current_time())):
                    await self._stirred.wait()
                self._stirred = trio.Event()

    async def _follow(self, news: Latest[Any]) -> None:
        async for _ in news.changes():
            self._stirred.set()

    def _offer(self, now_s: float) -> float:
        """Publish what is to be published now; gives when to look again if nothing changes."""
        self._unasked_s = {name: self._unasked_s.get(name, now_s) for name in self._unasked()}
        rules, until_s = self._inquiry.rules, {}
        if rules.unknown_effect == TELLS:
            until_s = {name: since_s + PATIENCE_S for name, since_s in self._unasked_s.items()}
        waiting = {name for name, limit_s in until_s.items() if limit_s > now_s}
        seen, state, before = self._seen.get(), self._inquiry.state.get(), self.inventory.get()
        found = judged(seen, state, rules, waiting=waiting, before=before)
        self.inventory.set(found if self._marks is None else self._marks.mark(found))
        return min((until_s[name] for name in waiting), default=math.inf)

    def _unasked(self) -> Collection[str]:
        """Names of devices that nobody has asked yet, against which nothing is known."""
        state = self._inquiry.state.get()
        names = (device.name for device in self._seen.get().devices)
        return {name for name in names if state.of(name).reason == UNASKED.reason}
