"""What this process has open, for tests that look for a leak."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

PATIENCE_S = 5.0
"""How long a thread of an earlier test may hold something open."""


def open_descriptors() -> frozenset[tuple[str, str]]:
    """Give each descriptor of this process with what it is open on.

    An earlier test's gRPC threads may close theirs at any moment, so two counts need not agree
    where nothing leaked: ask what is open now that was not, or whether many rounds left more.
    """
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:  # Closed since.
            continue
        # That of this listing has another number each time that a thread closed one meanwhile.
        if not target.startswith("/proc/") or not target.endswith("/fd"):
            found.add((entry.name, target))
    return frozenset(found)


def left_open(before: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Give what is open that was not; what another thread opens for a moment is waited out."""
    end = time.monotonic() + PATIENCE_S
    while (found := open_descriptors() - before) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def inotify_watches(process: int | str = "self") -> tuple[int, ...]:
    """How many folders each inotify instance of a process watches."""
    found = []
    for entry in Path(f"/proc/{process}/fd").iterdir():
        # One may be closed between the list and the look.
        with contextlib.suppress(FileNotFoundError):
            if str(entry.readlink()) == "anon_inode:inotify":
                info = Path(f"/proc/{process}/fdinfo/{entry.name}").read_text(encoding="ascii")
                found.append(info.count("inotify wd:"))
    return tuple(found)
