"""Bandwidth as operators write it: a whole number of bits per second with a decimal prefix."""

from __future__ import annotations

import re
from typing import Final

from berth.config.forms import Text

MEGABIT: Final = 1_000_000
"""The step in which bandwidth is given to claims, in bit/s (network.md §2.1)."""

_PREFIXES: Final = {"M": MEGABIT, "G": 1_000_000_000, "T": 1_000_000_000_000}


def _parse(text: str) -> int | None:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([MGT])", text)
    return int(found[1]) * _PREFIXES[found[2]] if found else None


def _hint(text: str) -> str:
    found = re.fullmatch(r"\s*([1-9][0-9]{0,5})\s*([mgtMGT])(?:bit|bps|bit/s|b/s|b)?\s*", text)
    return f'write "{found[1]}{found[2].upper()}"' if found else ""


BANDWIDTH: Final = Text(
    what='a whole number with M, G or T, in bit/s, such as "25G"', parse=_parse, hint=_hint
)
