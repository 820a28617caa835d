"""Faults found in a configuration, told all at once and in a bounded amount.

A claim's author is a tenant, and what is told travels to kubelet in one message. So a `Report`
keeps a limited number of faults and counts the rest, cuts long texts, and tells a fault once, even
if it shows for each of several devices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import attrs

from berth.config.finding import Cursor, Finding, Steps
from berth.errors import BerthError

FAULT_LIMIT: Final = 100
"""Most faults that are told of one claim or file; more are counted."""

TEXT_LIMIT: Final = 400
"""Longest part of a message, in characters."""

SHOWN_LIMIT: Final = 60
"""Longest excerpt of a value, in characters."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

B = TypeVar("B", bound=BerthError)


@attrs.frozen
class _Told:
    rank: int
    where: str
    steps: Steps
    found: str
    rule: str
    mend: str


@attrs.define
class Report:
    """The faults found so far.

    Attributes:
        count: All findings, repeated and surplus ones too; tells whether a step found any.
    """

    count: int = 0
    _told: dict[_Told, None] = attrs.field(factory=dict)
    _surplus: int = 0

    @property
    def full(self) -> bool:
        """Whether further faults are only counted, so that work on their wording is wasted."""
        return len(self._told) >= FAULT_LIMIT

    def add(self, place: Place, found: str, *, rule: str, mend: str) -> None:
        """Take a fault at a place; the other arguments are those of `BerthError`."""
        where = _cut(str(place))
        told = _Told(place.rank, where, place.steps, _cut(found), _cut(rule), _cut(mend))
        self.count += 1
        if told in self._told:
            return
        if self.full:
            self._surplus += 1
        else:
            self._told[told] = None

    def faults(self, kind: type[B]) -> tuple[B, ...]:
        """The faults as errors of one class: texts by rank, each in the order of its finding."""
        ordered = sorted(self._told, key=lambda told: told.rank)
        faults = [kind(each.where, each.found, rule=each.rule, mend=each.mend) for each in ordered]
        if self._surplus:
            faults.append(kind("", self._rest))
        return tuple(faults)

    def findings(self, *above: str | int) -> tuple[Finding, ...]:
        """The faults as findings in the node's settings, in the order of their finding.

        Args:
            above: The way to the top of the text that was read.
        """
        findings = [_finding(above, each) for each in self._told]
        if self._surplus:
            findings.append(Finding(steps=above, joint=": ", found=self._rest))
        return tuple(findings)

    @property
    def _rest(self) -> str:
        return f"and {self._surplus} more, not shown"


@attrs.frozen(kw_only=True)
class Place(Cursor):
    """A place in a text, told as ``config[2].opaque.parameters.routes[1].via``.

    Attributes:
        report: Where faults go, in place of the list of a `Cursor`.
        root: How the text is called.
        joint: What stands between its name and the way inside.
        rank: Faults of a text with a lower rank are told first.
    """

    report: Report = attrs.field(eq=False, repr=False)
    root: str
    joint: str = "."
    rank: int = 0

    def __str__(self) -> str:
        way = dotted(self.steps)
        bare = not way or (way.startswith("[") and self.joint == ".")
        return f"{self.root}{way}" if bare else f"{self.root}{self.joint}{way}"

    def at(self, *steps: str | int) -> Place:
        """The place of something below this one."""
        return attrs.evolve(self, steps=self.steps + steps)

    def say(self, found: str, *, rule: str = "", mend: str = "") -> None:
        """Note a fault at this place."""
        self.report.add(self, found, rule=rule, mend=mend)

    def refuse(self, value: object, *, rule: str, mend: str = "") -> None:
        """Note that ``value``, which stands at this place, is not allowed."""
        self.say(self.shown(value), rule=rule, mend=mend)

    def written(self, value: object) -> str:
        """The value as it may be shown to a person."""
        return shown(value)

    def shown(self, value: object) -> str:
        """The value as it may be shown to a person."""
        return shown(value)


def shown(value: object) -> str:
    """Any value in JSON's notation, in one line of bounded length."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        value = value[: SHOWN_LIMIT + 1]
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_LIMIT else f"{text[: SHOWN_LIMIT - 1]}…"


def dotted(steps: Sequence[str | int]) -> str:
    """Steps as a path; list items in brackets, counted from 0 as in JSON."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step) is None:
            text += f"[{shown(step)}]"
        else:
            text += f".{step}" if text else step
    return text


def _finding(above: Steps, told: _Told) -> Finding:
    """A fault as a finding, with the number of a list's item where only the list has a name."""
    steps, joint = told.steps, ": "
    if steps and isinstance(steps[-1], int):
        steps, joint = steps[:-1], f"[{steps[-1]}]: "
    return Finding(
        steps=(*above, *steps), joint=joint, found=told.found, rule=told.rule, mend=told.mend
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…"
