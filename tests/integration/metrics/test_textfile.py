"""The file of figures on disks that are full or read-only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.metrics.textfile import EVERY_S, Textfile
from tests.integration.node.disks import small_disk

pytestmark = pytest.mark.root

PAGE = b"berth_ready 1\n" * 1000


async def at_once(write: Callable[[], None]) -> None:
    """Write in the task itself: a thread would not wait for a clock that jumps."""
    await trio.lowlevel.checkpoint()
    write()


@pytest.mark.parametrize(
    ("state", "words"),
    [("full", "No space left on device"), ("read_only", "Read-only file system")],
)
async def test_disk_that_refuses_is_told_once_and_keeps_the_old_file(
    state: str,
    words: str,
    tmp_path: Path,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is tried again all the while, and nothing of the tries is left."""
    with small_disk(tmp_path / "disk") as disk:
        path = disk.path / "berth.prom"
        async with trio.open_nursery() as nursery:
            await nursery.start(Textfile(path, lambda: PAGE, aside=at_once).run)
            with getattr(disk, state)():
                await trio.sleep(4 * EVERY_S + 1)
            assert path.read_bytes() == PAGE
            await trio.sleep(EVERY_S)
            nursery.cancel_scope.cancel()
        left = sorted(each.name for each in disk.path.iterdir())

    assert left == ["berth.prom"]
    (record,) = (each for each in caplog.records if each.levelname == "WARNING")
    assert words in str(record.__dict__)
