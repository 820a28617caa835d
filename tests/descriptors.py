"""What this process has open, for tests that look for a leak."""

from __future__ import annotations

from pathlib import Path


def open_descriptors() -> frozenset[tuple[str, str]]:
    """Give each descriptor of this process with what it is open on.

    An earlier test's gRPC threads may close theirs at any moment, so two counts need not agree
    where nothing leaked: ask what is open now that was not, or whether many rounds left more.
    """
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add((entry.name, str(entry.readlink())))
        except FileNotFoundError:  # Closed since, as the descriptor of this listing is.
            continue
    return frozenset(found)
