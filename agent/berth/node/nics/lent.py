"""Puts back what CNI plugins left changed of NICs that they brought home.

A CNI plugin moves a NIC that was lent to it when a pod's sandbox is made, and brings it home when
the sandbox ends; berth touches the link at neither time. Once it was away and has been home for a
while, the plugin has done what it does, and what still differs from how the NIC was is put back: a
pod has left it so, or the kernel brought the NIC home alone.

What was never seen away is left alone until nobody has it: its plugin may be at work on it.

Source: network.md §9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

import attrs
import trio

from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import nics_of
from berth.node.records.given import Given
from berth.node.records.shelf import Shelf
from berth.runtime.latest import Latest

SETTLED_S: Final = 5.0
"""How long a NIC is home before it is looked at."""


class PutsBack(Protocol):
    """Who puts NICs back; see `berth.node.nics.nics.Nics`."""

    async def put_back(self, uid: str, identity: str) -> None:
        """Put a lent NIC at home back as it was."""
        ...


@attrs.frozen(kw_only=True)
class Sight:
    """What was seen of one NIC that is lent.

    Attributes:
        away: It was not at home when it was looked at last.
        home_since_s: Since when it is home again; ``None`` while it is away, and once it was
            looked at.
    """

    away: bool = False
    home_since_s: float | None = None


def seen(before: Sight, *, at_home: bool, now_s: float) -> Sight:
    """What is known of a NIC after another look."""
    if not at_home:
        return Sight(away=True)
    return Sight(home_since_s=now_s) if before.away else before


class Lent:
    """Follows the NICs that are lent.

    Args:
        given: What the device plugin gave.
        inventory: What the machine has.
    """

    def __init__(
        self, given: Shelf[Given], *, inventory: Latest[Inventory], nics: PutsBack
    ) -> None:
        self._given = given
        self._inventory = inventory
        self._nics = nics
        # By holder and identity: a holder whose other NICs are given anew has fewer devices.
        self._sights: Mapping[tuple[str, str], Sight] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Put back what has come home, until cancelled."""
        task_status.started()
        while True:
            version = self._inventory.version
            self._look(trio.current_time())
            for uid, identity in self._due(trio.current_time()):
                self._sights = {**self._sights, (uid, identity): Sight()}
                await self._nics.put_back(uid, identity)
            with trio.move_on_at(self._next_s()):
                await self._inventory.wait_changed(version)

    def _look(self, now_s: float) -> None:
        here = self._inventory.get().nic_by_identity
        self._sights = {
            (one.uid, nic.identity): seen(
                self._sights.get((one.uid, nic.identity), Sight()),
                at_home=_is_here(nic, here),
                now_s=now_s,
            )
            for one in self._given.all()
            for _, nic in nics_of(one)
            if nic.stage is Stage.LENT and not one.revoked
        }

    def _due(self, now_s: float) -> list[tuple[str, str]]:
        return [key for key, sight in self._sights.items() if _due_s(sight) <= now_s]

    def _next_s(self) -> float:
        return min(map(_due_s, self._sights.values()), default=math.inf)


def _due_s(sight: Sight) -> float:
    return math.inf if sight.home_since_s is None else sight.home_since_s + SETTLED_S


def _is_here(nic: NicRecord, here: Mapping[str, Nic]) -> bool:
    known = here.get(nic.identity)
    return known is not None and known.ifindex != 0
