"""Bandwidth as it is written, in bit/s."""

from __future__ import annotations

import pytest

from berth.config.bandwidth import BANDWIDTH
from tests.unit.config.reading import read_value

RULE = 'it must be a whole number with M, G or T, in bit/s, such as "25G"'


@pytest.mark.parametrize(
    ("text", "value"),
    [("1M", 10**6), ("25G", 25 * 10**9), ("999999T", 999_999 * 10**12), ("1500M", 1_500_000_000)],
)
def test_bandwidth_is_read_in_bits_per_second(text: str, value: int) -> None:
    """The prefixes are decimal, as link speeds are."""

    assert (value, []) == read_value(BANDWIDTH, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("25 Gbit", f'is "25 Gbit": {RULE}; write "25G"'),
        ("25g", f'is "25g": {RULE}; write "25G"'),
        ("100Mbps", f'is "100Mbps": {RULE}; write "100M"'),
        ("0G", f'is "0G": {RULE}'),
        ("2.5G", f'is "2.5G": {RULE}'),
        ("25Gi", f'is "25Gi": {RULE}'),
        ("-1G", f'is "-1G": {RULE}'),
        ("25", f'is "25": {RULE}'),
        ("1234567M", f'is "1234567M": {RULE}'),
    ],
)
def test_bandwidth_is_refused_in_any_other_notation(text: str, words: str) -> None:
    """What was probably meant is offered where it is clear."""

    assert [words] == read_value(BANDWIDTH, text)[1]
