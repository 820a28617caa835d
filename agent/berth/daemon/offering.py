"""Offers free NICs only while the runtime would have us move them.

While NRI is away a pod would start without its NIC, so none is offered then; claims that are
prepared in between wait. A short gap is waited out, as is the first moment after a start: slices
that come and go cost every scheduler in the cluster more than they tell.

Source: NC §10.11.
"""

from __future__ import annotations

import contextlib
from typing import Final, Protocol

import trio

from berth.errors import BerthError
from berth.model.device import Exclusion
from berth.node.claims.admission import CLOSED
from berth.nri.plugin import CONNECTING, PluginState
from berth.runtime.latest import Latest

PATIENCE_S: Final = 5.0
"""A runtime that restarts is back within it; its NICs need not leave the slices for that."""


class Closes(Protocol):
    """Who keeps the inventory."""

    def close(self, reason: Exclusion | None) -> None:
        """Offer no free NIC for a reason, or offer them again with ``None``."""
        ...

    async def look(self) -> object:
        """Look at the machine; what is told then knows of the last `close`."""
        ...


class Offering:
    """Closes and opens the inventory by the state of the NRI connection.

    Attributes:
        settled: Whether the inventory was told for the first time; to publish before would be rash.
    """

    def __init__(self, nri: Latest[PluginState], inventory: Closes) -> None:
        self.settled = trio.Event()
        self._nri = nri
        self._inventory = inventory

    async def run(self) -> None:
        """Follow the connection until cancelled."""
        async for state in self._nri.changes():
            if not state.synchronized and await self._is_waited_out(state):
                continue
            await self._tell(self._nri.get())
            self.settled.set()

    async def _is_waited_out(self, state: PluginState) -> bool:
        """Whether something else is to be decided before it is to be told that we are away."""
        if not _is_hopeful(state):
            return False
        with trio.move_on_after(PATIENCE_S):
            await self._nri.wait_value(lambda now: not _is_hopeful(now))
            return True
        return False

    async def _tell(self, state: PluginState) -> None:
        if state.synchronized:
            self._inventory.close(None)
            return
        detail = f"NRI is not connected: {state.reason}"
        self._inventory.close(Exclusion(reason=CLOSED, detail=detail))
        # Whoever keeps the inventory has told of a look that failed.
        with contextlib.suppress(BerthError):
            await self._inventory.look()


def _is_hopeful(state: PluginState) -> bool:
    """Whether the connection may be there in a moment: nothing has failed yet, or it was there."""
    return not state.synchronized and (state == CONNECTING or state.runtime is not None)
