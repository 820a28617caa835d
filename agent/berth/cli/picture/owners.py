"""Containers that have something of their own: their numbers, colours and names in the picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from berth.cli.picture.theme import COLOURS


@attrs.frozen(kw_only=True)
class Owner:
    """One container.

    Attributes:
        number: From 1, in the order of names.
        entry: The container, as the daemon tells of it.
    """

    number: int
    pod: str
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its full name, as devices tell it."""
        return f"{self.pod}/{self.entry['name']}"

    @property
    def colour(self) -> str:
        """Its colour; there are less of them than of numbers."""
        return COLOURS[(self.number - 1) % len(COLOURS)]


def has_something(container: Mapping[str, Any]) -> bool:
    """Whether a container has CPUs, memory or devices that not every other has too."""
    return bool(container["cpus"] or container["memory"] or container["devices"])


def owners_of(pods: Iterable[Mapping[str, Any]]) -> tuple[Owner, ...]:
    """Every container that has something, numbered."""
    found = [
        (f"{pod['namespace']}/{pod['name']}", container)
        for pod in pods
        for container in pod["containers"]
        if has_something(container)
    ]
    return tuple(
        Owner(number=number, pod=pod, entry=entry) for number, (pod, entry) in enumerate(found, 1)
    )
