"""Rules for names, and names made from what a machine says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.errors import printable
from berth.model.names import LABEL_LIMIT, device_name, is_dns_label


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ens1f0", "ens1f0"),
        ("address 192.0.2.7 → ens1f0", "address 192.0.2.7 → ens1f0"),
        ("größe", "größe"),
        ("ens\udcff", "ens\\udcff"),
        ("a\x1b[2J\nb", "a\\x1b[2J\\nb"),
    ],
)
def test_text_is_shown_as_it_is_where_it_can_be(text: str, shown: str) -> None:
    """The rest is escaped sign by sign."""

    assert printable(text) == shown


@given(st.text(st.characters()))
def test_shown_text_is_always_printable(text: str) -> None:
    """And can be written as UTF-8."""

    shown = printable(text)

    assert shown.isprintable()
    assert shown.encode().decode() == shown


@given(st.text(st.characters(codec="utf-8")))
def test_device_name_is_a_label_whatever_the_thing_is_called(text: str) -> None:
    """And never longer than one."""

    name = device_name("nic", text)

    assert is_dns_label(name)
    assert len(name) <= LABEL_LIMIT


def test_long_names_that_differ_at_their_end_stay_two() -> None:
    """The hash is of the whole."""

    one, other = (device_name("nic", "a" * 80 + end) for end in "bc")

    assert one != other
    assert one[:54] == other[:54]
