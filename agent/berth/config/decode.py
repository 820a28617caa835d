"""TOML tables as classes: how keys are declared, and how a document becomes values.

A table is a frozen attrs class whose fields are made by `key`, `table` and `tables`; everything
else (decoding, unknown keys, the reference page, the default file) follows from the class. So a
table is added to the configuration by writing its class and one field in its parent.

Reading never stops at a fault. A key at fault takes its default, the fault is noted at its place,
and the rest is read on; the caller throws the value away if anything was noted.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import attrs
from typing_extensions import override

from berth.config.finding import Cursor
from berth.config.forms import Form, listed

T = TypeVar("T")
D = TypeVar("D")

ITEMS_LIMIT: Final = 256
"""Most tables of one array; they are compared with each other, so their number is bounded."""

_KEY: Final = "berth.key"


@attrs.frozen(kw_only=True)
class Key:
    """What is known of one key.

    Attributes:
        name: As it stands in TOML; the attribute may differ (``group`` and ``groups``).
        attribute: Name of the attrs field.
        form: How its value is read.
        default: The value without the key; for a required key only a placeholder.
        meaning: One or more sentences.
        unit: Of a number; empty when it has none.
        required: The table is at fault without it.
        known_as: Names that other programs use for it, for the hint at an unknown key.
    """

    name: str
    attribute: str
    form: Form[Any]
    default: Any
    meaning: str
    unit: str = ""
    required: bool = False
    known_as: tuple[str, ...] = ()


def key(
    form: Form[T],
    default: D,
    meaning: str,
    *,
    unit: str = "",
    name: str = "",
    required: bool = False,
    known_as: tuple[str, ...] = (),
) -> T | D:
    """Declare a key as the field of a table class; see `Key` for the arguments."""
    facts = {
        "name": name,
        "form": form,
        "meaning": meaning,
        "unit": unit,
        "required": required,
        "known_as": known_as,
    }
    field: T | D = attrs.field(default=default, metadata={_KEY: facts})
    return field


def table(kind: type[T], meaning: str, *, required: bool = False) -> T:
    """Declare a table inside a table; without it, all its keys have their defaults."""
    return key(Table(kind), kind(), meaning, required=required)


def tables(
    kind: type[T],
    meaning: str,
    *,
    name: str,
    check: Callable[[tuple[T, ...], Cursor], None] = lambda _items, _cursor: None,
) -> tuple[T, ...]:
    """Declare an array of tables.

    Args:
        kind: The class of one item.
        meaning: What an item stands for.
        name: The key, in the singular.
        check: Looks at the items together; it also sees those at fault, with defaults in place of
            what could not be read, and gets the cursor of the array.
    """
    return key(Tables(kind, check), (), meaning, name=name)


def keys_of(kind: type[Any]) -> tuple[Key, ...]:
    """The keys of a table class, in the order of their declaration."""
    return tuple(_keys(kind))


def _keys(kind: type[Any]) -> Iterator[Key]:
    for field in attrs.fields(kind):
        if facts := field.metadata.get(_KEY):
            facts = {**facts, "name": facts["name"] or field.name}
            yield Key(attribute=field.name, default=field.default, **facts)


@attrs.frozen(kw_only=True)
class Written:
    """What is known of the keys of one table beside their values.

    Attributes:
        given: Keys that stand in the document.
        at_fault: Keys with a fault of their own; they hold their defaults.
    """

    given: frozenset[str]
    at_fault: frozenset[str]


@runtime_checkable
class Checked(Protocol):
    """A table class whose keys concern each other."""

    def check(self, cursor: Cursor, written: Written) -> None:
        """Note what is wrong with the keys together.

        Args:
            cursor: Of the table.
            written: Which of the keys can be relied on.
        """


@attrs.frozen
class Table(Form[T], Generic[T]):
    """A table, read into a class.

    A class that is `Checked` looks at the keys that concern each other, once all are read.
    """

    kind: type[T]

    @property
    @override
    def label(self) -> str:
        return "table"

    @override
    def read(self, value: object, cursor: Cursor) -> T | None:
        if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            header = _header(cursor)
            cursor.say("is an array of tables", rule="it is one table", mend=f"write [{header}]")
            # What is wrong in them is told all the same.
            for number, each in enumerate(value[:ITEMS_LIMIT]):
                self.read(each, cursor.at(number))
            return None
        if not isinstance(value, Mapping):
            cursor.refuse(value, rule="it must be a table")
            return None
        built = self.kind(**dict(_read_keys(self.kind, value, cursor)))
        if isinstance(built, Checked):
            at_fault = frozenset(cursor.at_fault())
            built.check(cursor, Written(given=frozenset(value), at_fault=at_fault))
        return built


@attrs.frozen
class Tables(Form["tuple[T, ...]"], Generic[T]):
    """An array of tables."""

    kind: type[T]
    check: Callable[[tuple[T, ...], Cursor], None]

    @property
    @override
    def label(self) -> str:
        return "array of tables"

    @override
    def read(self, value: object, cursor: Cursor) -> tuple[T, ...] | None:
        if isinstance(value, Mapping):
            cursor.say("is one table", rule="it is an array", mend=f"write [[{_header(cursor)}]]")
            # As it is written there is no number in the way to its keys.
            Table(self.kind).read(value, cursor)
            return None
        if not isinstance(value, list):
            cursor.refuse(value, rule="it must be an array of tables")
            return None
        if len(value) > ITEMS_LIMIT:
            cursor.say(f"has {len(value)} tables", rule=f"at most {ITEMS_LIMIT} are taken")
            return None
        form = Table(self.kind)
        read = (form.read(item, cursor.at(number)) for number, item in enumerate(value))
        items = tuple(item if item is not None else self.kind() for item in read)
        self.check(items, cursor)
        return items


def _header(cursor: Cursor) -> str:
    """What stands in the brackets of a header for this place."""
    return ".".join(step for step in cursor.steps if isinstance(step, str))


def _read_keys(
    kind: type[Any], raw: Mapping[str, Any], cursor: Cursor
) -> Iterator[tuple[str, Any]]:
    known = {each.name: each for each in _keys(kind)}
    for name, value in raw.items():
        if name not in known:
            _unknown(name, value, known, cursor)
            continue
        read = known[name].form.read(value, cursor.at(name))
        if read is not None:
            yield known[name].attribute, read
    for each in known.values():
        if each.required and each.name not in raw:
            cursor.say(f"lacks {each.name}", rule=f"it must be given: {each.form.label}")


def _unknown(name: str, value: object, known: Mapping[str, Key], cursor: Cursor) -> None:
    nearest = nearest_key(name, known)
    rule = f"the keys here are {listed(list(known))}"
    if not cursor.steps and all(isinstance(each.form, Table | Tables) for each in known.values()):
        nearest = f"[{nearest}]" if nearest else ""
        rule = f"the tables are {listed([f'[{each}]' for each in known])}"
        if not isinstance(value, Mapping | list):
            rule = f"every key stands in a table, and {rule}"
    cursor.at(name).say("is unknown", rule=rule, mend=f"nearest is {nearest}" if nearest else "")


def nearest_key(name: str, known: Mapping[str, Key]) -> str:
    """The known key that ``name`` was probably meant to be; empty when none is near."""
    spellings = {
        _plain(spelling): each.name
        for each in known.values()
        for spelling in (*each.known_as, each.name)
    }
    close = difflib.get_close_matches(_plain(name), spellings, n=1)
    return spellings[close[0]] if close else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
