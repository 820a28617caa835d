"""Reads pieces of configuration as the loader does, for tests that look at one table or form."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from berth.config.decode import Table
from berth.config.document import parse
from berth.config.finding import Cursor, tell
from berth.config.forms import Form
from berth.config.load import Report, check
from berth.config.locate import scan

T = TypeVar("T")


def read_value(form: Form[T], value: object) -> tuple[T | None, list[str]]:
    """What a form makes of a value, and what it says of it, less the place."""
    cursor = Cursor(steps=("t", "key"))
    read = form.read(value, cursor)
    return read, [told(cursor, number) for number in range(len(cursor.findings))]


def read_table(kind: type[T], text: str) -> tuple[T | None, list[str]]:
    """What a table class makes of the TOML text of its keys, and what it says of it."""
    document = parse(text)
    cursor = Cursor(spots=scan(text, document))
    read = Table(kind).read(document, cursor)
    return read, [
        f"{tell(finding.steps, document)} {told(cursor, number)}".strip()
        for number, finding in enumerate(cursor.findings)
    ]


def told(cursor: Cursor, number: int) -> str:
    """One finding in the words of a message: found, rule, mend."""
    finding = cursor.findings[number]
    rule = f": {finding.rule}" if finding.rule else ""
    mend = f"; {finding.mend}" if finding.mend else ""
    return f"{finding.found}{rule}{mend}"


def check_text(folder: Path, text: str | bytes) -> Report:
    """The report on a file that holds the text; its name is ``agent.toml``."""
    path = folder / "agent.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return check(path)


def faults(report: Report) -> list[str]:
    """The faults of a report, less the folder of the file."""
    return [str(fault).removeprefix(f"{report.path.parent}/") for fault in report.faults]
