"""Tables as classes: defaults, unknown keys, all faults at once, and new tables by a class."""

from __future__ import annotations

import attrs
import pytest

from berth.config.decode import ITEMS_LIMIT, Key, Written, key, keys_of, nearest_key, table, tables
from berth.config.finding import Cursor
from berth.config.forms import Flag, Text, Whole
from tests.unit.config.reading import read_table

WORD = Text(what="a word", parse=lambda text: text or None)


@attrs.frozen(kw_only=True)
class Wheel:
    """A table of an array."""

    size: int = key(Whole(least=1, most=9), 5, "How large.", unit="m", required=True)


@attrs.frozen(kw_only=True)
class Engine:
    """A table whose keys concern each other."""

    on: bool = key(Flag(), False, "Whether it runs.", known_as=("running",))
    fuel: str | None = key(WORD, None, "What it burns.")

    def check(self, cursor: Cursor, written: Written) -> None:
        """Say what can be relied on, for the tests."""
        if self.on and not self.fuel and "fuel" not in written.at_fault:
            cursor.say(f"runs on nothing, given {sorted(written.given)}")


def _count(wheels: tuple[Wheel, ...], cursor: Cursor) -> None:
    if len(wheels) > 2:
        cursor.say(f"has sizes {[wheel.size for wheel in wheels]}")


@attrs.frozen(kw_only=True)
class Car:
    """A document."""

    engine: Engine = table(Engine, "What drives it.", required=True)
    wheels: tuple[Wheel, ...] = tables(Wheel, "What it rolls on.", name="wheel", check=_count)
    doors: int = key(Whole(least=0, most=5), 4, "How many doors.")
    cached: int = 7


def test_table_reads_nested_tables_and_arrays() -> None:
    """Keys under their TOML names reach the attributes, and what is absent has its default."""

    assert (
        Car(engine=Engine(on=True, fuel="gas"), wheels=(Wheel(size=1), Wheel(size=2))),
        [],
    ) == read_table(
        Car, '[engine]\non = true\nfuel = "gas"\n[[wheel]]\nsize = 1\n[[wheel]]\nsize = 2'
    )


def test_every_fault_is_told_and_the_rest_is_read() -> None:
    """A key at fault holds its default, so that the checks of the whole still run."""
    car, said = read_table(
        Car,
        "doors = 9\n[engine]\nrunning = true\n[[wheel]]\n[[wheel]]\nsize = 0\n[[wheel]]\nsize = 3",
    )

    assert car is not None
    assert (car.doors, [wheel.size for wheel in car.wheels]) == (4, [5, 5, 3])
    assert said == [
        "doors is 9: it must be a whole number from 0 to 5",
        "[engine] running is unknown: the keys here are on and fuel; nearest is on",
        "[[wheel]] 1 lacks size: it must be given: whole number from 1 to 9",
        "[[wheel]] 2: size is 0: it must be a whole number from 1 to 9",
        "[[wheel]] has sizes [5, 5, 3]",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[engine]\non = true", "[engine] runs on nothing, given ['on']"),
        ('[engine]\non = true\nfuel = ""', '[engine] fuel is "": it must be a word'),
    ],
)
def test_keys_that_concern_each_other_are_checked_when_they_can_be(text: str, words: str) -> None:
    """A key at fault does not bring a second message about the default that it holds."""

    assert [words] == read_table(Car, text)[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("engine = 3", ["engine is 3: it must be a table"]),
        (
            "[[engine]]\nxyz = 1\n[[engine]]",
            [
                "[[engine]] is an array of tables: it is one table; write [engine]",
                "[[engine]] 1: xyz is unknown: the keys here are on and fuel",
            ],
        ),
        ("", ["lacks engine: it must be given: table"]),
        ("engine = {}\nwheel = 3", ["wheel is 3: it must be an array of tables"]),
        (
            "engine = {}\n[wheel]\nsize = 0",
            [
                "[wheel] is one table: it is an array; write [[wheel]]",
                "[wheel] size is 0: it must be a whole number from 1 to 9",
            ],
        ),
        (
            "engine = {}\n" + "[[wheel]]\n" * (ITEMS_LIMIT + 1),
            ["[[wheel]] has 257 tables: at most 256 are taken"],
        ),
        ("engine = {}\nwheel = [3]", ["wheel holds 3: it must be a table"]),
        ("engine = {}\nxyz = 3", ["xyz is unknown: the keys here are engine, wheel and doors"]),
    ],
)
def test_wrong_shape_is_told_once(text: str, words: list[str]) -> None:
    """A value where a table should stand, or one table where several should, names the mend."""

    assert words == read_table(Car, text)[1]


@attrs.frozen(kw_only=True)
class Garage:
    """A document of tables alone."""

    car: Car = table(Car, "What stands in it.")
    engine: Engine = table(Engine, "What lies in it.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cars]", "[cars] is unknown: the tables are [car] and [engine]; nearest is [car]"),
        ("[[xyz]]", "[[xyz]] is unknown: the tables are [car] and [engine]"),
        (
            "on = true",
            "on is unknown: every key stands in a table, and the tables are [car] and [engine]",
        ),
    ],
)
def test_unknown_table_is_told_as_a_table(text: str, words: str) -> None:
    """Where only tables may stand, they are listed as such, and a key is told to go into one."""

    assert [words] == read_table(Garage, text)[1]


def test_forms_of_tables_say_what_they_take() -> None:
    """The words stand in messages about tables that are missing."""

    assert [each.form.label for each in keys_of(Car)] == [
        "table",
        "array of tables",
        "whole number from 0 to 5",
    ]


def test_fields_that_are_no_keys_are_no_keys() -> None:
    """Only what was declared as a key may stand in a document."""

    assert [each.name for each in keys_of(Car)] == ["engine", "wheel", "doors"]


def test_key_knows_what_was_declared() -> None:
    """The reference page is made from these."""
    (size,) = keys_of(Wheel)

    assert (
        Key(
            name="size",
            attribute="size",
            form=Whole(least=1, most=9),
            default=5,
            meaning="How large.",
            unit="m",
            required=True,
        )
        == size
    )


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("Fuel", "fuel"), ("fu-el", "fuel"), ("fuell", "fuel"), ("running", "on"), ("zzz", "")],
)
def test_nearest_key_is_found_by_spelling_and_by_foreign_names(name: str, nearest: str) -> None:
    """Case and separators do not count, and names of other programs lead to ours."""
    known = {each.name: each for each in keys_of(Engine)}

    assert nearest == nearest_key(name, known)
