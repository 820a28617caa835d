"""Where commands write: words for people, tables, or JSON for programs.

Names of links and words of kernels come from outside, so nothing that is printed can steer a
terminal. A table that goes into a pipe or a file is as wide as it needs to be, one line per row.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from berth.cli.tabling import tabled
from berth.errors import printable
from berth.runtime.streams import WHERE, Unheard, let_go, unheard

_LEAST_COLUMNS: Final = 80


class Output:
    """What a command says.

    Args:
        out: For what was asked for.
        err: For what went wrong, and for remarks.
        columns: Width of the terminal; ``None`` when ``out`` is none.
    """

    def __init__(self, out: TextIO, err: TextIO, *, columns: int | None = None) -> None:
        self._out = out
        self._err = err
        self._columns = columns

    @classmethod
    def standard(cls) -> Output:
        """The process' own output and error.

        Raises:
            Unheard: There is no output: it was closed before the command began.
        """
        if sys.stdout is None:
            raise Unheard(WHERE, "is closed", mend="give the command somewhere to write")
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal of another encoding shows an escape instead of ending the command.
                stream.reconfigure(errors="backslashreplace")
        size = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return cls(
            sys.stdout, sys.stderr or io.StringIO(), columns=size and max(size, _LEAST_COLUMNS)
        )

    def line(self, text: str = "") -> None:
        """Write one line of the answer."""
        self.raw(f"{printable(text)}\n")

    def json(self, value: Mapping[str, Any]) -> None:
        """Write the answer for programs, to which an escape is the character that it stands for."""
        lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        self.raw("".join(f"{_escaped(line)}\n" for line in lines))

    def remark(self, text: str) -> None:
        """Say one line beside the answer; where nobody can hear it, it is left."""
        try:
            self._err.write(f"{printable(text)}\n")
            self._err.flush()
        except OSError:
            let_go(self._err)

    def raw(self, text: str) -> None:
        """Write what is a document by itself.

        Raises:
            Unheard: It cannot be written; so say all that write.
        """
        try:
            self._out.write(text)
        except OSError as error:
            raise unheard(error) from error

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0
    ) -> None:
        """Write a table; cells that are too long for a terminal are folded."""
        table = [heads, *([printable(cell) for cell in row] for row in rows)]
        width = self._columns and self._columns - indent
        for line in tabled(table, width=width):
            self.raw(f"{' ' * indent}{line}".rstrip() + "\n")

    def flush(self) -> None:
        """Hand over what was written, so that a reader who has gone is noticed here.

        Raises:
            Unheard: It cannot be written.
        """
        try:
            self._out.flush()
        except OSError as error:
            raise unheard(error) from error


def _escaped(text: str) -> str:
    """A line of JSON, in which JSON itself leaves C1 controls and reversed writing as they are."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
