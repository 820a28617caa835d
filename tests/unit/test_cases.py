"""The table of situations names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

TESTS = Path(__file__).parent.parent
TABLE = TESTS.parent / "docs" / "development" / "cases.md"
CASES = 22


@attrs.frozen
class Case:
    """One row."""

    number: int
    situation: str
    tests: tuple[tuple[str, str], ...]
    waits: str


def read_cases() -> list[Case]:
    """The rows of the table, in its order."""
    rows = re.findall(
        r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) ?\|$",
        TABLE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return [
        Case(int(number), situation, tuple(re.findall(r"`([^`]+)::(\w+)`", proven)), waits)
        for number, situation, proven, waits in rows
    ]


def test_every_case_is_there() -> None:
    """Each has its row, and a row without a test says what it waits for."""

    cases = read_cases()

    assert [case.number for case in cases] == [*range(1, CASES + 1)]
    assert [case.number for case in cases if not case.tests and not case.waits] == []


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: str(case.number))
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
