"""Counters of one pool, as the small scheduler counts them.

The sum of what allocated devices draw on a counter is never more than its set has; a device draws
once, however many share it. Devices that draw on what their pool does not have make it invalid.

Source: KC §9.3; ``dynamic-resource-allocation/structured`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from berth.kube.quantity import parse_quantity

Json: TypeAlias = "Mapping[str, Any]"

Amounts: TypeAlias = "Mapping[tuple[str, str], Fraction]"
"""By counter set and counter."""


def stock_of(slices: Iterable[Json]) -> Amounts:
    """What the counter sets of a pool's slices have."""
    return {
        key: amount
        for item in slices
        for one in item["spec"].get("sharedCounters") or ()
        for key, amount in _amounts(one["name"], one).items()
    }


def drawn_by(device: Json) -> Amounts:
    """What a device draws while it is allocated."""
    return {
        key: amount
        for one in device.get("consumesCounters") or ()
        for key, amount in _amounts(one["counterSet"], one).items()
    }


def less(stock: Amounts, devices: Iterable[Json]) -> Amounts:
    """What is left; each device is to be given once."""
    left = dict(stock)
    for device in devices:
        for key, amount in drawn_by(device).items():
            left[key] = left.get(key, Fraction()) - amount
    return left


def covers(left: Amounts, device: Json) -> bool:
    """Whether what is left is enough for one more device."""
    return all(left.get(key, Fraction()) >= amount for key, amount in drawn_by(device).items())


def is_valid(slices: Iterable[Json]) -> bool:
    """Whether devices draw only on what their pool has."""
    slices = tuple(slices)
    known = stock_of(slices).keys()
    return all(
        drawn_by(device).keys() <= known
        for item in slices
        for device in item["spec"].get("devices") or ()
    )


def _amounts(name: str, one: Json) -> dict[tuple[str, str], Fraction]:
    return {
        (name, counter): parse_quantity(entry["value"])
        for counter, entry in one["counters"].items()
    }
