"""The notation: places and words of what is not UTF-8 or not TOML."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.document import _syntax_error, decoded, parsed
from berth.errors import ConfigError

WHERE = "agent.toml"


def _refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parsed(WHERE, text)
    return caught.value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("[nri]".encode("utf-16"), "agent.toml:1:1: the file is UTF-16: it must be plain UTF-8"),
        (
            "a = 1\nä = 'ü".encode("latin-1"),
            "agent.toml:2:1: byte 0xe4 is not UTF-8: the file must be plain UTF-8",
        ),
        (
            'name = "é'.encode() + b"\xff",
            "agent.toml:1:10: byte 0xff is not UTF-8: the file must be plain UTF-8",
        ),
    ],
)
def test_other_encodings_are_refused_with_the_place(data: bytes, words: str) -> None:
    """The first byte that does not fit is named with line and column."""
    with pytest.raises(ConfigError) as caught:
        decoded(WHERE, data)

    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "place", "mend"),
    [
        ("[nri\n", "1:5", ""),
        ("a = 1\n[nri]\nsocket 3\n", "3:8", ""),
        ('a = "x\n', "1:7", ""),
        ('# \u2028 \x85\na = "x\n', "2:7", ""),
        ("vendor = 15b3\n", "1:12", 'text stands in quotes: write "15b3"'),
        ("# \u2028\nvendor = 15b3\n", "2:12", 'text stands in quotes: write "15b3"'),
        ('vendor = ["8086", 15b3]\n', "1:21", 'text stands in quotes: write "15b3"'),
        ("vendor = 0403", "1:11", 'text stands in quotes: write "0403"'),
        ("door = dra", "1:8", 'text stands in quotes: write "dra"'),
        ("m = { pci = 0000:41:00.0 }", "1:14", 'text stands in quotes: write "0000:41:00.0"'),
        ("enabled = True", "1:11", "write true"),
        ("a = 3 4", "1:7", ""),
        ("token = abc", "1:9", ""),
        ("[nri]\n[nri]\n", "2:5", "it was given before; join the two"),
        ("a = 1\na = 2\n", "2:6", "it was given before; join the two"),
        ("a = [1,", "1:8", ""),
        ("a =", "1:4", ""),
    ],
)
def test_syntax_error_has_line_and_column(text: str, place: str, mend: str) -> None:
    """The reader's own words, and the quotes where they are what is missing."""
    error = _refusal(text)

    assert (error.where, error.mend) == (f"{WHERE}:{place}", mend)
    assert error.found.startswith("not TOML: ")
    assert "(at " not in error.found


def test_syntax_error_without_a_place_is_told_as_it_is() -> None:
    """Other versions of the reader may say it in another way."""

    assert str(_syntax_error(WHERE, "", "odd")) == "agent.toml: not TOML: odd"


@pytest.mark.parametrize("depth", [40, 5000])
@pytest.mark.parametrize(
    ("before", "left", "right"), [("a = ", "[", "]"), ("a = ", "{a = ", "}"), ("", "a.", "a = 1")]
)
def test_nesting_without_end_is_refused(before: str, left: str, right: str, depth: int) -> None:
    """A file made to exhaust the stack gives a fault; so does one that is merely too deep."""
    inside = "1" if left.startswith("{") else ""
    closing = right if left == "a." else right * depth

    assert str(_refusal(f"{before}{left * depth}{inside}{closing}")) == (
        "agent.toml: is nested too deeply: at most 32 levels"
    )


def _where_or_nothing(work: Callable[[], object]) -> str:
    """The place that a refusal names; empty when the work was done."""
    try:
        work()
    except ConfigError as error:
        return error.where
    return ""


@given(st.text("ab0=\"'#[]{}.,\n \\", max_size=40))
def test_any_text_is_a_document_or_a_fault(text: str) -> None:
    """Garbage never leads to anything but the one error, which has a place."""
    where = _where_or_nothing(lambda: parsed(WHERE, text))

    assert re.fullmatch(r"(agent\.toml:\d+:\d+)?", where)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_text_or_a_fault(data: bytes) -> None:
    """The same for what is not even text."""
    where = _where_or_nothing(lambda: decoded(WHERE, data))

    assert re.fullmatch(r"(agent\.toml:\d+:\d+)?", where)
