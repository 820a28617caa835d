"""Kubernetes quantities: text to an exact number and back to the server's canonical form.

Source: ``apimachinery/pkg/api/resource/quantity.go`` (1.37): a number is a signed decimal followed
by a decimal suffix, a binary suffix or a decimal exponent. The server stores what it was sent in
canonical form (``1024Mi`` comes back as ``1Gi``), so texts are compared by value, never as texts.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_TEXT: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?"
)

_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_NAMES: Final = {power: name for name, power in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_LENGTH_LIMIT: Final = 64
"""Longest text that is read, in characters; the longest sensible one has some twenty."""

_EXPONENT_LIMIT: Final = 64
"""Largest exponent that is read: more is an attack on memory, since the value is kept exactly."""


def parse_quantity(text: str) -> Fraction:
    """The exact value of ``text``; equal to an ``int`` where it is a whole number.

    Raises:
        ValueError: ``text`` is not a quantity.
    """
    number, suffix, exponent = _parts(text)
    if suffix in _BINARY:
        return Fraction(number) * (1 << _BINARY[suffix])
    power = int(exponent) if exponent else _DECIMAL[suffix]
    if abs(power) > _EXPONENT_LIMIT:
        raise ValueError(f"{text!r} has an exponent beyond {_EXPONENT_LIMIT}")
    return Fraction(number) * Fraction(10) ** power


def format_quantity(value: int) -> str:
    """A whole number as the server would write it: the largest suffix that divides it.

    A number that only powers of 1024 divide is written with a binary suffix, which people read
    better than ten digits: ``151397597184`` becomes ``141Gi``.
    """
    if value % 1000 and not value % 1024:
        return _with_suffix(value, base=1024, suffixes=tuple(_BINARY))
    return _with_suffix(value, base=1000, suffixes=("k", "M", "G", "T", "P", "E"))


def canonical_quantity(text: str) -> str:
    """What the server makes of ``text`` when it stores it.

    The kind of suffix stays as it was given, the number becomes a whole one by the largest suffix
    that allows it. A binary one below 1024 or with a fraction is given a decimal suffix. What is
    finer than ``1n`` is rounded up.

    Raises:
        ValueError: ``text`` is not a quantity.
    """
    value = parse_quantity(text)
    _, suffix, exponent = _parts(text)
    if suffix in _BINARY and value.denominator == 1 and abs(value) >= 1024:
        return _with_suffix(int(value), base=1024, suffixes=tuple(_BINARY))
    number, power = -((-value * 10**9) // 1), -9
    while number and number % 1000 == 0 and power < max(_DECIMAL.values()):
        number, power = number // 1000, power + 3
    if not number:
        return "0"
    if exponent:
        letter = "E" if "E" in text else "e"
        return f"{number}{letter}{power}" if power else str(number)
    return f"{number}{_NAMES[power]}"


def same_quantity(one: str, other: str) -> bool:
    """Whether two texts are the same amount; texts that are no quantities must be equal."""
    try:
        return parse_quantity(one) == parse_quantity(other)
    except ValueError:
        return one == other


def _parts(text: str) -> tuple[str, str, str]:
    """Number, suffix and exponent of ``text``, the latter two empty when absent."""
    match = _TEXT.fullmatch(text) if len(text) <= _LENGTH_LIMIT else None
    if match is None:
        raise ValueError(f"{text[:_LENGTH_LIMIT]!r} is not a quantity")
    return match[1], match[2] or "", match[3] or ""


def _with_suffix(value: int, *, base: int, suffixes: tuple[str, ...]) -> str:
    chosen = ""
    for suffix in suffixes:
        if value == 0 or value % base:
            break
        value //= base
        chosen = suffix
    return f"{value}{chosen}"
