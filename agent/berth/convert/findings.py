"""A JSON document of another program, read strictly: each fault is noted at its place.

A place is told by its path from the top: ``resourceList[0].selectors[1].vendors[0]``. Reading never
stops at a fault: what cannot be read counts as absent, and the caller throws the result away if
anything was noted.

The programs whose documents are read here are written in Go, so names of keys are taken in any
case, and null is as good as absent. Source: Go's ``encoding/json``, `Unmarshal`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs

from berth.config.forms import Text, is_number, listed
from berth.errors import ConfigError, printable
from berth.model.jsontext import duplicates

T = TypeVar("T")

FAULTS_LIMIT: Final = 100
"""Most faults that are told; a document with more of them is none of these programs'."""

ITEMS_LIMIT: Final = 1024
"""Most items of a list, which is what our own lists take."""

SHOWN_LIMIT: Final = 60
"""Longest excerpt of the document in a message, in characters."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@attrs.frozen(kw_only=True)
class Findings:
    """What is noted while one document is read.

    Attributes:
        where: The document, for messages.
        faults: What cannot be turned, in the order of the document.
        remarks: What will be another way than it was, one sentence each.
    """

    where: str
    faults: list[ConfigError] = attrs.field(factory=list)
    remarks: list[str] = attrs.field(factory=list)

    @property
    def is_full(self) -> bool:
        """Whether no further fault will be told."""
        return len(self.faults) >= FAULTS_LIMIT


@attrs.frozen(kw_only=True)
class Place:
    """A value in a document that is being read."""

    path: str
    value: Any
    findings: Findings

    def say(self, found: str, *, rule: str = "", mend: str = "") -> None:
        """Note a fault at this place."""
        if not self.findings.is_full:
            told = f"{self.path} {found}" if self.path else found
            self.findings.faults.append(
                ConfigError(self.findings.where, told, rule=rule, mend=mend)
            )

    def refuse(self, *, rule: str, mend: str = "") -> None:
        """Note that the value is not allowed here."""
        self.say(f"is {shown(self.value)}", rule=rule, mend=mend)

    def remark(self, text: str) -> str:
        """Note what is no fault and still another way than it was; gives the sentence back."""
        sentence = f"{self.path} {text}"
        self.findings.remarks.append(sentence)
        return sentence

    def members(self, known: Collection[str]) -> dict[str, Place]:
        """The members of an object that are not null, by the names that are known."""
        if not isinstance(self.value, Mapping):
            self.refuse(rule="it must be an object")
            return {}
        for name in duplicates(self.value):
            self._at(name).say("is given more than once", mend="keep one")
        spellings = {name.lower(): name for name in known}
        found: dict[str, Place] = {}
        for name in self.value:
            place, meant = self._at(name), spellings.get(name.lower())
            if meant is None:
                _refuse_unknown(place, name, known)
            elif meant in found:
                place.say(f"is given as {found[meant].path} as well", mend="keep one")
            elif place.value is not None:
                found[meant] = place
        return found

    def items(self) -> Iterator[Place]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.refuse(rule="it must be a list")
            return
        if len(self.value) > ITEMS_LIMIT:
            self.say(f"has {len(self.value)} items", rule=f"at most {ITEMS_LIMIT} are taken")
            return
        for number, item in enumerate(self.value):
            yield attrs.evolve(self, path=f"{self.path}[{number}]", value=item)

    def text(self, form: Text[T], *, exact: bool = True) -> T | None:
        """A string of some form.

        Args:
            exact: The program compares it as it is written.
        """
        rule = f"it must be {form.what}"
        if not isinstance(self.value, str):
            written = shown(self.value)
            mend = form.number_hint(written) if is_number(self.value) else ""
            self.refuse(rule=rule, mend=mend)
            return None
        read = form.parse(self.value)
        if read is None:
            self.refuse(rule=rule, mend=form.hint(self.value))
        elif exact and str(read) != self.value and str(read) == self.value.lower():
            self.remark(
                f"is {shown(self.value)}: the plugin compared it with what the kernel writes in "
                "lower case, so it met nothing; here it does"
            )
        return read

    def texts(self, form: Text[T], *, exact: bool = True) -> tuple[T, ...]:
        """Strings of some form, each once; see `text`."""
        read = (each.text(form, exact=exact) for each in self.items())
        return tuple(dict.fromkeys(each for each in read if each is not None))

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.refuse(rule="it must be true or false")
        return self.value is True

    def whole(self, *, least: int, most: int, mend: str = "") -> int | None:
        """A whole number within bounds, both allowed."""
        if type(self.value) is int and least <= self.value <= most:
            return self.value
        self.refuse(rule=f"it must be a whole number from {least} to {most}", mend=mend)
        return None

    def _at(self, name: str) -> Place:
        step = name if _PLAIN.fullmatch(name) else f"[{shown(name)}]"
        dot = "." if self.path and step == name else ""
        return attrs.evolve(self, path=f"{self.path}{dot}{step}", value=self.value[name])


def shown(value: object) -> str:
    """A JSON value for a message, in one line and cut; of what holds others only what it is."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN_LIMIT else f"{text[: SHOWN_LIMIT - 1]}…"


def _refuse_unknown(place: Place, name: str, known: Collection[str]) -> None:
    # The search for a near name is what takes time where there are thousands of them.
    if not place.findings.is_full:
        close = difflib.get_close_matches(name[:SHOWN_LIMIT], known, n=1)
        rule = f"the keys here are {listed(sorted(known))}"
        place.say("is unknown", rule=rule, mend=f"nearest is {close[0]}" if close else "")
