"""Lists of numbers as the kernel writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model.numa import cpus_text, numbers_text, parse_numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        ("", ()),
        ("\n", ()),
        ("8,0-1\n", (0, 1, 8)),
        ("3-1", ()),
        ("a-b", ()),
        ("1-", ()),
        ("-1", ()),
    ],
)
def test_parse_numbers_reads_a_list_and_nothing_else(text: str, numbers: tuple[int, ...]) -> None:
    """What is no list has no numbers."""

    assert parse_numbers(text) == numbers


@given(st.frozensets(st.integers(min_value=0, max_value=300)))
def test_numbers_text_is_read_back(numbers: frozenset[int]) -> None:
    """Every set of numbers has one text."""

    assert parse_numbers(numbers_text(numbers)) == tuple(sorted(numbers))


def test_cpus_text_counts() -> None:
    """One is no several."""

    assert (cpus_text([4]), cpus_text({3, 2, 1})) == ("CPU 4", "CPUs 1-3")
