"""One value over restarts, bad files, and disks that refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from berth.errors import HostError, StateError
from berth.node.records.kept import Kept
from berth.runtime.files import Folder
from berth.runtime.statefile import StateFile

NAME = "names.json"


def kept(folder: Path | None) -> Kept[tuple[str, ...]]:
    """One that keeps words."""
    return Kept(
        (),
        StateFile(
            Folder(folder) if folder is not None else None,
            NAME,
            to_bytes=lambda words: json.dumps(words).encode(),
            from_bytes=_words,
            lost="words are lost",
            unwritten="words are not noted down",
        ),
    )


def _words(content: bytes, /, *, where: str) -> tuple[str, ...]:
    try:
        return tuple(json.loads(content))
    except ValueError as error:
        raise StateError(where, "is no JSON") from error


async def test_value_outlives_the_process(tmp_path: Path) -> None:
    """What was kept, and what was changed after that; an equal value is not written again."""

    first, second = kept(tmp_path / "state"), kept(tmp_path / "state")
    await first.keep(("a", "b"))
    await first.change(lambda words: words[1:])
    await trio.Path(tmp_path / "state" / NAME).chmod(0o640)
    await first.keep(("b",))
    await second.recall()

    assert first.value == second.value == ("b",)
    assert (tmp_path / "state" / NAME).stat().st_mode & 0o777 == 0o640


async def test_unreadable_file_is_told_and_learnt_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for somebody to mend it."""

    await trio.Path(tmp_path / NAME).write_bytes(b"{")
    words = kept(tmp_path)
    await words.recall()

    assert words.value == ()
    assert (tmp_path / f"{NAME}.bad-1").read_bytes() == b"{"
    assert "words are lost" in caplog.text


async def test_disk_that_refuses_keeps_nothing_from_being_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was learnt is told to be unwritten; what somebody asked for is not done."""

    (tmp_path / "state").write_bytes(b"no folder")
    words = kept(tmp_path / "state")
    await words.keep(("a",))
    assert "words are not noted down" in caplog.text
    with pytest.raises(HostError):
        await words.change(lambda _: ())

    assert words.value == ("a",)


async def test_what_is_learnt_during_a_change_stays(tmp_path: Path) -> None:
    """Both are in memory and on the disk, whoever was first to write."""

    words, again = kept(tmp_path), kept(tmp_path)
    await words.keep(("a", "b"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(words.change, lambda known: tuple(w for w in known if w != "a"))
        nursery.start_soon(words.keep, ("a", "b", "c"))
    await again.recall()

    assert words.value == again.value == ("b", "c")


async def test_without_a_folder_nothing_is_written() -> None:
    """It is known as long as the process lives."""

    words = kept(None)
    await words.recall()
    await words.keep(("a",))
    await words.change(lambda known: (*known, "b"))

    assert words.value == ("a", "b")
