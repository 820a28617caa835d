"""What the tools that make a page of docs/reference share: where it lies, and the way to run them.

Usage of each: ``python -m tools.NAME [--check]``; with ``--check`` nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "docs" / "reference"


def make(page: Path, render: Callable[[], str], arguments: Sequence[str]) -> int:
    """Write a page, or with ``--check`` compare it.

    Args:
        render: Gives the whole page.

    Returns:
        1 when the page on disk is not current.
    """
    wanted = render()
    if "--check" not in arguments:
        page.write_text(wanted, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{page} is not current: run `make docs`", file=sys.stderr)
    return 1
