"""Versions of drivers as semantic versions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.gpu.versions import UNKNOWN, compute_capability, cuda_version, driver_version
from berth.model.device import Version

_STRICT = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("580.65.06", "580.65.6"),
        ("535.104", "535.104.0"),
        ("570", "570.0.0"),
        ("580.65.06-open", "0.0.0"),
        ("1.2.3.4", "0.0.0"),
        ("\u0665\u0668.\u0661", "0.0.0"),
        ("580.65.06\n", "0.0.0"),
        ("", "0.0.0"),
    ],
)
def test_driver_version_is_semantic(text: str, version: str) -> None:
    """Leading zeros go, missing parts are zero, and what has another form is unknown."""

    assert driver_version(text) == Version(version)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[0-9.]{0,70}", fullmatch=True)))
def test_driver_version_of_anything_fits_a_slice(text: str) -> None:
    """Whatever the driver writes, the slice is taken."""

    version = driver_version(text).text
    assert _STRICT.fullmatch(version)
    assert len(version) <= 64


@given(st.integers(0, 999), st.integers(0, 99), st.integers(0, 9))
def test_cuda_version_is_read_from_its_number(major: int, minor: int, rest: int) -> None:
    """13000 is 13.0, and the last digit means nothing."""

    assert cuda_version(major * 1000 + minor * 10 + rest) == Version(f"{major}.{minor}.0")


def test_unknown_numbers_are_neutral() -> None:
    """An attribute stands there all the same."""

    assert cuda_version(None) == cuda_version(-1) == UNKNOWN
    assert compute_capability(None) == compute_capability((-1, 0)) == UNKNOWN
    assert compute_capability((9, 0)) == Version("9.0.0")
