"""Places and values as messages tell them."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.document import parse
from berth.config.finding import SHOWN_LIMIT, Cursor, Spot, Steps, lookup, tell, toml_text
from berth.config.match import PciPattern
from berth.model.device import NicKind

DOCUMENT: dict[str, Any] = {
    "nri": {"timeout_s": -3},
    "nics": {},
    "level": 3,
    "health": {"xid": {"ignore": []}},
    "nic": {
        "group": [
            {"name": "fast", "match": {"pf": ["a", "b"]}},
            {"name": 3, "with": [{"path": "/x"}]},
            {"name": ""},
        ]
    },
}


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (("nri", "timeout_s"), "[nri] timeout_s"),
        (("nri", "absent"), "[nri] absent"),
        (("nics",), "[nics]"),
        (("level",), "level"),
        (("health", "xid", "ignore"), "[health.xid] ignore"),
        (("nic", "group"), "[[nic.group]]"),
        (("nic", "group", 0), '[[nic.group]] 1 "fast"'),
        (("nic", "group", 0, "match", "pf"), '[[nic.group]] 1 "fast": match.pf'),
        (("nic", "group", 0, "match", "pf", 1), '[[nic.group]] 1 "fast": match.pf'),
        (("nic", "group", 1, "match"), "[[nic.group]] 2: match"),
        (("nic", "group", 1, "with", 0, "path"), "[[nic.group]] 2: with[0].path"),
        (("nic", "group", 2), "[[nic.group]] 3"),
        ((), ""),
    ],
)
def test_place_is_told_as_an_operator_would_look_for_it(steps: Steps, words: str) -> None:
    """Tables stand in brackets, items have number and name, items of a list are left out."""

    assert words == tell(steps, DOCUMENT)


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("nic", "group", 0, "name"), "fast"),
        (("nic", "group", 9), None),
        (("level", "x"), None),
        (("level", 0), None),
        ((), DOCUMENT),
    ],
)
def test_lookup_gives_what_stands_there_or_nothing(steps: Steps, value: object) -> None:
    """A way that leads nowhere ends in ``None``, whatever it meets."""

    assert value == lookup(steps, DOCUMENT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, '""'),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (1.5, "1.5"),
        ('a "b" ü', '"a \\"b\\" ü"'),
        (NicKind.VF, '"vf"'),
        ((1, "a"), '[1, "a"]'),
        ((), "[]"),
        ({}, "{}"),
        ({"a": 1, "b": ("x",)}, '{ a = 1, b = ["x"] }'),
        (PciPattern("0000:41:*"), '"0000:41:*"'),
    ],
)
def test_value_is_written_in_toml(value: object, text: str) -> None:
    """Defaults and values in messages can be copied into the file."""

    assert text == toml_text(value)


@pytest.mark.parametrize("sign", ["\x7f", "\x9b", "\u202e", "\U000e0001", "\n", "\x1b"])
def test_text_of_any_character_is_toml_that_steers_no_terminal(sign: str) -> None:
    """It reads back as it was: DEL is none of TOML's characters, and JSON leaves it."""
    text = toml_text(f"a{sign}b")

    assert text.isprintable()
    assert parse(f"key = {text}") == {"key": f"a{sign}b"}


def test_value_is_shown_as_it_was_written_when_that_is_known() -> None:
    """A hexadecimal number stays one."""
    cursor = Cursor(steps=("a",), spots={("a",): Spot(line=1, text="0x1F")})

    assert (cursor.shown(31), cursor.at("b").shown(31)) == ("0x1F", "31")


def test_value_is_shown_in_one_line_and_cut() -> None:
    """A long text of many lines does not flood the message."""
    shown = Cursor().shown("a\n" * 200)

    assert (len(shown), shown[-1], "\n" in shown) == (SHOWN_LIMIT, "…", False)


def test_table_is_not_shown_but_named() -> None:
    """The inside of a table is no part of the message."""

    assert Cursor().shown({"a": 1}) == "a table"


def test_keys_at_fault_are_those_below_the_cursor() -> None:
    """A finding deeper down counts for its key, one elsewhere or at the table itself does not."""
    cursor = Cursor()
    for steps in (("a", "x"), ("a", "y", "z"), ("b", "w"), ("a",)):
        cursor.at(*steps).say("is wrong")

    assert list(cursor.at("a").at_fault()) == ["x", "y"]


def test_warning_is_no_finding() -> None:
    """What is noted as a warning does not make the document unusable."""
    cursor = Cursor()
    cursor.at("a").warn("is odd")

    assert (cursor.findings, cursor.warnings[0].steps) == ([], ("a",))
