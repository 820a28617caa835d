"""asyncio's loop in its thread, entered from trio."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import trio

from berth.errors import HostError
from berth.runtime import asyncthread
from berth.runtime.asyncthread import AsyncioThread, enter_trio, open_asyncio_thread


async def _name_of_thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def _fail() -> None:
    await asyncio.sleep(0)
    raise OSError("boom")


async def test_run_gives_result_and_error() -> None:
    """A coroutine runs in the loop's thread; what it returns or raises comes back."""

    async with open_asyncio_thread("berth-test") as thread:
        assert await thread.run(_name_of_thread) == "berth-test"
        assert await thread.call(threading.current_thread) is not threading.current_thread()
        with pytest.raises(OSError, match="boom"):
            await thread.run(_fail)
        await thread.probe()


async def test_run_when_the_caller_is_cancelled() -> None:
    """The caller goes on at once, and the coroutine is told to end."""

    ended = threading.Event()
    began = trio.Event()
    token = trio.lowlevel.current_trio_token()

    async def hang() -> None:
        enter_trio(token, began.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with open_asyncio_thread() as thread:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, hang)
            await began.wait()
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(ended.wait)


async def test_run_when_cancelled_before_it_began() -> None:
    """A cancel that overtakes the start loses nothing."""

    async with open_asyncio_thread() as thread:
        with trio.CancelScope() as scope:
            scope.cancel()
            await thread.run(_name_of_thread)
        assert scope.cancelled_caught
        await thread.probe()


async def test_end_when_calls_are_under_way() -> None:
    """The end of the loop ends what runs on it, and the caller is told."""

    thread = AsyncioThread("berth-test")
    thread.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expect_stop, thread)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.to_thread.run_sync(thread.stop)
    with pytest.raises(HostError, match="its loop has ended"):
        await thread.probe()
    assert not thread.post(print)


async def _expect_stop(thread: AsyncioThread) -> None:
    with pytest.raises(HostError, match="its loop was stopped under a call"):
        await thread.run(asyncio.sleep, 3600)


async def test_end_when_a_coroutine_does_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine that ignores its end delays the loop's end, within bounds."""

    monkeypatch.setattr(asyncthread, "JOIN_LIMIT_S", 0.1)
    began = trio.Event()
    token = trio.lowlevel.current_trio_token()
    release = threading.Event()

    async def ignore() -> None:
        enter_trio(token, began.set)
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    thread = AsyncioThread("berth-test")
    thread.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, ignore)
        await began.wait()
        with trio.fail_after(5):
            await trio.to_thread.run_sync(thread.stop)
        nursery.cancel_scope.cancel()
    release.set()


def test_enter_trio_when_the_run_is_over() -> None:
    """A thread that comes too late is told so."""

    async def give_token() -> trio.lowlevel.TrioToken:
        await trio.lowlevel.checkpoint()
        return trio.lowlevel.current_trio_token()

    assert not enter_trio(trio.run(give_token), print)
