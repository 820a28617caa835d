"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    WELL = 0
    FINDING = 1
    """Something is wrong that was asked about, or what was asked for was refused."""
    USAGE = 2
    """The command line or the configuration is wrong."""
    NO_DAEMON = 3
    INTERRUPTED = 130
    """By Ctrl-C; shells give 128 and the signal's number."""
    CUT_OFF = 141
    """Whoever read the output has gone; shells give the same."""
