"""How strongly units are linked with each other (NVLink), counted in links.

Units of one device have no links with each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from berth.model.resource import Unit


def between(units: Iterable[Unit], others: Sequence[Unit]) -> int:
    """Give the links that lead from some units to others."""
    return sum(unit.links.get(other.device, 0) for unit in units for other in others)


def within(units: Sequence[Unit]) -> int:
    """Give the links among units."""
    return sum(between((unit,), units[:place]) for place, unit in enumerate(units))


def promise(units: Iterable[Unit], pool: Iterable[Unit], more: int) -> int:
    """Give the links that units could have with ``more`` of a pool, each with the best for it."""
    pool = tuple(pool)
    return sum(
        sum(heapq.nlargest(more, (unit.links.get(other.device, 0) for other in pool)))
        for unit in units
    )
