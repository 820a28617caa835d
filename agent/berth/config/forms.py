"""The forms that values of keys take: how each is read strictly, and how each is described."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, TypeGuard, TypeVar

import attrs
from typing_extensions import override

from berth.config.finding import Cursor, toml_text

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Form(abc.ABC, Generic[T]):
    """How the value of one key is read."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """The form in words, for the reference page and for messages."""

    @abc.abstractmethod
    def read(self, value: object, cursor: Cursor) -> T | None:
        """Turn a TOML value into ours; ``None`` when that was refused, which the cursor knows."""


@attrs.frozen
class Flag(Form[bool]):
    """True or false."""

    @property
    @override
    def label(self) -> str:
        return "true or false"

    @override
    def read(self, value: object, cursor: Cursor) -> bool | None:
        if isinstance(value, bool):
            return value
        wanted = str(value).lower()
        mend = f"write {wanted}, without quotes" if wanted in {"true", "false"} else ""
        cursor.refuse(value, rule="it must be true or false", mend=mend)
        return None


@attrs.frozen(kw_only=True)
class Whole(Form[int]):
    """A whole number within bounds, both allowed."""

    least: int
    most: int

    @property
    @override
    def label(self) -> str:
        return f"whole number from {self.least} to {self.most}"

    @override
    def read(self, value: object, cursor: Cursor) -> int | None:
        if type(value) is int and self.least <= value <= self.most:
            return value
        cursor.refuse(value, rule=f"it must be a {self.label}", mend=_unquoted(value))
        return None


@attrs.frozen(kw_only=True)
class Number(Form[float]):
    """A number, whole or not, above one bound and up to another."""

    above: float
    most: float

    @property
    @override
    def label(self) -> str:
        return f"number above {self.above:g}, at most {self.most:g}"

    @override
    def read(self, value: object, cursor: Cursor) -> float | None:
        if is_number(value) and self.above < value <= self.most:
            return float(value)
        rule = f"it must be above {self.above:g} and at most {self.most:g}"
        mend = _unquoted(value) or "drop the line for the default"
        cursor.refuse(value, rule=rule, mend=mend)
        return None


@attrs.frozen(kw_only=True)
class Text(Form[T], Generic[T]):
    """A string that is parsed further.

    Attributes:
        what: The form in words, to follow "it must be".
        parse: Gives the value, or ``None`` when the string is not of this form.
        hint: Makes the mend from the string that was refused.
        number_hint: Makes the mend from a number that was written in place of a string.
    """

    what: str
    parse: Callable[[str], T | None]
    hint: Callable[[str], str] = lambda _text: ""
    number_hint: Callable[[str], str] = lambda written: f'write "{written}", in quotes'

    @property
    @override
    def label(self) -> str:
        return self.what

    @override
    def read(self, value: object, cursor: Cursor) -> T | None:
        if isinstance(value, str):
            parsed = self.parse(value)
            if parsed is None:
                cursor.refuse(value, rule=f"it must be {self.what}", mend=self.hint(value))
            return parsed
        rule = f"it must be {self.what}"
        if is_number(value):
            written = cursor.written(value)
            cursor.say(
                f"{cursor.verb} the number {written}", rule=rule, mend=self.number_hint(written)
            )
        else:
            cursor.refuse(value, rule=rule)
        return None


@attrs.frozen(kw_only=True)
class Choice(Form[E], Generic[E]):
    """One of a few words.

    Attributes:
        kind: The words.
        now: Those that this version can do; all when empty.
    """

    kind: type[E]
    now: tuple[E, ...] = ()

    @property
    def allowed(self) -> tuple[E, ...]:
        """What may be written today."""
        return self.now or tuple(self.kind)

    @property
    @override
    def label(self) -> str:
        return listed([toml_text(word) for word in self.allowed], last="or")

    @override
    def read(self, value: object, cursor: Cursor) -> E | None:
        for word in self.kind:
            if value == word.value and isinstance(value, str):
                if word in self.allowed:
                    return word
                found = f"{cursor.verb} {toml_text(word)}, which is not available in this version"
                cursor.say(found, rule=f"it must be {self.label}")
                return None
        cursor.refuse(value, rule=f"it must be {self.label}")
        return None


@attrs.frozen
class OnlyDefault(Form[T], Generic[T]):
    """A key whose other values wait for a later version, or make no sense where it stands.

    Attributes:
        mend: What to do for now; empty when there is nothing.
        reason: Why there is no other value, ever; empty: other values wait for a later version.
    """

    form: Form[T]
    default: T
    mend: str = ""
    reason: str = ""

    @property
    @override
    def label(self) -> str:
        only = f"only {toml_text(self.default)}"
        return only if self.reason else f"{only} in this version"

    @override
    def read(self, value: object, cursor: Cursor) -> T | None:
        before = len(cursor.findings)
        read = self.form.read(value, cursor)
        if len(cursor.findings) == before and read != self.default:
            when = "" if self.reason else ", which is not available in this version"
            why = f", since {self.reason}" if self.reason else ""
            cursor.say(
                f"is {cursor.shown(value)}{when}",
                rule=f"it must be {toml_text(self.default)}{why}",
                mend=self.mend,
            )
        return read


@attrs.frozen(kw_only=True)
class Several(Form["tuple[T, ...]"], Generic[T]):
    """A list without repetitions; one item may stand without brackets.

    Attributes:
        item: The form of one.
        least: Fewest items.
        most: Most items; far more than anyone writes, so that a mishap does not take minutes.
        repeats: An item may stand there several times after all.
    """

    item: Form[T]
    least: int = 0
    most: int = 1024
    repeats: bool = False

    @property
    @override
    def label(self) -> str:
        return f"list of: {self.item.label}"

    @override
    def read(self, value: object, cursor: Cursor) -> tuple[T, ...] | None:
        if not isinstance(value, list):
            one = self.item.read(value, cursor)
            return None if one is None else (one,)
        if len(value) < self.least:
            cursor.refuse(value, rule="it must name at least one", mend="or drop the line")
            return None
        if len(value) > self.most:
            cursor.say(f"has {len(value)} items", rule=f"at most {self.most} are taken")
            return None
        return self._read_items(value, cursor)

    def _read_items(self, value: Sequence[object], cursor: Cursor) -> tuple[T, ...]:
        items: list[T] = []
        for number, raw in enumerate(value):
            here = cursor.at(number)
            item = self.item.read(raw, here)
            if item is None:
                continue
            if item in items and not self.repeats:
                here.say(f"holds {here.shown(raw)} twice", mend="drop one of the two")
                continue
            items.append(item)
        return tuple(items)


@attrs.frozen
class AnyTable(Form["Mapping[str, Any]"]):
    """A table that another part of the program reads and checks."""

    what: str

    @property
    @override
    def label(self) -> str:
        return self.what

    @override
    def read(self, value: object, cursor: Cursor) -> Mapping[str, Any] | None:
        if isinstance(value, Mapping):
            return value
        cursor.refuse(value, rule="it must be a table")
        return None


@attrs.frozen
class OrEmpty(Form["T | None"], Generic[T]):
    """A form of text that may be empty, for none."""

    form: Text[T]

    @property
    @override
    def label(self) -> str:
        return f'{self.form.what}, or ""'

    @override
    def read(self, value: object, cursor: Cursor) -> T | None:
        if value == "":
            return None
        return attrs.evolve(self.form, what=self.label).read(value, cursor)


def _absolute(text: str) -> Path | None:
    path = Path(text)
    clean = path.is_absolute() and ".." not in path.parts and "\0" not in text
    return path if clean else None


PATH: Final = Text(what="an absolute path", parse=_absolute)
"""A path that begins with a slash and goes nowhere upwards."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a TOML value is a number; for Python, true and false are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def listed(words: Sequence[str], *, last: str = "and") -> str:
    """Words as a sentence lists them: ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _unquoted(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return f"write {text}, without quotes" if text.replace(".", "", 1).isdigit() else ""
