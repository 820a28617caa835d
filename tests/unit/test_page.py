"""Pages that the code makes are written, and seen to be old, in one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.page import make


def test_page_that_is_absent_or_old_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing it anew mends that, and comparing writes nothing."""

    page = tmp_path / "page.md"

    assert make(page, lambda: "new\n", ["--check"]) == 1
    assert not page.exists()
    page.write_text("old", encoding="utf-8")
    assert make(page, lambda: "new\n", ["--check"]) == 1
    assert capsys.readouterr().err == f"{page} is not current: run `make docs`\n" * 2
    assert make(page, lambda: "new\n", []) == 0
    assert page.read_bytes() == b"new\n"
    assert make(page, lambda: "new\n", ["--check"]) == 0
