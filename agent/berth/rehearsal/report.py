"""What the audience sees: plain lines with times, for a terminal and for a CI log alike."""

from __future__ import annotations

import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Final, TextIO

from berth.errors import BerthError, Faults, printable
from berth.runtime.streams import unheard

WIDTH: Final = 100
"""Columns of a page."""

_INDENT: Final = " " * 4
_LEAF: Final = re.compile(r"([{\[])\s+([^{}\[\]]*?)\s+([}\]])")

_BREAK: Final = re.compile(r"\s*\n\s*")


def compact(text: str) -> str:
    """Indented JSON with its innermost objects and lists on one line each."""
    return _LEAF.sub(lambda m: f"{m[1]}{_BREAK.sub(' ', m[2])}{m[3]}", text)


class Report:
    """Prints the story as it goes.

    Args:
        out: Where to.
        clock: Seconds, from any point on.
    """

    def __init__(
        self, out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out
        self._clock = clock
        self._began = clock()
        self._last = self._began

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def say(self, text: str = "") -> None:
        """Print a line, or several; what is in them from outside steers no terminal.

        Raises:
            Unheard: It cannot be written; so say all that print.
        """
        try:
            self._out.writelines(f"{printable(line)}\n" for line in text.split("\n"))
            self._out.flush()
        except OSError as error:
            raise unheard(error) from error

    def quote(self, text: str, *, title: str = "") -> None:
        """Print somebody else's text, set off."""
        if title:
            self.say(f"{_INDENT}{title}")
        self.say("\n".join(f"{_INDENT}| {line}".rstrip() for line in text.splitlines()))

    def mark(self) -> None:
        """Begin to count the time of the next stage from now."""
        self._last = self._clock()

    def stage(self, name: str, *found: str) -> None:
        """Print a stage that was reached and verified, with its moment and how long it took."""
        now = self._clock()
        head = f"{now - self._began:7.3f} s {1000 * (now - self._last):6.0f} ms  "
        self._last = now
        first, *more = found or ("",)
        lines = self._wrapped(f"{head}{name:<12}", first)
        for one in more:
            lines += self._wrapped(" " * (len(head) + 12), one)
        self.say("\n".join(lines))

    def failure(self, stage: str, error: BerthError) -> None:
        """Print what went wrong in which stage."""
        faults: Iterable[BerthError] = error.faults if isinstance(error, Faults) else (error,)
        self.say(f"\nFAILED in stage {stage!r} after {self.elapsed_s:.1f} s")
        for fault in faults:
            self._point("where", fault.where or stage)
            self._point("found", fault.found)
            self._point("expected", fault.rule)
            self._point("mend", fault.mend)

    def _point(self, word: str, text: str) -> None:
        """Print one point of a fault, each of its lines set off; nothing for no text."""
        for number, line in enumerate(text.splitlines()):
            head = f"  {word:<10}" if not number else " " * 10 + "- "
            self.say("\n".join(self._wrapped(head, line)))

    def _wrapped(self, head: str, text: str) -> list[str]:
        return textwrap.wrap(
            text,
            WIDTH,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [head.rstrip()]
