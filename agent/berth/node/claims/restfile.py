"""Devices that rest after they were given up, in a file, so that a restart offers none too early.

One small file in the state folder. Nothing but a late taint depends on it, so one that cannot be
used is set aside, and a state folder that cannot be written costs a warning.

Source: GH §9, fault 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from berth.config.bind import REST_LIMIT_S
from berth.errors import HostError
from berth.runtime.files import Folder
from berth.runtime.logs import get_log

FILE: Final = "rests.json"
SCHEMA: Final = 1

_SIZE_LIMIT: Final = 4 * 1024 * 1024
_log = get_log(__name__)


class RestFile:
    """What is on disk.

    Args:
        folder: The state folder.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def read(self, now_s: float) -> Mapping[str, float]:
        """Give the devices that still rest, by slice name, and until when.

        Times are seconds since 1970 by the node's clock; none is farther away than a rest can
        be, whatever that clock was.
        """
        try:
            data = await self._folder.read(FILE, limit=_SIZE_LIMIT)
            until_s = {} if data is None else _parsed(data)
            if until_s is None:
                aside = await self._folder.quarantine(FILE)
                _log.warning(
                    "devices that rest are unreadable, they are offered again",
                    path=self._folder.path / FILE,
                    kept_as=aside,
                )
        except HostError as error:
            _log.warning("devices that rest are lost, they are offered again", reason=error)
            return {}
        most_s = now_s + REST_LIMIT_S
        return {name: min(at_s, most_s) for name, at_s in (until_s or {}).items() if at_s > now_s}

    async def write(self, until_s: Mapping[str, float]) -> None:
        """Put these in the place of the last ones."""
        text = json.dumps({"schema": SCHEMA, "until": dict(sorted(until_s.items()))})
        try:
            await self._folder.make()
            await self._folder.write(FILE, text.encode())
        except HostError as error:
            _log.warning("a restart would offer devices that rest", reason=error)


def _parsed(data: bytes) -> Mapping[str, float] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return None
    until_s = value.get("until")
    if not isinstance(until_s, dict):
        return None
    times = until_s.values()
    return until_s if all(type(at_s) in {int, float} for at_s in times) else None
