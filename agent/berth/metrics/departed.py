"""Series of devices that are gone: they stay for a while, so that their last change is still read.

Source: gpu-and-health.md §7.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from berth.model.meter import Figure

KEEP_S: Final = 3600.0
"""How long the series of a device outlive it, in seconds."""


class Departed:
    """Remembers when each device was last there."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def drop(
        self, present: Collection[str], figures: Collection[Figure[Any]], now_s: float
    ) -> None:
        """Drop series of devices that have been gone for `KEEP_S`.

        Args:
            present: Devices that are there now.
            figures: Those with a label ``device``.
            now_s: On a clock that nobody sets.
        """
        for figure in figures:
            place = figure.labels.index("device")
            for values in figure.series():
                self._seen.setdefault(values[place], now_s)
        self._seen.update(dict.fromkeys(present, now_s))
        kept = {name: at for name, at in self._seen.items() if now_s - at < KEEP_S}
        for figure in figures:
            _retain(figure, kept)
        self._seen = kept


def _retain(figure: Figure[Any], names: Collection[str]) -> None:
    place = figure.labels.index("device")
    figure.retain(lambda values: values[place] in names)
