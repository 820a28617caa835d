"""JSON from outside, read strictly enough to see what a lenient reader hides.

A key given twice is a fault of its author that every JSON reader resolves silently and differently.
Objects read here remember such keys, so that a strict decoder can name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""


class JsonObject(dict[str, Any]):
    """A JSON object that knows which of its keys were written more than once."""

    duplicates: tuple[str, ...] = ()


def loads(text: str | bytes) -> Any:
    """Read JSON; objects come back as `JsonObject`.

    Raises:
        ValueError: The text is not JSON, is nested too deep to be read, or holds ``NaN`` or an
            infinity, which JSON lacks.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def duplicates(value: object) -> tuple[str, ...]:
    """The keys that ``value`` was given more than once; empty for anything but a `JsonObject`."""
    return value.duplicates if isinstance(value, JsonObject) else ()


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    result = JsonObject(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        result.duplicates = tuple(sorted({key for key in keys if keys.count(key) > 1}))
    return result


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
