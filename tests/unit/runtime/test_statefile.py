"""Small files of the daemon's own: none, bad ones, and disks that refuse."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from berth.errors import HostError
from berth.model.envelope import Damaged, opened
from berth.runtime.files import Folder, sweep_temporaries
from berth.runtime.statefile import StateFile
from tests.unit.daemon.conftest import journal

NAME = "words.json"
GOOD = b'{"schema": 1, "words": ["a", "b"]}'


def words_in(folder: Path | None) -> StateFile[tuple[str, ...]]:
    """One that has words in it."""
    return StateFile(
        Folder(folder) if folder is not None else None,
        NAME,
        to_bytes=lambda words: json.dumps({"schema": 1, "words": words}).encode(),
        from_bytes=_from_bytes,
        lost="words are lost",
        unwritten="words are not noted down",
    )


def _from_bytes(content: bytes, /, *, where: str) -> tuple[str, ...]:
    words = opened(content, schema=1, where=where).get("words")
    if not isinstance(words, list):
        raise Damaged(where, "has no words")
    return tuple(words)


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def test_what_was_written_last_is_read_by_the_next_process(tmp_path: Path) -> None:
    """Folder and file are for root alone."""

    file = words_in(tmp_path / "state")
    await file.write(("old",))
    await file.write_or_note(("a", "b"))

    assert await words_in(tmp_path / "state").read() == ("a", "b")
    assert _files(tmp_path / "state") == {NAME: GOOD}
    modes = [
        path.stat().st_mode & 0o777 for path in (tmp_path / "state", tmp_path / "state" / NAME)
    ]
    assert modes == [0o700, 0o600]


async def test_missing_file_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As on a new node, with and without the folder."""

    assert await words_in(tmp_path).read() is None
    assert await words_in(tmp_path / "state").read() is None
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is no JSON"),
        (GOOD[:-9], "is no JSON"),
        (b"words: a", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"schema": 1, "words": [NaN]}', "is no JSON"),
        (b"[]", "is no JSON object"),
        (b'{"words": []}', "has no schema number"),
        (b'{"schema": true, "words": []}', "has no schema number"),
        (b'{"schema": 0, "words": []}', "has no schema number"),
        (b'{"schema": 1, "letters": []}', "has no words"),
        (b'{"schema": 2, "words": []}', "has schema 2: this program reads up to 1"),
    ],
)
async def test_file_that_cannot_be_used_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, why: str
) -> None:
    """Damaged or of a newer program: it is kept under another name and told once, with both."""

    (tmp_path / NAME).write_bytes(content)
    file = words_in(tmp_path)

    assert await file.read() is None
    assert await file.read() is None
    await file.write(("a", "b"))
    assert _files(tmp_path) == {NAME: GOOD, f"{NAME}.bad-1": content}
    (line,) = journal(caplog)
    assert line.startswith("words are lost")
    assert f"{tmp_path / NAME}: {why}" in line
    assert f"kept as {tmp_path / NAME}.bad-1" in line


async def test_every_cut_of_a_file_is_set_aside(tmp_path: Path) -> None:
    """No part of it is taken for the whole."""

    for end in range(len(GOOD)):
        (tmp_path / NAME).write_bytes(GOOD[:end])
        assert await words_in(tmp_path).read() is None

    assert len(_files(tmp_path)) == len(GOOD)


async def test_file_that_cannot_be_set_aside_is_told_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that is read-only the daemon starts too."""

    (tmp_path / NAME).write_bytes(b"{")
    monkeypatch.setattr(os, "link", _refuse(errno.EROFS))

    assert await words_in(tmp_path).read() is None
    assert _files(tmp_path) == {NAME: b"{"}
    (line,) = journal(caplog)
    assert "left where it is, since" in line


async def test_what_is_no_file_stays_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows what lies there: a folder in the place of the file is left alone."""

    (tmp_path / NAME).mkdir()
    file = words_in(tmp_path)

    assert await file.read() is None
    await file.write_or_note(("a",))
    read, written = journal(caplog)
    assert read.startswith("words are lost")
    assert "is no regular file" in read
    assert written.startswith("words are not noted down")
    assert (tmp_path / NAME).is_dir()


async def test_folder_that_cannot_be_written_is_told_once_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each write is of the whole value, so one that succeeds makes good for those before it."""

    folder = tmp_path / "state"
    folder.write_bytes(b"no folder")
    file = words_in(folder)
    for _ in range(3):
        await file.write_or_note(("a",))
    with pytest.raises(HostError, match="state"):
        await file.write(("a",))
    assert len(journal(caplog)) == 1

    await trio.Path(folder).unlink()
    await file.write_or_note(("a", "b"))
    assert _files(folder) == {NAME: GOOD}
    assert len(journal(caplog)) == 1

    await trio.Path(folder / NAME).unlink()
    await trio.Path(folder / NAME).mkdir()
    await file.write_or_note(("a",))
    assert len(journal(caplog)) == 2


async def test_full_disk_leaves_what_was_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with how to mend it."""

    file = words_in(tmp_path)
    await file.write(("a", "b"))
    monkeypatch.setattr(os, "fsync", _refuse(errno.ENOSPC))
    await file.write_or_note(("c",))

    assert _files(tmp_path) == {NAME: GOOD}
    (line,) = journal(caplog)
    assert "No space left on device; free space on that file system" in line


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


async def test_crash_before_the_rename_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies with the new content beside the file; the next one reads the old."""

    await words_in(tmp_path).write(("a", "b"))

    def die(_self: Path, *_args: object) -> None:
        raise Crash

    monkeypatch.setattr(os, "rename", die)
    monkeypatch.setattr(os, "unlink", die)
    with pytest.raises(Crash):
        await words_in(tmp_path).write_or_note(("c",))
    monkeypatch.undo()
    assert len(_files(tmp_path)) == 2

    assert await words_in(tmp_path).read() == ("a", "b")
    sweep_temporaries(tmp_path)
    assert _files(tmp_path) == {NAME: GOOD}


async def test_without_a_folder_nothing_is_kept() -> None:
    """Nor is anything told."""

    file = words_in(None)
    await file.write(("a",))

    assert await file.read() is None


def _refuse(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "")

    return refuse
