"""The daemon: the one place that wires. ``berthd`` calls `main`."""

from __future__ import annotations

from collections.abc import Sequence

from berth.runtime.ownmemory import take_no_more_than_is_used
from berth.runtime.sourcelines import keep_none_of_generated_code

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Load the daemon and run it; gives its exit code (`berth.daemon.start.main`)."""
    take_no_more_than_is_used()
    keep_none_of_generated_code()
    # Imported here: nearly every module of it has attrs generate code.
    from berth.daemon.start import main as run

    return run(argv)
