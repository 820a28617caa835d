"""Each form of a value: what it takes, and what it says of what it does not take."""

from __future__ import annotations

from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.forms import (
    PATH,
    AnyTable,
    Choice,
    Flag,
    Form,
    Number,
    OnlyDefault,
    OrEmpty,
    Several,
    Text,
    Whole,
    listed,
)
from tests.unit.config.reading import read_value


class Colour(Enum):
    """Words for tests."""

    RED = "red"
    BLUE = "blue"


WORD = Text(what="a word", parse=lambda text: text or None, hint=lambda _text: "write a word")

FORMS: tuple[Form[Any], ...] = (
    Flag(),
    Whole(least=0, most=9),
    Number(above=0, most=2),
    WORD,
    PATH,
    OrEmpty(PATH),
    Choice(kind=Colour),
    OnlyDefault(Flag(), False),
    Several(item=WORD, least=1),
    AnyTable("table"),
)


@pytest.mark.parametrize(
    ("form", "value", "read"),
    [
        (Flag(), True, True),
        (Flag(), False, False),
        (Whole(least=-1, most=3), -1, -1),
        (Whole(least=-1, most=3), 3, 3),
        (Number(above=0, most=2), 2, 2.0),
        (Number(above=0, most=2), 0.1, 0.1),
        (WORD, "x", "x"),
        (PATH, "/a/b", Path("/a/b")),
        (OrEmpty(PATH), "/a", Path("/a")),
        (OrEmpty(PATH), "", None),
        (Choice(kind=Colour), "blue", Colour.BLUE),
        (OnlyDefault(Flag(), False), False, False),
        (Several(item=WORD), [], ()),
        (Several(item=WORD), ["a", "b"], ("a", "b")),
        (Several(item=WORD, least=1), "a", ("a",)),
        (AnyTable("table"), {"a": [1]}, {"a": [1]}),
    ],
)
def test_value_is_read_when_it_is_of_the_form(form: Form[Any], value: object, read: object) -> None:
    """What the form allows comes back as our value, without a word said."""

    assert (read, []) == read_value(form, value)


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (Flag(), 1, "is 1: it must be true or false"),
        (Flag(), "True", 'is "True": it must be true or false; write true, without quotes'),
        (Whole(least=0, most=9), 10, "is 10: it must be a whole number from 0 to 9"),
        (Whole(least=0, most=9), True, "is true: it must be a whole number from 0 to 9"),
        (Whole(least=0, most=9), 1.0, "is 1.0: it must be a whole number from 0 to 9"),
        (
            Whole(least=0, most=9),
            "3",
            'is "3": it must be a whole number from 0 to 9; write 3, without quotes',
        ),
        (
            Number(above=0, most=2),
            0,
            "is 0: it must be above 0 and at most 2; drop the line for the default",
        ),
        (
            Number(above=0, most=2),
            True,
            "is true: it must be above 0 and at most 2; drop the line for the default",
        ),
        (
            Number(above=0, most=2),
            "1.5",
            'is "1.5": it must be above 0 and at most 2; write 1.5, without quotes',
        ),
        (
            Number(above=0, most=2),
            float("nan"),
            "is nan: it must be above 0 and at most 2; drop the line for the default",
        ),
        (WORD, "", 'is "": it must be a word; write a word'),
        (WORD, 3, 'is the number 3: it must be a word; write "3", in quotes'),
        (WORD, ["a"], 'is ["a"]: it must be a word'),
        (WORD, {"a": 1}, "is a table: it must be a word"),
        (WORD, False, "is false: it must be a word"),
        (PATH, "a/b", 'is "a/b": it must be an absolute path'),
        (PATH, "/a/../b", 'is "/a/../b": it must be an absolute path'),
        (OrEmpty(PATH), "a", 'is "a": it must be an absolute path, or ""'),
        (Choice(kind=Colour), "green", 'is "green": it must be "red" or "blue"'),
        (Choice(kind=Colour), 3, 'is 3: it must be "red" or "blue"'),
        (
            Choice(kind=Colour, now=(Colour.RED,)),
            "blue",
            'is "blue", which is not available in this version: it must be "red"',
        ),
        (
            OnlyDefault(Flag(), False),
            True,
            "is true, which is not available in this version: it must be false",
        ),
        (OnlyDefault(Flag(), False), 3, "is 3: it must be true or false"),
        (
            OnlyDefault(Flag(), False, reason="nobody would see it", mend="drop it"),
            True,
            "is true: it must be false, since nobody would see it; drop it",
        ),
        (
            Several(item=WORD, least=1),
            [],
            "is []: it must name at least one; or drop the line",
        ),
        (Several(item=WORD), ["a", "b", "a"], 'holds "a" twice; drop one of the two'),
        (Several(item=WORD), 3, 'is the number 3: it must be a word; write "3", in quotes'),
        (
            Several(item=WORD, most=2),
            ["a", "b", "c"],
            "has 3 items: at most 2 are taken",
        ),
        (AnyTable("table"), 3, "is 3: it must be a table"),
    ],
)
def test_value_is_refused_when_it_is_of_another_form(
    form: Form[Any], value: object, words: str
) -> None:
    """The message names the value, what is allowed, and the way out where there is one."""

    assert [words] == read_value(form, value)[1]


def test_list_tells_each_item_at_fault() -> None:
    """Two bad items are two faults, and the good one is read."""

    assert read_value(Several(item=WORD), ["", "a", [1]]) == (
        ("a",),
        ['holds "": it must be a word; write a word', "holds [1]: it must be a word"],
    )


@given(
    st.sampled_from(FORMS),
    st.recursive(
        st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.dates()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)
def test_any_toml_value_is_read_or_refused(form: Form[Any], value: object) -> None:
    """Nothing that TOML can hold makes a form raise, or pass something over in silence."""
    read, said = read_value(form, value)

    assert said or read is not None or value == ""


@pytest.mark.parametrize(
    ("form", "label"),
    [
        (Flag(), "true or false"),
        (Whole(least=0, most=9), "whole number from 0 to 9"),
        (Number(above=0, most=2), "number above 0, at most 2"),
        (PATH, "an absolute path"),
        (OrEmpty(PATH), 'an absolute path, or ""'),
        (Choice(kind=Colour), '"red" or "blue"'),
        (OnlyDefault(Flag(), False), "only false in this version"),
        (OnlyDefault(Flag(), False, reason="nobody would see it"), "only false"),
        (Several(item=PATH), "list of: an absolute path"),
        (AnyTable("a table of things"), "a table of things"),
    ],
)
def test_form_says_what_it_takes(form: Form[Any], label: str) -> None:
    """The reference page shows this in its type column."""

    assert label == form.label


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_listed_as_in_a_sentence(words: list[str], text: str) -> None:
    """Commas, and a word before the last."""

    assert text == listed(words)


def test_date_is_no_text() -> None:
    """TOML has dates, and no key here takes one."""

    assert read_value(WORD, date(2026, 1, 2))[1] == ["is 2026-01-02: it must be a word"]
