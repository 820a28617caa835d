"""Signs of life from a thread that makes many calls in a row: each that came back is one.

A description of a GPU takes some dozens of calls. Judged by its whole, a GPU that hangs in the
midst of one would be waited for as long as a slow one that answers each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Listener(threading.local):
    """Who listens to this thread."""

    moved: Callable[[], None] | None = None


_listener = _Listener()


def listen(moved: Callable[[], None]) -> None:
    """Have every sign of this thread told from now on, in this thread."""
    _listener.moved = moved


def came_back() -> None:
    """A call of this thread came back, whatever it gave."""
    if _listener.moved is not None:
        _listener.moved()
