"""The names of former nodes on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.dra.history import FILE, node_history
from berth.runtime.files import Folder


async def test_names_are_read_as_they_were_written(tmp_path: Path) -> None:
    """In the form that every release wrote."""

    await node_history(Folder(tmp_path / "state")).write(frozenset({"b", "a"}))

    assert await node_history(Folder(tmp_path / "state")).read() == frozenset({"a", "b"})
    file = tmp_path / "state" / FILE
    assert file.read_bytes() == b'{"schema": 1, "names": ["a", "b"]}'
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    ['{"schema": 1}', '{"schema": 1, "names": [1]}', '{"schema": 1, "names": [""]}', "[" * 60_000],
)
async def test_file_without_names_is_told_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """The clean-up goes without."""

    (tmp_path / FILE).write_text(text)

    assert await node_history(Folder(tmp_path)).read() is None
    assert (tmp_path / f"{FILE}.bad-1").read_text() == text
    assert "names of former nodes are lost" in caplog.text
