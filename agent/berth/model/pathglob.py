"""Patterns of paths, and what their wildcards took.

``*``, ``?`` and ``[…]`` mean what they mean in a shell and never a slash; each of them is a
wildcard, counted from 1, whose text other settings may use. A star takes as little as it can, the
last one of a component the rest, so that every pattern takes a name in one way only and no name
can make the search long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import attrs

WILDCARDS_LIMIT: Final = 9
"""Most wildcards of a pattern: a place for one is written with one digit."""

PATH_LIMIT: Final = 4095
"""Longest path, in bytes (``PATH_MAX`` less the terminator)."""

_SIGN: Final = re.compile(r"\[[!^]?\]?[^\]]*\]|.", re.DOTALL)


@attrs.frozen
class PathGlob:
    """Paths that fit a pattern.

    Attributes:
        text: Absolute; `is_path_glob` holds for it.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def wildcards(self) -> int:
        """How many wildcards it has."""
        return sum(_is_wildcard(sign) for sign in _SIGN.findall(self.text))

    @property
    def components(self) -> tuple[str, ...]:
        """What stands between the slashes."""
        return tuple(self.text.split("/")[1:])

    def fits(self, path: str) -> tuple[str, ...] | None:
        """What each wildcard took of a path; ``None`` when the path does not fit."""
        names = path.split("/")[1:]
        if not path.startswith("/") or len(names) != len(self.components):
            return None
        taken: list[str] = []
        for pattern, name in zip(self.components, names, strict=True):
            found = component_fits(pattern, name)
            if found is None:
                return None
            taken.extend(found)
        return tuple(taken)


def component_fits(pattern: str, name: str) -> tuple[str, ...] | None:
    """What the wildcards of one component took of a name; ``None`` when it does not fit."""
    compiled = _compiled(pattern)
    match = compiled.fullmatch(name)
    if match is None:
        return None
    outer = set(compiled.groupindex.values())
    return tuple(text for number, text in enumerate(match.groups(), 1) if number not in outer)


def has_wildcards(component: str) -> bool:
    """Whether a component can fit more than one name."""
    return any(_is_wildcard(sign) for sign in _SIGN.findall(component))


def is_path_glob(text: str) -> bool:
    """Whether ``text`` is a pattern of absolute paths, without ``..`` and ``**``."""
    components = text.split("/")
    if not text.isprintable() or len(text.encode()) > PATH_LIMIT or components[0] != "":
        return False
    return len(components) > 1 and all(map(_is_component, components[1:]))


def _is_component(text: str) -> bool:
    if text in {"", ".", ".."} or "**" in text:
        return False
    try:
        _compiled(text)
    except re.error:
        return False
    return "[" not in _SIGN.findall(text)


def _is_wildcard(sign: str) -> bool:
    return sign in {"*", "?"} or len(sign) > 1


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A component as an expression with a group for each wildcard.

    The search for what follows a star is done in a lookahead and then taken as found, which is how
    an expression is kept from trying all ways (``fnmatch`` does the same).
    """
    parts = [""]
    for sign in _SIGN.findall(pattern):
        if sign == "*":
            parts.append("")
        else:
            parts[-1] += _expression(sign)
    return re.compile("".join(_joined(parts)), re.DOTALL)


def _joined(parts: list[str]) -> Iterator[str]:
    yield parts[0]
    for number, part in enumerate(parts[1:-1]):
        yield f"(?=(?P<g{number}>(.*?){part}))(?P=g{number})"
    if len(parts) > 1:
        yield f"(.*){parts[-1]}"


def _expression(sign: str) -> str:
    if sign == "?":
        return "(.)"
    if len(sign) == 1:
        return re.escape(sign)
    inside = sign[1:-1]
    negated = inside[0] in "!^"
    members = re.findall(r".-.|.", inside[negated:], re.DOTALL)
    listed = "".join(
        f"{re.escape(m[0])}-{re.escape(m[2])}" if len(m) > 1 else re.escape(m) for m in members
    )
    return f"([{'^' if negated else ''}{listed}])"
