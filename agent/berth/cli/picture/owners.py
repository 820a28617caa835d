"""Containers that have something of their own: their numbers, colours and names in the picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
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


@attrs.frozen(eq=False, slots=False)
class Owners:
    """All of them, found by what they have: a node can have thousands, and more devices."""

    all: tuple[Owner, ...]

    @cached_property
    def _by_name(self) -> Mapping[str, Owner]:
        return {owner.name: owner for owner in self.all}

    @cached_property
    def _by_cpu(self) -> Mapping[int, list[Owner]]:
        found: dict[int, list[Owner]] = {}
        for owner in self.all:
            for cpu in owner.entry["cpus"]:
                found.setdefault(cpu, []).append(owner)
        return found

    def of_device(self, device: Mapping[str, Any]) -> list[Owner]:
        """Who has a device, by number."""
        names = filter(self._by_name.__contains__, device["containers"])
        return sorted(map(self._by_name.__getitem__, names), key=lambda owner: owner.number)

    def of_cpu(self, cpu: int) -> Sequence[Owner]:
        """Who has a CPU, by number."""
        return self._by_cpu.get(cpu, ())


def has_something(container: Mapping[str, Any]) -> bool:
    """Whether a container has CPUs, memory or devices that not every other has too."""
    return bool(container["cpus"] or container["memory"] or container["devices"])


def owners_of(pods: Iterable[Mapping[str, Any]]) -> Owners:
    """Every container that has something, numbered."""
    found = [
        (f"{pod['namespace']}/{pod['name']}", container)
        for pod in pods
        for container in pod["containers"]
        if has_something(container)
    ]
    return Owners(
        tuple(
            Owner(number=number, pod=pod, entry=each) for number, (pod, each) in enumerate(found, 1)
        )
    )
