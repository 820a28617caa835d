"""The field that a misspelt one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from berth.nic.config.fields import FIELDS, MEMBERS, join

_CUT: Final = 40
"""Characters of an unknown name that are compared; no field has as many."""


def nearest(name: str, path: str) -> str:
    """The field that is called so here or, by its whole path, elsewhere; else one alike here."""
    plain = _plain(name[:_CUT])
    spellings = _spellings(path)
    exact = spellings.get(plain) or _ELSEWHERE.get(plain)
    if exact:
        return exact
    close = difflib.get_close_matches(plain, spellings, n=1)
    return spellings[close[0]] if close else ""


def _spellings(path: str) -> Mapping[str, str]:
    spellings: dict[str, str] = {}
    for name, field in MEMBERS[path].items():
        others = () if field is None else field.known_as
        spellings |= {_plain(each): name for each in (*others, name)}
    return spellings


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _elsewhere() -> Mapping[str, str]:
    spellings: dict[str, str] = {}
    for path, members in MEMBERS.items():
        for name, member in members.items():
            if member is None:
                spellings.setdefault(_plain(name), join(path, name))
    for field in FIELDS:
        for name in (field.name, *field.known_as):
            spellings.setdefault(_plain(name), field.path)
    return spellings


_ELSEWHERE: Final = _elsewhere()
