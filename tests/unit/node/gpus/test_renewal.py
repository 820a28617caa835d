"""When a new process is due for the driver's library."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from berth.host.nvml.session import Session, SessionState
from berth.node.gpus.renewal import FILE, PATIENCE_S, Renewal

NEXT = "8:580.82.07"


class Differing:
    """NVML's owner, as far as its state and its file go.

    Attributes:
        found: What only a new process could load.
        asked: How often that was asked.
        asked_twice: Set then.
    """

    def __init__(self, found: str = NEXT) -> None:
        self.session = Session(state=SessionState.MISMATCH)
        self.version = 0
        self.found = found
        self.asked = 0
        self.asked_twice = trio.Event()
        self._changed = trio.Event()

    def become(self, state: SessionState) -> None:
        """The session is like this now."""
        self.session = Session(state=state)
        self.version += 1
        self._changed.set()
        self._changed = trio.Event()

    async def wait_session_changed(self, since: int) -> int:
        """Wait for a change."""
        while self.version <= since:
            await self._changed.wait()
        return self.version

    async def successor(self) -> str:
        """Say what the disk has."""
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if self.asked == 2:
            self.asked_twice.set()
        return self.found


async def process(nvml: Differing, folder: Path) -> str:
    """Let one process look until it has asked twice; gives for what it would have ended.

    Files are read and written by threads, for which no clock waits: what is waited for is an event.
    """
    renewal = Renewal(folder)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewal.follow, nvml)
        await nvml.asked_twice.wait()
        nursery.cancel_scope.cancel()
    return renewal.due.get()


async def test_lasting_mismatch_asks_for_a_new_process_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """The process after it finds the same, and lives on; another library is another matter."""

    assert await process(Differing(), tmp_path) == NEXT
    assert (tmp_path / FILE).read_text() == NEXT
    assert await process(Differing(), tmp_path) == ""
    assert await process(Differing("9:590.1.2"), tmp_path) == "9:590.1.2"


async def look(nvml: Differing) -> None:
    """Look for a while, and remember nothing."""
    with trio.move_on_after(10 * PATIENCE_S):
        await Renewal(None).follow(nvml)


@pytest.mark.parametrize(
    "state", [SessionState.UP, SessionState.LIBRARY_ABSENT, SessionState.RELEASED]
)
async def test_other_states_ask_for_none(autojump_clock: MockClock, state: SessionState) -> None:
    """Nor is the disk looked at."""

    nvml = Differing()
    nvml.become(state)
    await look(nvml)

    assert nvml.asked == 0


async def test_mismatch_that_passes_asks_for_none(autojump_clock: MockClock) -> None:
    """Library and module are replaced one after the other, so for a moment they differ."""

    nvml = Differing()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look, nvml)
        await trio.sleep(PATIENCE_S / 2)
        nvml.become(SessionState.UP)

    assert nvml.asked == 0


async def test_mismatch_without_another_file_is_looked_at_again(autojump_clock: MockClock) -> None:
    """The package may put its library there a little later."""

    nvml = Differing("")
    renewal = Renewal(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewal.follow, nvml)
        await trio.sleep(3 * PATIENCE_S + 1)
        assert (renewal.due.get(), nvml.asked) == ("", 3)
        nvml.found = NEXT
        assert await renewal.due.wait_value(bool) == NEXT
        nursery.cancel_scope.cancel()


async def test_rubbish_in_its_file_is_no_memory(autojump_clock: MockClock, tmp_path: Path) -> None:
    """It is told, and what is found counts as new."""

    (tmp_path / FILE).write_bytes(b"\x00\xff" * 500)

    assert await process(Differing(), tmp_path) == NEXT


async def test_disk_that_takes_no_memory_asks_for_no_new_process(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """The next one would find the same and end for it, and so would each after it."""

    folder = tmp_path / "state"
    folder.write_text("a file where the folder should be")

    assert await process(Differing(), folder) == ""
    folder.unlink()
    assert await process(Differing(), folder) == NEXT
