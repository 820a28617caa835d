"""Adds up what pytest runs counted, from their JUnit files, in one closing line."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def count(files: list[Path]) -> Counter[str]:
    """Give the numbers of tests, failures and skips over all files.

    The files are our own pytest's, so they are read without further care. One that is not there is
    a failure: its run was ended before it could write it, or was never begun.
    """
    total: Counter[str] = Counter()
    for file in files:
        if not file.exists():
            total.update(tests=1, failed=1)
            continue
        for suite in ET.parse(file).getroot().iter("testsuite"):  # noqa: S314 - our own files
            total["tests"] += int(suite.get("tests", 0))
            total["failed"] += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            total["skipped"] += int(suite.get("skipped", 0))
    return total


def main() -> int:
    """Print the line; 1 when anything failed or nothing ran."""
    total = count([Path(name) for name in sys.argv[1:]])
    passed = total["tests"] - total["failed"] - total["skipped"]
    print(f"{passed} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if passed and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
