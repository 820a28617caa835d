"""What is wrong in a document, where in it, and how the place is told.

A place is a tuple of steps from the top: table names, keys, and numbers of array items. It is told
as an operator would look for it: ``[nri] timeout_s``, ``[[nic.group]] 2 "fast": match.pf``.
Array items are counted from 1 in words and from 0 in steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs

Steps: TypeAlias = tuple["str | int", ...]
"""The way from the top of a document to a table, a key or an item."""

SHOWN_LIMIT: Final = 60
"""Longest excerpt of a value in a message, in characters."""

_FOUR_DIGITS: Final = 0xFFFF


@attrs.frozen(kw_only=True)
class Finding:
    """One fault or warning in a document, before it is known which file that came from.

    Attributes:
        steps: The place.
        found: What was found there, to follow the place in a sentence: ``is -3``.
        rule: What is allowed.
        mend: How to put it right.
        joint: What stands between the place and `found`.
    """

    steps: Steps
    found: str
    rule: str = ""
    mend: str = ""
    joint: str = " "


@attrs.frozen(kw_only=True)
class Spot:
    """Where a key or item stands in the text.

    Attributes:
        line: Counted from 1.
        text: A scalar value as it was written; empty for tables and arrays.
    """

    line: int
    text: str = ""


@attrs.frozen(kw_only=True)
class Cursor:
    """A place in a document that is being read, and the findings made so far.

    Attributes:
        findings: Shared by all cursors of one reading, in the order in which they were made.
        warnings: The same, for what is allowed and still worth a word.
        spots: What the scanner knows of the text; may lack any place.
    """

    steps: Steps = ()
    findings: list[Finding] = attrs.field(factory=list)
    warnings: list[Finding] = attrs.field(factory=list)
    spots: Mapping[Steps, Spot] = attrs.field(factory=dict)

    def at(self, *steps: str | int) -> Cursor:
        """The cursor for something below this place."""
        return attrs.evolve(self, steps=self.steps + steps)

    def at_fault(self) -> Iterator[str]:
        """The keys directly below this place that findings were made at or below."""
        depth = len(self.steps)
        for finding in self.findings:
            if finding.steps[:depth] == self.steps and len(finding.steps) > depth:
                yield str(finding.steps[depth])

    def say(self, found: str, *, rule: str = "", mend: str = "") -> None:
        """Note a finding at this place."""
        self.findings.append(Finding(steps=self.steps, found=found, rule=rule, mend=mend))

    def warn(self, found: str, *, rule: str = "", mend: str = "") -> None:
        """Note something at this place that is no fault."""
        self.warnings.append(Finding(steps=self.steps, found=found, rule=rule, mend=mend))

    def refuse(self, value: object, *, rule: str, mend: str = "") -> None:
        """Note that ``value``, which stands at this place, is not allowed."""
        self.say(f"{self.verb} {self.shown(value)}", rule=rule, mend=mend)

    @property
    def verb(self) -> str:
        """How a value is tied to its place in a sentence: a key *is*, a list *holds*."""
        return "holds" if self.steps and isinstance(self.steps[-1], int) else "is"

    def written(self, value: object) -> str:
        """The value that stands at this place, as it was written if that is known."""
        spot = self.spots.get(self.steps)
        return spot.text if spot and spot.text else toml_text(value)

    def shown(self, value: object) -> str:
        """The value for a message, in one line and cut; of a table only that it is one."""
        if isinstance(value, Mapping):
            return "a table"
        text = " ".join(self.written(value).split())
        return text if len(text) <= SHOWN_LIMIT else f"{text[: SHOWN_LIMIT - 1]}…"


def tell(steps: Steps, document: Mapping[str, Any]) -> str:
    """Name a place: its table, the item with its number and name, and the key.

    Args:
        steps: The place.
        document: The whole document, for names of items and to tell tables from values.
    """
    for end, step in enumerate(steps):
        item = lookup(steps[: end + 1], document)
        if isinstance(step, int) and isinstance(item, Mapping):
            name = item.get("name")
            named = f" {toml_text(name)}" if isinstance(name, str) and name else ""
            head = f"[[{_dotted(steps[:end])}]] {step + 1}{named}"
            tail = _dotted(steps[end + 1 :])
            return f"{head}: {tail}" if tail else head
    there = lookup(steps, document)
    if isinstance(there, Mapping) and len(steps) == 1:
        return f"[{steps[0]}]"
    if isinstance(there, list) and there and isinstance(there[0], Mapping):
        return f"[[{_dotted(steps)}]]"
    keys = [step for step in steps if isinstance(step, str)]
    return f"[{'.'.join(keys[:-1])}] {keys[-1]}" if len(keys) > 1 else "".join(keys)


def lookup(steps: Steps, document: Mapping[str, Any]) -> object:
    """What stands at a place, ``None`` where nothing does (TOML has no null)."""
    here: Any = document
    for step in steps:
        if isinstance(step, str):
            here = here.get(step) if isinstance(here, Mapping) else None
        else:
            here = here[step] if isinstance(here, Sequence) and step < len(here) else None
    return here


def toml_text(value: object) -> str:
    """A value in TOML's notation; ``""`` for an optional value that is not set."""
    if value is None:
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return toml_text(value.value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        # JSON leaves DEL, which TOML does not have, and what steers a terminal.
        return text if text.isprintable() else "".join(map(_sign, text))
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(toml_text(item) for item in value)}]"
    plain = isinstance(value, int | float | date | time)
    return str(value) if plain else toml_text(str(value))


def _sign(sign: str) -> str:
    """A character as TOML has it in quotes."""
    if sign.isprintable():
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) <= _FOUR_DIGITS else f"\\U{ord(sign):08x}"


def _dotted(steps: Steps) -> str:
    """Steps as a dotted key; items of inline arrays in brackets, counted from 0 as in JSON."""
    text = ""
    for position, step in enumerate(steps):
        if isinstance(step, str):
            text += f".{step}" if text else step
        elif position < len(steps) - 1:
            text += f"[{step}]"
    return text
