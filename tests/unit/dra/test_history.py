"""The names of former nodes on disk."""

import logging
from pathlib import Path

import pytest

from berth.dra.history import FILE, NodeHistory
from berth.runtime.files import Folder


async def test_write_then_read_gives_the_names(tmp_path: Path) -> None:
    """Names survive, sorted, and the folder is made when it is missing."""

    history = NodeHistory(Folder(tmp_path / "state"))

    assert await history.read() == ()
    await history.write({"b", "a"})
    assert await history.read() == ("a", "b")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 2, "names": ["a"]}',
        '{"schema": 1, "names": [1]}',
        '{"schema": 1}',
    ],
)
async def test_read_sets_an_unusable_file_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """A broken file is kept under another name, and told once."""

    (tmp_path / FILE).write_text(text)
    history = NodeHistory(Folder(tmp_path))

    assert await history.read() == ()
    assert await history.read() == ()
    assert (tmp_path / f"{FILE}.bad-1").read_text() == text
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 1


async def test_history_lives_with_a_folder_that_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder in the place of the file costs warnings, not the publication."""

    (tmp_path / FILE).mkdir()
    history = NodeHistory(Folder(tmp_path))

    assert await history.read() == ()
    await history.write({"a"})
    assert "is no regular file" in str([getattr(r, "berth_fields", {}) for r in caplog.records])
