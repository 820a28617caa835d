"""The file of devices that rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.config.bind import REST_LIMIT_S
from berth.node.claims.restfile import FILE, RestFile
from berth.runtime.files import Folder


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def test_what_was_written_is_read_as_far_as_it_still_counts(tmp_path: Path) -> None:
    """Who has rested meanwhile is left out; a clock that was ahead lets nobody rest for ever."""
    file = RestFile(Folder(tmp_path / "state"))
    await file.write({"over": 99.0, "now": 100.0, "rests": 150.5, "ahead": 1e12})

    assert await RestFile(Folder(tmp_path / "state")).read(100) == {
        "rests": 150.5,
        "ahead": 100 + REST_LIMIT_S,
    }


async def test_nothing_rests_before_anything_was_written(tmp_path: Path) -> None:
    """As on a new node."""

    assert await RestFile(Folder(tmp_path)).read(100) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"schema": 2, "until": {}}',
        b'{"schema": 1}',
        b'{"schema": 1, "until": {"a": "b"}}',
        b'{"schema": 1, "until": {"a": true}}',
    ],
)
async def test_file_that_cannot_be_used_is_set_aside(tmp_path: Path, data: bytes) -> None:
    """Nothing but a taint depends on it, so the daemon starts all the same."""
    (tmp_path / FILE).write_bytes(data)

    assert await RestFile(Folder(tmp_path)).read(100) == {}
    ((name, kept),) = _files(tmp_path).items()
    assert (name != FILE, kept) == (True, data)


async def test_state_that_cannot_be_written_is_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The device rests in this life."""
    (tmp_path / "state").write_text("a file")
    file = RestFile(Folder(tmp_path / "state"))

    await file.write({"a": 1.0})

    assert "a restart would offer devices that rest" in caplog.text
    assert await file.read(0) == {}
