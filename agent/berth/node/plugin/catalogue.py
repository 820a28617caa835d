"""What the device plugin lists: kept at what the machine has, who holds it, and how it is.

Source: gpu-and-health.md §5.1, §6.5, §6.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import trio

from berth.model.inventory import Inventory
from berth.model.peripheral import Peripheral
from berth.model.resource import Resource
from berth.node.health.inquiry import Inquiry
from berth.node.ledger import Ledger
from berth.node.plugin import units
from berth.runtime.latest import Latest


class Files(Protocol):
    """Who keeps the CDI files; see `berth.node.plugin.cdifiles.PluginFiles`."""

    async def write(self, peripherals: Iterable[Peripheral]) -> None:
        """Write the files of those that may be given by them."""
        ...

    def id(self, one: Peripheral, id_: str) -> str:
        """The qualified name of an id."""
        ...


class Catalogue:
    """Lists resources.

    Args:
        inquiry: Tells how devices are; ``None`` where nobody judges them.

    Attributes:
        resources: Every resource with its units; one that became empty stays, with none.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        inventory: Latest[Inventory],
        files: Files,
        inquiry: Inquiry | None = None,
    ) -> None:
        self.resources: Latest[tuple[Resource, ...]] = Latest(())
        self._ledger = ledger
        self._inventory = inventory
        self._files = files
        self._inquiry = inquiry
        self._listed = Inventory()
        self._closed: frozenset[str] = frozenset()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the resources at what inventory and verdicts say, until cancelled.

        Started when they were listed once.
        """
        await self._list(self._inventory.get())
        async with trio.open_nursery() as nursery:
            if self._inquiry is not None:
                for news in (self._inquiry.state, self._inquiry.settings):
                    nursery.start_soon(self._follow_verdicts, self._inquiry, news)
            task_status.started()
            async for inventory in self._inventory.changes():
                await self._list(inventory)

    async def _list(self, inventory: Inventory) -> None:
        """List what is there, once the files of all that may be given are written."""
        await self._files.write(one for one in inventory.pluggable if one.door.opens_plugin)
        self._listed = inventory
        self._tell()

    async def _follow_verdicts(self, inquiry: Inquiry, news: Latest[Any]) -> None:
        """Tell at once what a verdict changes: nothing has to be looked at or written for it."""
        async for _ in news.changes():
            if inquiry.closed(self._listed) != self._closed:
                self._tell()

    def _tell(self) -> None:
        known = (one.name for one in self.resources.get())
        if self._inquiry is not None:
            self._closed = self._inquiry.closed(self._listed)
        self.resources.set(units.resources(self._listed, self._ledger, known, closed=self._closed))
