"""The file of figures: whole, readable by its collector, and told once when it cannot be."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.metrics.textfile import EVERY_S, WRITE_S, Textfile


async def _at_once(write: Callable[[], None]) -> None:
    """Write in the task itself: a thread would not wait for a clock that jumps."""
    await trio.lowlevel.checkpoint()
    write()


class Clockwork:
    """Gives another page each time."""

    def __init__(self) -> None:
        self.made = 0

    def text(self) -> bytes:
        """The next page."""
        self.made += 1
        return f"berth_ready {self.made}\n".encode()


async def test_file_is_written_again_and_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    """For everybody to read, whatever the daemon's umask."""
    path = tmp_path / "berth.prom"
    pages = Clockwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(Textfile(path, pages.text, aside=_at_once).run)
        first = path.read_bytes()
        await trio.sleep(2 * EVERY_S + 1)
        nursery.cancel_scope.cancel()

    assert first == b"berth_ready 1\n"
    assert path.read_bytes() == b"berth_ready 3\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["berth.prom"]  # noqa: PTH208 - a list of names is wanted


async def test_folder_that_is_missing_is_told_once(
    tmp_path: Path,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And once that it is there: what has not changed is no news."""
    caplog.set_level("INFO")
    folder = tmp_path / "collector"
    path = folder / "berth.prom"
    async with trio.open_nursery() as nursery:
        await nursery.start(Textfile(path, Clockwork().text, aside=_at_once).run)
        await trio.sleep(4 * EVERY_S + 1)
        folder.mkdir()
        await trio.sleep(4 * EVERY_S)
        nursery.cancel_scope.cancel()

    assert [record.message.partition(" reason")[0] for record in caplog.records] == [
        "figures not written, trying again",
        "figures are written again",
    ]
    assert path.read_bytes() == b"berth_ready 9\n"


async def test_disk_that_hangs_is_told_once_and_holds_up_nobody(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even a stop."""

    async def never(_write: Callable[[], None]) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(Textfile(tmp_path / "berth.prom", Clockwork().text, aside=never).run)
        waited_s = trio.current_time() - began
        await trio.sleep(4 * EVERY_S)
        nursery.cancel_scope.cancel()

    assert waited_s == WRITE_S
    (record,) = caplog.records
    assert "the disk did not answer within 5 s" in str(record.__dict__)
