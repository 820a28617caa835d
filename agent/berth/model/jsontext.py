r"""JSON from outside, read strictly enough to see what a lenient reader hides.

A key given twice is a fault of its author that every JSON reader resolves silently and differently.
Objects read here remember such keys, so that a strict decoder can name them.

Half a surrogate pair (``"\ud800"``) is no text: it can be read, and then neither be written nor
sent. It becomes U+FFFD, as in Go, through which all else sees the same document.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""


_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


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
        return json.loads(whole(text), object_pairs_hook=_object, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def duplicates(value: object) -> tuple[str, ...]:
    """The keys that ``value`` was given more than once; empty for anything but a `JsonObject`."""
    return value.duplicates if isinstance(value, JsonObject) else ()


def whole(text: str | bytes) -> str:
    """JSON without half a surrogate pair in it, and without bytes that are no UTF-8."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _ESCAPE.sub(_whole, text)


def _whole(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape["half"] else escape[0]


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    result = JsonObject(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        result.duplicates = tuple(sorted(key for key, count in counts.items() if count > 1))
    return result


def refuse(word: str) -> float:
    """What ``NaN`` and the infinities are, as ``parse_constant``: they are none of JSON's.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"{word} is not JSON")
