"""Tells the host's network managers which links berth lends out, by an empty file for each.

A rule of udev's looks for the file, and networkd and NetworkManager heed what the rule says: a
link that comes home is left as it was before it is offered again. The folder that counts lies in
``/run`` and outlives a stop of the daemon, since NICs may be away then. What means the same after a
reboot is kept with the state as well, where the rule looks too: managers are up before the daemon.

Where the package's folder is missing nobody would look, and nothing is done.

Source: network.md §8; ``systemd/79-berth.rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from berth.errors import HostError
from berth.host.udevtrigger import trigger_function, trigger_link
from berth.model.inventory import Inventory
from berth.nic.marks import index_of, marks
from berth.runtime.files import Folder
from berth.runtime.latest import Latest
from berth.runtime.logs import get_log
from berth.runtime.threads import run_in_thread

FOLDER: Final = Path("/run/berth-nics")
"""Where the rule looks; made by the package."""

KEPT: Final = "nics"
"""The folder below the state's."""

_log = get_log(__name__)


def tell_udev(mark: str) -> None:
    """Have the links judged anew that a mark is about; blocks."""
    index = index_of(mark)
    if index is None:
        trigger_function(mark)
    else:
        trigger_link(index)


class NicMarks:
    """Keeps the files.

    Args:
        inventory: What the machine has.
        kept: Where lasting ones are kept.
        folder: Where the rule looks.
        tell: Has a link judged anew; it blocks.
    """

    def __init__(
        self,
        inventory: Latest[Inventory],
        *,
        kept: Path,
        folder: Path = FOLDER,
        tell: Callable[[str], None] = tell_udev,
    ) -> None:
        self._inventory = inventory
        self._folder = Folder(folder, mode=0o644, durable=False)
        self._kept = Folder(kept)
        self._tell = tell
        self._refused = False

    async def run(self) -> None:
        """Keep them until cancelled."""
        if not self._folder.path.is_dir():
            _log.info("no network manager is told of NICs", missing=self._folder.path)
            return
        standing = await self._recall()
        async for inventory in self._inventory.changes():
            try:
                await self._settle(standing, marks(inventory, standing))
            except HostError as error:
                if not self._refused:
                    _log.warning("network managers may configure NICs that are lent", reason=error)
                self._refused = True
            else:
                self._refused = False

    async def _recall(self) -> set[str]:
        """Those of the life before: of this boot, and of the last one."""
        try:
            await self._kept.make()
            standing = {*await self._folder.names()}
            for mark in {*await self._kept.names()} - standing:
                await self._folder.write(mark, b"")
                standing.add(mark)
        except HostError as error:
            _log.warning("marks of lent NICs are made anew", reason=error)
            return set()
        return standing

    async def _settle(self, standing: set[str], due: Collection[str]) -> None:
        for mark in sorted({*due} - standing):
            if index_of(mark) is None:
                await self._kept.write(mark, b"")
            await self._folder.write(mark, b"")
            standing.add(mark)
            await run_in_thread("files", self._tell, mark)
        for mark in sorted(standing - {*due}):
            await self._kept.remove(mark)
            await self._folder.remove(mark)
            standing.remove(mark)
            await run_in_thread("files", self._tell, mark)
