"""The newest value to many readers."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from berth.runtime.latest import Latest


def test_set_when_nobody_reads() -> None:
    """Setting needs no reader and no running loop."""

    latest = Latest(0)

    told = [latest.set(value) for value in (1, 1, 2)]

    assert told == [True, False, True]
    assert (latest.get(), latest.version) == (2, 2)


async def test_wait_changed_when_version_is_old() -> None:
    """A reader that missed a change is told at once."""

    latest = Latest("a")
    latest.set("b")

    assert await latest.wait_changed(0) == 1


async def test_wait_changed_when_set_later() -> None:
    """A waiting reader wakes with the version of the new value."""

    latest = Latest("a")
    seen: list[int] = []

    async def read() -> None:
        seen.append(await latest.wait_changed(0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        assert latest.statistics().readers == 1
        latest.set("b")

    assert seen == [1]


async def test_equal_value_when_readers_wait() -> None:
    """An equal value wakes nobody."""

    latest = Latest((1, 2))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(latest.wait_changed, 0)
        await wait_all_tasks_blocked()
        latest.set((1, 2))
        await wait_all_tasks_blocked()

        assert latest.statistics().readers == 1
        nursery.cancel_scope.cancel()


async def test_changes_when_reader_is_slow() -> None:
    """A slow reader skips to the newest value, and a fast one sees each."""

    latest = Latest(0)
    slow: list[int] = []
    fast: list[int] = []

    async def read(into: list[int], pause_turns: int) -> None:
        async for value in latest.changes():
            into.append(value)
            for _ in range(pause_turns):
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, slow, 40)
        nursery.start_soon(read, fast, 0)
        for value in range(1, 5):
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            latest.set(value)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert fast == [0, 1, 2, 3, 4]
    assert slow[0] == 0
    assert slow[-1] == 4
    assert len(slow) < 5


async def test_wait_value_when_condition_comes_true() -> None:
    """A reader may wait for the first value that meets a condition."""

    latest: Latest[int | None] = Latest(None)
    seen: list[int | None] = []

    async def read() -> None:
        seen.append(await latest.wait_value(lambda value: value is not None and value > 1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for value in (1, 2):
            await wait_all_tasks_blocked()
            latest.set(value)

    assert seen == [2]


async def test_wait_value_when_it_holds_already() -> None:
    """A condition that holds is answered at once, after one turn of the loop."""

    latest = Latest(5)

    with trio.testing.assert_checkpoints():
        assert await latest.wait_value(lambda value: value == 5) == 5


async def test_wait_changed_when_cancelled() -> None:
    """A reader that gives up leaves nothing behind."""

    latest = Latest(0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await latest.wait_changed(0)

    assert scope.cancelled_caught
    assert latest.statistics().readers == 0


@pytest.mark.parametrize("sets", [1, 1000])
async def test_sets_in_a_row_wake_a_reader_once(sets: int) -> None:
    """Many values set in one turn are one change to a reader."""

    latest = Latest(0)
    wakes = 0

    async def read() -> None:
        nonlocal wakes
        version = latest.version
        while latest.get() != sets:
            version = await latest.wait_changed(version)
            wakes += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        for value in range(1, sets + 1):
            latest.set(value)

    assert wakes == 1
