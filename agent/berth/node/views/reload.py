"""The answer to ``reload``: what another configuration changed, and what waits for a start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from berth.config.finding import toml_text
from berth.config.health import HealthTable
from berth.config.schema import Config
from berth.model.device import by_kind

_GPU_AT_START: Final = frozenset({"enabled", "library", "session", "partition_type"})
# What the session with the driver is opened by, and what is told of all slices.


def reload_view(
    before: Config, after: Config, *, path: Path, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """What a reload that was not refused has done.

    Only tables of devices take effect at once; what is held keeps its group until it is free.
    """
    return {
        "config": str(path),
        "applied": [
            *(f"[nic] {change}" for change in _changes(before.nic, after.nic, but="groups")),
            *_group_changes("nic.group", before.nic.groups, after.nic.groups),
            *_group_changes("generic", before.generic, after.generic),
            *(
                f"[gpu] {change}"
                for change in _changes(before.gpu, after.gpu, but="groups")
                if change.partition(" ")[0] not in _GPU_AT_START
            ),
            *_group_changes("gpu.group", before.gpu.groups, after.gpu.groups),
            *_health_changes(before.health, after.health),
        ],
        "at_next_start": [
            f"[{name}] {change}"
            for name, old, new in _members(before, after)
            if name not in {"nic", "generic", "gpu", "health"}
            for change in _changes(old, new)
        ]
        + [
            f"[gpu] {change}"
            for change in _changes(before.gpu, after.gpu)
            if change.partition(" ")[0] in _GPU_AT_START
        ],
        "warnings": list(warnings),
    }


class _Group(Protocol):
    """A group of devices, of whatever table."""

    @property
    def name(self) -> str:
        """Its name in the table."""


def _group_changes(table: str, before: Iterable[_Group], after: Iterable[_Group]) -> Iterator[str]:
    old = {group.name: group for group in before}
    new = {group.name: group for group in after}
    for name, group in new.items():
        if name not in old:
            yield f'[[{table}]] "{name}" is new'
        elif differing := [key for key, a, b in _members(old[name], group) if _differ(a, b)]:
            yield f'[[{table}]] "{name}" has another {", ".join(differing)}'
    yield from (f'[[{table}]] "{name}" is gone' for name in old if name not in new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield f"[[{table}]] has another order"


def _health_changes(before: HealthTable, after: HealthTable) -> Iterator[str]:
    for name, old, new in _members(before, after):
        if name == "devices":
            yield from _group_changes("health.device", old, new)
        elif attrs.has(type(old)):
            yield from (f"[health.{name}] {change}" for change in _changes(old, new))
        elif old != new:
            yield f"[health] {name} was {toml_text(old)}, is {toml_text(new)}"


def _changes(before: Any, after: Any, *, but: str = "") -> Iterator[str]:
    for name, old, new in _members(before, after):
        if name != but and old != new:
            yield f"{name} was {toml_text(old)}, is {toml_text(new)}"


def _differ(old: Any, new: Any) -> bool:
    """Whether a key has changed; an attribute that was 1 and is true has."""
    return by_kind(old) != by_kind(new) if isinstance(old, Mapping) else bool(old != new)


def _members(before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    for name in attrs.fields_dict(type(before)):
        yield name, getattr(before, name), getattr(after, name)
