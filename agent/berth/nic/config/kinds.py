"""The forms of values in a claim, beyond those that the node's own settings have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

import attrs
from typing_extensions import override

from berth.config.finding import Cursor
from berth.config.forms import Form, listed
from berth.model.jsontext import duplicates
from berth.nic.config.notation import Refusal
from berth.nic.config.report import shown
from berth.nic.config.values import MAIN_TABLE

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_TABLES_OF_THE_KERNEL: Final = {253: "default", 255: "local"}
_TABLE_LIMIT: Final = 2**32 - 1

_SWITCH_LIMIT: Final = 31
"""Source: Linux ``include/uapi/linux/ethtool.h``, ETH_GSTRING_LEN with the closing NUL."""

_SWITCH: Final = re.compile(rf"[!-~]{{1,{_SWITCH_LIMIT}}}")


@attrs.frozen(kw_only=True)
class Word(Form[E], Generic[E]):
    """One of a few words.

    Attributes:
        kind: The words.
    """

    kind: type[E]

    @property
    @override
    def label(self) -> str:
        return listed([shown(word.value) for word in self.kind], last="or")

    @override
    def read(self, value: object, cursor: Cursor) -> E | None:
        for word in self.kind:
            if isinstance(value, str) and value == word.value:
                return word
        cursor.refuse(value, rule=f"it must be {self.label}")
        return None


@attrs.frozen
class Numbers(Form[int]):
    """One of a few whole numbers."""

    allowed: tuple[int, ...]

    @property
    @override
    def label(self) -> str:
        return listed([str(number) for number in self.allowed], last="or")

    @override
    def read(self, value: object, cursor: Cursor) -> int | None:
        if type(value) is int and value in self.allowed:
            return value
        cursor.refuse(value, rule=f"it must be {self.label}")
        return None


@attrs.frozen(kw_only=True)
class Written(Form[T], Generic[T]):
    """Text in a notation of its own.

    Attributes:
        what: The notation in words, to follow "it must be".
        parse: Gives the value, or says what is wrong.
    """

    what: str
    parse: Callable[[str], T | Refusal]

    @property
    @override
    def label(self) -> str:
        return self.what

    @override
    def read(self, value: object, cursor: Cursor) -> T | None:
        rule = f"it must be {self.what}"
        if not isinstance(value, str):
            cursor.refuse(value, rule=rule)
            return None
        parsed = self.parse(value)
        if isinstance(parsed, Refusal):
            cursor.say(f"{shown(value)} {parsed.found}".rstrip(), rule=rule, mend=parsed.mend)
            return None
        return parsed


@attrs.frozen(kw_only=True)
class TableNumber(Form[int]):
    """A routing table, by number or as ``main``; not those that the kernel keeps for itself.

    Attributes:
        main: The table ``main`` is allowed.
    """

    main: bool = True

    @property
    @override
    def label(self) -> str:
        if not self.main:
            return f"whole number from 1 to {_TABLE_LIMIT}, not 253, 254 or 255"
        return f'"main" or a whole number from 1 to {_TABLE_LIMIT}, not 253 or 255'

    @override
    def read(self, value: object, cursor: Cursor) -> int | None:
        if value == "main" and self.main:
            return MAIN_TABLE
        own = _TABLES_OF_THE_KERNEL if self.main else {**_TABLES_OF_THE_KERNEL, MAIN_TABLE: "main"}
        if type(value) is int and value in own:
            found = f"{value} is the kernel's own table {own[value]}"
            cursor.say(found, rule="routes and rules of a claim stay out of it")
        elif type(value) is int and 0 < value <= _TABLE_LIMIT:
            return value
        else:
            cursor.refuse(value, rule=f"it must be {self.label}")
        return None


@attrs.frozen
class Words(Form["tuple[str, ...]"]):
    """A list of words without repetitions."""

    allowed: tuple[str, ...]

    @property
    @override
    def label(self) -> str:
        return f"list of {listed([shown(word) for word in self.allowed])}, or some of them"

    @override
    def read(self, value: object, cursor: Cursor) -> tuple[str, ...] | None:
        if not isinstance(value, list):
            cursor.refuse(value, rule=f"it must be a {self.label}")
            return None
        rule = f"it must be {listed([shown(word) for word in self.allowed], last='or')}"
        words: list[str] = []
        for number, word in enumerate(value):
            if not isinstance(word, str) or word not in self.allowed:
                cursor.at(number).refuse(word, rule=rule)
            elif word in words:
                cursor.at(number).say(f"{shown(word)} is given twice", mend="drop one of the two")
            else:
                words.append(word)
        return tuple(words) if len(words) == len(value) else None


@attrs.frozen(kw_only=True)
class Switches(Form["Mapping[str, bool | None]"]):
    """An object of true or false by names that the kernel or a driver gives.

    A ``null`` takes back what a weaker text said of the name.
    """

    limit: int

    @property
    @override
    def label(self) -> str:
        return f"object of at most {self.limit} names with true or false"

    @override
    def read(self, value: object, cursor: Cursor) -> Mapping[str, bool | None] | None:
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule="it must be an object of true or false by name")
            return None
        if len(value) > self.limit:
            cursor.say(f"{len(value)} names", rule=f"at most {self.limit} are allowed")
        read: dict[str, bool | None] = {}
        for name in duplicates(value):
            cursor.at(name).say("given more than once", rule="each name stands once")
        for name, on in value.items():
            if _SWITCH.fullmatch(name) is None:
                rule = f"a name has 1 to {_SWITCH_LIMIT} letters, digits and signs"
                cursor.at(name).say("is no name", rule=rule)
            elif on is not None and not isinstance(on, bool):
                cursor.at(name).refuse(on, rule="it must be true or false")
            else:
                read[name] = on
        return read if len(read) == len(value) <= self.limit else None


@attrs.frozen(kw_only=True)
class Objects(Form["tuple[object, ...]"]):
    """A list of objects; what they hold, the table of fields says below the list's own name."""

    limit: int

    @property
    @override
    def label(self) -> str:
        return f"list of at most {self.limit} objects"

    @override
    def read(self, value: object, cursor: Cursor) -> tuple[object, ...] | None:
        if not isinstance(value, list):
            cursor.refuse(value, rule=f"it must be a {self.label}")
            return None
        if len(value) > self.limit:
            cursor.say(f"{len(value)} items", rule=f"at most {self.limit} are allowed")
        return tuple(value)


@attrs.frozen
class Later(Form[None]):
    """What a later version will read; until then the field is refused by its name."""

    what: str

    @property
    @override
    def label(self) -> str:
        return self.what

    @override
    def read(self, value: object, cursor: Cursor) -> None:
        cursor.say(f"{cursor.steps[-1]} is not available in this version", mend="drop it")
