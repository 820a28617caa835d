"""The tables of situations, faults and bad input name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

TESTS = Path(__file__).parent.parent
TABLES = TESTS.parent / "docs" / "development" / "cases.md"
CASES = (
    *(str(number) for number in range(1, 23)),
    *(f"T{number}" for number in (*range(1, 12), 13, 14, 16, 17, 18, 19)),
    *(f"F{number}" for number in range(1, 26)),
    *(f"M{number}" for number in range(1, 10)),
    *(f"N{number}" for number in (2, 3, 5, 6, 12, 18, 19, *range(21, 25), *range(28, 32), 34)),
    *(f"B{number}" for number in range(1, 13)),
    *(f"S{number}" for number in range(1, 11)),
    *(f"P{number}" for number in range(1, 10)),
)


@attrs.frozen
class Case:
    """One row."""

    number: str
    situation: str
    tests: tuple[tuple[str, str], ...]
    waits: str


def read_cases() -> list[Case]:
    """The rows of the tables, in their order."""
    rows = re.findall(
        r"^\| ([TFMNBSP]?\d+) \| (.*?) \| (.*?) \| (.*?) ?\|$",
        TABLES.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return [
        Case(number, situation, tuple(re.findall(r"`([^`]+)::(\w+)`", proven)), waits)
        for number, situation, proven, waits in rows
    ]


def test_every_case_is_there() -> None:
    """Each has its row, and a row without a test says what it waits for."""

    cases = read_cases()

    assert [case.number for case in cases] == [*CASES]
    assert [case.number for case in cases if not case.tests and not case.waits] == []


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.number)
def test_tests_of_a_case_exist(case: Case) -> None:
    """Whoever renames a test, or takes it away, is told which situation it proved."""

    missing = [
        f"{file}::{name}"
        for file, name in case.tests
        if not (TESTS / file).is_file()
        or not re.search(
            rf"^(async )?def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE
        )
    ]

    assert missing == [], case.situation
