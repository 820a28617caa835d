"""Writes figures to a file again and again, for a collector on the machine that reads it.

A disk that refuses, or does not answer, is told once and tried again with the next write; the old
file stays meanwhile, and its age tells that nobody writes it.

Source: node_exporter's textfile collector, which wants each file whole, and readable by its user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from berth.errors import HostError
from berth.runtime.files import write_file
from berth.runtime.logs import get_log
from berth.runtime.threads import thread_limiter

EVERY_S: Final = 15.0
"""Between two writes, in seconds."""

WRITE_S: Final = 5.0
"""How long one may take before it is told, in seconds."""

MODE: Final = 0o644

_log = get_log(__name__)


async def _aside(write: Callable[[], None]) -> None:
    """Write in a thread, which is left alone when that takes too long.

    Nothing waits for this file, least of all a stop. The next write waits for that thread, so that
    there is one at a time.
    """
    await trio.to_thread.run_sync(
        write, abandon_on_cancel=True, limiter=thread_limiter("textfile", total=1)
    )


class Textfile:
    """One file.

    Args:
        path: Where; its folder has to be there.
        text: Gives the page of now.
        aside: Runs what blocks; tests with a clock of their own run it at once.
    """

    def __init__(
        self,
        path: Path,
        text: Callable[[], bytes],
        *,
        aside: Callable[[Callable[[], None]], Awaitable[None]] = _aside,
    ) -> None:
        self._path = path
        self._text = text
        self._aside = aside
        self._told = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; started when it was tried for the first time."""
        await self._try_write()
        task_status.started()
        while True:
            await trio.sleep(EVERY_S)
            await self._try_write()

    async def _try_write(self) -> None:
        fault = await self._write()
        if fault and fault != self._told:
            _log.warning("figures not written, trying again", reason=fault, every_s=EVERY_S)
        elif self._told and not fault:
            _log.info("figures are written again", path=self._path)
        self._told = fault

    async def _write(self) -> str:
        """Write once; gives what went wrong."""
        write = partial(write_file, self._path, self._text(), mode=MODE, durable=False)
        with trio.move_on_after(WRITE_S):
            try:
                await self._aside(write)
            except HostError as error:
                return str(error)
            return ""
        return f"{self._path}: the disk did not answer within {WRITE_S:.0f} s"
