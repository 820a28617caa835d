"""Series of devices that are gone: they stay for a while, so that their last change is still read.

Source: gpu-and-health.md §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

KEEP_S: Final = 3600.0
"""How long the series of a device outlive it, in seconds."""


class Departed:
    """Remembers when each device was last there."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def kept(self, present: Iterable[str], named: Iterable[str], now_s: float) -> Set[str]:
        """The devices whose series stay: those that are there, or were within `KEEP_S`.

        Args:
            present: Devices that are there now.
            named: Devices of which there are series; one that was never there stays as long from
                now on as one that goes now.
            now_s: On a clock that nobody sets.
        """
        for name in named:
            self._seen.setdefault(name, now_s)
        self._seen.update(dict.fromkeys(present, now_s))
        self._seen = {name: at for name, at in self._seen.items() if now_s - at < KEEP_S}
        return self._seen.keys()
