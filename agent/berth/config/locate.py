"""The lines on which tables, keys and items stand in a TOML text.

The reader of the standard library does not tell them. This scanner walks a text that the reader
has accepted, so it need not check anything; it only has to follow strings, brackets and headers.
A place that it cannot name for certain is left out, and messages then do without a line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from berth.config.document import DEPTH_LIMIT, parse
from berth.config.finding import Spot, Steps, lookup

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_SPACE = re.compile(r"[ \t]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\[\]{}#\r\n]+")


def scan(text: str, document: Mapping[str, Any]) -> dict[Steps, Spot]:
    """Find the places of a document in its text.

    Args:
        text: TOML that was read without error.
        document: What was read from it; a place that is not in it is dropped.
    """
    scanner = _Scanner(text)
    scanner.run()
    spots = {**scanner.implied, **scanner.spots}
    return {steps: spot for steps, spot in spots.items() if lookup(steps, document) is not None}


def line_of(steps: Steps, spots: Mapping[Steps, Spot]) -> int | None:
    """The line of a place, or of the nearest table or key around it; ``None`` if unknown."""
    for end in range(len(steps), 0, -1):
        if spot := spots.get(steps[:end]):
            return spot.line
    return None


class _Scanner:
    """Where the scan has got to; every step of it consumes text or ends the scan.

    Attributes:
        spots: What is written.
        implied: Tables by the first header that only names them on the way to another.
    """

    def __init__(self, text: str) -> None:
        self.spots: dict[Steps, Spot] = {}
        self.implied: dict[Steps, Spot] = {}
        self._text = text
        self._at = 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._last_item: dict[Steps, int] = {}

    def run(self) -> None:
        """Walk the statements: headers, which say what follows, and keys with values."""
        table: Steps = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            start = self._at
            if self._take("[["):
                table = self._array_header()
            elif self._take("["):
                line = self._line()
                table = self._resolve(self._key(), line)
                self._note(table, line)
                self._take("]")
            else:
                self._pair(table)
            self._skip(_BLANK)
            if self._at == start:
                return

    def _array_header(self) -> Steps:
        line = self._line()
        *parents, name = self._key() or ("",)
        array = (*self._resolve(tuple(parents), line), name)
        number = self._last_item.get(array, -1) + 1
        self._last_item[array] = number
        self._note(array, line)
        self._note((*array, number), line)
        self._take("]]")
        return (*array, number)

    def _resolve(self, names: tuple[str, ...], line: int) -> Steps:
        """Names of a header as steps: a name of an array of tables means its last item."""
        steps: Steps = ()
        for name in names:
            steps = (*steps, name)
            self.implied.setdefault(steps, Spot(line=line))
            if steps in self._last_item:
                steps = (*steps, self._last_item[steps])
        return steps

    def _pair(self, table: Steps) -> None:
        line = self._line()
        names = self._key()
        for end in range(1, len(names) + 1):
            self._note((*table, *names[:end]), line)
        self._take("=")
        self._skip(_SPACE)
        if names:
            self._value((*table, *names), line)

    def _value(self, steps: Steps, line: int) -> None:
        if len(steps) > DEPTH_LIMIT:
            self._at = len(self._text)
        elif self._take("{"):
            self._members(steps, end="}")
        elif self._take("["):
            self._members(steps, end="]")
        else:
            text = self._skip(_STRING) or self._skip(_SCALAR).rstrip()
            self.spots[steps] = Spot(line=line, text=text)

    def _members(self, steps: Steps, *, end: str) -> None:
        """The inside of an inline table or of an array."""
        number = 0
        while self._at < len(self._text):
            self._skip(_BLANK)
            start = self._at
            if self._take(end):
                return
            if self._take(","):
                continue
            if end == "}":
                self._pair(steps)
            else:
                line = self._line()
                self._note((*steps, number), line)
                self._value((*steps, number), line)
                number += 1
            if self._at == start:
                self._at = len(self._text)

    def _key(self) -> tuple[str, ...]:
        """A dotted key; empty when none stands here."""
        names = []
        while True:
            self._skip(_SPACE)
            name = self._skip(_BARE) or self._skip(_STRING)
            self._skip(_SPACE)
            if name:
                names.append(_unquoted(name))
            if not name or not self._take("."):
                return tuple(names)

    def _note(self, steps: Steps, line: int) -> None:
        self.spots.setdefault(steps, Spot(line=line))

    def _line(self) -> int:
        return bisect_right(self._breaks, self._at - 1) + 1

    def _take(self, word: str) -> bool:
        found = self._text.startswith(word, self._at)
        self._at += len(word) if found else 0
        return found

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if not found:
            return ""
        self._at = found.end()
        return found[0]


def _unquoted(name: str) -> str:
    """A key without its quotes; what no reader takes leaves a name that no document has."""
    if name.startswith("'"):
        return name[1:-1]
    if not name.startswith('"'):
        return name
    try:
        (key,) = parse(f"{name} = 0")
    except ValueError:
        return name
    return key
