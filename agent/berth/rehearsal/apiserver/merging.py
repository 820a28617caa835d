"""How a patch changes an object: JSON merge patch, and server-side apply.

Apply is told by what each manager applied last: what it leaves away now and nobody else applied is
taken out, what it gives replaces what is there. Lists are whole, except those that have keys.

Source: RFC 7386; Kubernetes documentation, "Server-Side Apply"; ``listMapKey`` marks in
``k8s.io/api/resource/v1/types.go``. Left out: managers that wrote by update own nothing here, so a
conflict arises between appliers alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

LIST_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "devices": ("driver", "pool", "device", "shareID"),
    "conditions": ("type",),
    "reservedFor": ("uid",),
    "ownerReferences": ("uid",),
}
"""Lists whose items are merged by these members; only in claims and metadata, never in slices."""


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` after a JSON merge patch; neither argument is changed."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def apply(
    live: Mapping[str, Any],
    applied: Mapping[str, Any],
    before: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """``live`` after a manager applied ``applied``; no argument is changed.

    Args:
        live: The object as stored.
        applied: What the manager gives now.
        before: What it gave last time, empty at the first.
        others: What other managers applied last.
    """
    kept = set(paths(applied)).union(*map(paths, others))
    result = copy.deepcopy(dict(live))
    for path in sorted(set(paths(before)) - kept, key=len, reverse=True):
        _remove(result, path)
    merged: dict[str, Any] = _overlay(result, applied)
    return merged


def conflicts(
    live: Mapping[str, Any], applied: Mapping[str, Any], other: Mapping[str, Any]
) -> list[str]:
    """Paths that ``other`` applied, and that ``applied`` would change."""
    owned = set(paths(other))
    return [
        _shown(path)
        for path in paths(applied)
        if path in owned
        and not isinstance(path[-1], tuple)
        and _value(live, path) != _value(applied, path)
    ]


_Path = tuple[Any, ...]


def paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Every place of ``value`` that has an owner: leaves, whole lists, items of keyed lists."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _item_paths(key, item, (*path, key))
    elif path and not isinstance(path[-1], tuple):
        yield path


def _item_paths(key: str, item: Any, path: _Path) -> Iterator[_Path]:
    if key in LIST_KEYS and isinstance(item, list):
        for entry in item:
            place = (*path, _key_of(key, entry))
            yield place
            # The members that make the key go with the item, and with it alone.
            rest = {name: part for name, part in entry.items() if name not in LIST_KEYS[key]}
            yield from paths(rest, place)
    else:
        yield from paths(item, path)


def _key_of(key: str, entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(member) for member in LIST_KEYS[key])


def _overlay(target: Any, patch: Any, key: str = "") -> Any:
    if isinstance(patch, Mapping):
        result = dict(target) if isinstance(target, Mapping) else {}
        for name, value in patch.items():
            result[name] = _overlay(result.get(name), value, name)
        return result
    if key in LIST_KEYS and isinstance(patch, list):
        merged = {_key_of(key, entry): entry for entry in target or []}
        for entry in patch:
            place = _key_of(key, entry)
            merged[place] = _overlay(merged.get(place), entry)
        return list(merged.values())
    return copy.deepcopy(patch)


def _remove(holder: Any, path: _Path) -> None:
    """Take the place at ``path`` away, and the mappings and lists that are empty then."""
    head, rest = path[0], path[1:]
    if isinstance(head, tuple):
        return
    if not rest:
        holder.pop(head, None)
        return
    below = holder.get(head)
    if isinstance(below, list):
        _remove_item(below, head, rest)
    elif isinstance(below, dict):
        _remove(below, rest)
    if below is not None and not below:
        del holder[head]


def _remove_item(items: list[Any], key: str, path: _Path) -> None:
    for index, item in enumerate(items):
        if _key_of(key, item) == path[0]:
            if len(path) == 1:
                del items[index]
            else:
                _remove(item, path[1:])
            return


def _value(holder: Any, path: _Path) -> Any:
    for index, step in enumerate(path):
        if isinstance(step, tuple):
            found = [item for item in holder or [] if _key_of(path[index - 1], item) == step]
            holder = found[0] if found else None
        else:
            holder = holder.get(step) if isinstance(holder, Mapping) else None
    return holder


def _shown(path: _Path) -> str:
    return "".join(
        _shown_key(path[index - 1], step) if isinstance(step, tuple) else f".{step}"
        for index, step in enumerate(path)
    )


def _shown_key(key: str, step: tuple[Any, ...]) -> str:
    members = sorted(zip(LIST_KEYS[key], step, strict=True))
    given = ",".join(f"{name}={json.dumps(part)}" for name, part in members if part is not None)
    return f"[{given}]"
