"""Lives that end at a chosen event: each is a process of its own, forked for one order.

A driver reads an order per line and answers by a line. For each order it forks: it has no thread
and no event loop of its own, so a fork costs some milliseconds where a fresh interpreter costs half
a second, and the child is a whole process that SIGKILL ends between two instructions.

"Before event n" for every n, and after the last, is every state that a crash can leave, since
between two events nothing outside the process changes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[3]


class Fate:
    """Counts events, and ends the process before the one that was chosen.

    Attributes:
        count: Events so far.
        changes: Numbers of those that change something outside the process.
    """

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self.count = 0
        self.changes: list[int] = []

    def event(self, *, changes: bool = True) -> None:
        """Something is about to happen."""
        self.count += 1
        if changes:
            self.changes.append(self.count)
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_calls(self, module: Any, name: str) -> None:
        """Have a function of a module be an event."""
        call = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.event()
            return call(*args, **kwargs)

        setattr(module, name, counted)


Live: TypeAlias = Callable[[dict[str, Any], Fate], None]
"""Lives one life by an order, and returns when it is over."""


def run_child(order: dict[str, Any], live: Live, answer: int) -> None:
    """Live, tell how many events that took, and end without any clearing up."""
    fate = Fate(order.get("kill_at", 0))
    live(order, fate)
    told = {"count": fate.count, "changes": fate.changes}
    os.write(answer, json.dumps(told).encode())
    os._exit(0)


def carry_out(order: dict[str, Any], live: Live) -> dict[str, Any]:
    """Give what became of one order: its events, or that it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            run_child(order, live, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        words = told.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL and order.get("kill_at", 0):
        return {"killed": True}
    if status != 0:
        return {"failed": status}
    return dict(json.loads(words))


def serve(live: Live) -> None:
    """Carry out orders from the standard input until there are none."""
    for line in sys.stdin:
        answer = carry_out(json.loads(line), live)
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer's way


class Driver:
    """The process that makes and ends lives.

    Args:
        module: What it runs; it calls `serve`.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, **words: Any) -> dict[str, Any]:
        """Have one life do some work, and hear what became of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "failed" not in answer, (words, answer)
        return dict(answer)

    def close(self) -> None:
        """End it."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(10)
