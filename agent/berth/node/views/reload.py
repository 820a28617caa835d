"""The answer to ``reload``: what another configuration changed, and what waits for a start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from berth.config.finding import toml_text
from berth.config.generic import GenericGroup
from berth.config.nic import NicGroup, NicTable
from berth.config.schema import Config

_Group: TypeAlias = "NicGroup | GenericGroup"


def reload_view(
    before: Config, after: Config, *, path: Path, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """What a reload that was not refused has done.

    Only ``[nic]`` takes effect at once; devices that are held keep their group until they are free.
    """
    return {
        "config": str(path),
        "applied": [*_nic_changes(before.nic, after.nic)],
        "at_next_start": [
            f"[{name}] {change}"
            for name, old, new in _members(before, after)
            if name not in {"nic", "generic"}
            for change in _changes(old, new)
        ]
        + [*_group_changes("generic", before.generic, after.generic)],
        "warnings": list(warnings),
    }


def _nic_changes(before: NicTable, after: NicTable) -> Iterator[str]:
    yield from (f"[nic] {change}" for change in _changes(before, after, but="groups"))
    yield from _group_changes("nic.group", before.groups, after.groups)


def _group_changes(header: str, before: Sequence[_Group], after: Sequence[_Group]) -> Iterator[str]:
    old = {group.name: group for group in before}
    new = {group.name: group for group in after}
    for name, group in new.items():
        if name not in old:
            yield f'[[{header}]] "{name}" is new'
        elif differing := [key for key, a, b in _members(old[name], group) if a != b]:
            yield f'[[{header}]] "{name}" has another {", ".join(differing)}'
    yield from (f'[[{header}]] "{name}" is gone' for name in old if name not in new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield f"[[{header}]] has another order"


def _changes(before: Any, after: Any, *, but: str = "") -> Iterator[str]:
    for name, old, new in _members(before, after):
        if name != but and old != new:
            yield f"{name} was {toml_text(old)}, is {toml_text(new)}"


def _members(before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    for name in attrs.fields_dict(type(before)):
        yield name, getattr(before, name), getattr(after, name)
