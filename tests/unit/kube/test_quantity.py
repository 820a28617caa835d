"""Quantities, against the canonical forms that kube-apiserver 1.37.2 was seen to store."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.quantity import (
    canonical_quantity,
    format_quantity,
    parse_quantity,
    same_quantity,
)

# Left: sent, right: stored (tests/cluster/slicecases.py plays these on the real server).
STORED = [
    ("1024Mi", "1Gi"),
    ("1500Mi", "1500Mi"),
    ("1000", "1k"),
    ("0.5", "500m"),
    ("1e3", "1e3"),
    ("12E3", "12E3"),
    ("512Ki", "512Ki"),
    ("0.5Gi", "512Mi"),
    ("1.5Ki", "1536"),
    ("0", "0"),
    ("25G", "25G"),
    ("1000Ki", "1000Ki"),
    ("0.0000000001", "1n"),
]


@pytest.mark.parametrize(("sent", "stored"), STORED)
def test_canonical_quantity_is_what_the_real_server_stores(sent: str, stored: str) -> None:
    """The stand-in writes quantities as the real server does."""

    assert canonical_quantity(sent) == stored


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("+1.", 1),
        (".5", Fraction(1, 2)),
        ("-3k", -3000),
        ("2Gi", 2 * 2**30),
        ("7E", 7 * 10**18),
        ("7Ei", 7 * 2**60),
        ("7E2", 700),
        ("7e-2", Fraction(7, 100)),
        ("100m", Fraction(1, 10)),
    ],
)
def test_parse_quantity_is_exact(text: str, value: object) -> None:
    """No text loses anything on its way to a number."""

    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1 k", "k", "1kk", "1e", "1e99", "1e-99", "1" * 65, "0x1", "\u0661"]
)
def test_parse_quantity_refuses_what_is_none(text: str) -> None:
    """What the server would not take is refused, and so is what would cost memory."""

    with pytest.raises(ValueError, match=r"quantity|exponent"):
        parse_quantity(text)


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_format_quantity_is_canonical_and_loses_nothing(value: int) -> None:
    """What we write the server leaves as it is, and reads as the same number."""

    text = format_quantity(value)

    assert parse_quantity(text) == value
    assert canonical_quantity(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (10**10, "10G"),
        (1_024_000, "1024k"),
        (141 * 2**30, "141Gi"),
        (1500, "1500"),
    ],
)
def test_format_quantity_takes_the_suffix_that_people_read(value: int, text: str) -> None:
    """Powers of ten come first, powers of two where only they divide."""

    assert format_quantity(value) == text


def test_same_quantity_compares_by_value_and_else_by_text() -> None:
    """Two ways to write an amount are one amount; texts that are none must be equal."""

    assert same_quantity("1Gi", "1024Mi")
    assert not same_quantity("1Gi", "1G")
    assert same_quantity("many", "many")
    assert not same_quantity("many", "1")


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    """Garbage never gives another error."""

    try:
        value = parse_quantity(text)
    except ValueError:
        return
    # Rounded up to 1n at the finest.
    assert 0 <= parse_quantity(canonical_quantity(text)) - value < Fraction(1, 10**9)
