"""The node names under which this machine published, so that a renamed node leaves nothing behind.

One small file in the state folder. Nothing depends on it but the clean-up, so a file that cannot
be used is set aside, and a state folder that cannot be written costs a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from berth.errors import HostError
from berth.runtime.files import Folder
from berth.runtime.logs import get_log

FILE: Final = "node.json"
SCHEMA: Final = 1

_LIMIT: Final = 64 * 1024
_log = get_log(__name__)


class NodeHistory:
    """The names on disk.

    Args:
        folder: The state folder.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def read(self) -> tuple[str, ...]:
        """Give the names, sorted; none when there is no usable file."""
        try:
            data = await self._folder.read(FILE, limit=_LIMIT)
            names = () if data is None else _parse(data)
            if names is None:
                aside = await self._folder.quarantine(FILE)
                _log.warning(
                    "names of former nodes are unreadable, their slices may stay",
                    path=self._folder.path / FILE,
                    kept_as=aside,
                )
                names = ()
        except HostError as error:
            _log.warning("names of former nodes are lost, their slices may stay", reason=error)
            return ()
        return names

    async def write(self, names: Iterable[str]) -> None:
        """Put these names in the place of the last ones."""
        text = json.dumps({"schema": SCHEMA, "names": sorted(names)})
        try:
            await self._folder.make()
            await self._folder.write(FILE, text.encode())
        except HostError as error:
            _log.warning("the node's name is not noted down", reason=error)


def _parse(data: bytes) -> tuple[str, ...] | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return None
    names = value.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return None
    return tuple(sorted(names))
