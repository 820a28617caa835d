"""asyncio's loop in one daemon thread of its own, for the library that knows nothing else.

trio owns the program. A task enters the loop by `AsyncioThread.run` and waits for its coroutine;
callbacks cross by `AsyncioThread.post` one way and ``TrioToken.run_sync_soon`` the other, and
nothing that crosses may raise: in trio that would end the whole run, in asyncio it would be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

import trio

from berth.errors import HostError

P = ParamSpec("P")
T = TypeVar("T")

JOIN_LIMIT_S: Final = 2.0
"""How long the end of the thread is waited for, in seconds."""


class AsyncioThread:
    """The loop and its thread, once `open_asyncio_thread` has started it.

    Args:
        name: Name of the thread, for debuggers and ``/proc``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def run(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine on the loop, and give its result or raise its error.

        When the caller is cancelled the coroutine is told to end, and is not waited for: a
        coroutine that hangs cannot hold trio up.

        Raises:
            HostError: The loop was stopped before the coroutine ended.
        """
        token = trio.lowlevel.current_trio_token()
        ended = trio.Event()
        jobs: list[asyncio.Task[T]] = []

        def begin() -> None:
            job = self._loop.create_task(function(*args, **kwargs))
            job.add_done_callback(tell)
            jobs.append(job)

        def tell(_job: asyncio.Task[T]) -> None:
            enter_trio(token, ended.set)

        def give_up() -> None:
            for job in jobs:
                job.cancel()

        if not self.post(begin):
            raise HostError(self._name, "its loop has ended")
        try:
            await ended.wait()
        finally:
            if not ended.is_set():
                self.post(give_up)
        if jobs[0].cancelled():
            raise HostError(self._name, "its loop was stopped under a call")
        return jobs[0].result()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function on the loop, and give its result or raise its error."""

        async def step() -> T:
            await asyncio.sleep(0)
            return function(*args, **kwargs)

        return await self.run(step)

    def post(self, function: Callable[..., object], *args: object) -> bool:
        """Call a function, which must not raise, on the loop soon; from any thread.

        Returns:
            False when the loop has ended and nothing will be called.
        """
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    async def probe(self) -> None:
        """Return once the loop has taken a turn; a watchdog asks this."""
        await self.run(asyncio.sleep, 0)

    def start(self) -> None:
        """Start the thread; `open_asyncio_thread` does."""
        self._thread.start()

    def stop(self) -> None:
        """Cancel what still runs, end the loop and wait for the thread, at most `JOIN_LIMIT_S`.

        Blocks; `open_asyncio_thread` calls it in a worker thread.
        """
        self.post(lambda: self._loop.create_task(self._wind_up()))
        self._thread.join(JOIN_LIMIT_S)

    async def _wind_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=JOIN_LIMIT_S / 2)
        self._loop.stop()


def enter_trio(token: trio.lowlevel.TrioToken, function: Callable[[], object]) -> bool:
    """Call a function, which must not raise, in trio soon; from any thread.

    Returns:
        False when that trio run is over and nothing will be called.
    """
    try:
        token.run_sync_soon(function)
    except trio.RunFinishedError:
        return False
    return True


@contextlib.asynccontextmanager
async def open_asyncio_thread(name: str = "berth-asyncio") -> AsyncIterator[AsyncioThread]:
    """Run asyncio's loop in a thread while the block runs; one for the process is meant.

    Leaving the block waits for the thread, bounded; a cancel does not cut that short.
    """
    thread = AsyncioThread(name)
    thread.start()
    try:
        yield thread
    finally:
        with trio.move_on_after(JOIN_LIMIT_S + 1, shield=True):
            await trio.to_thread.run_sync(thread.stop, abandon_on_cancel=True)
