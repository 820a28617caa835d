"""Rows of cells as lines of text: as wide as they need to be, or folded to fit a terminal.

A node can have a hundred thousand ids, so a row has to cost microseconds: rich draws tables too,
and takes fifty times as long. Here it tells how wide a character of any script is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

GAP: Final = 2
"""Columns of a terminal between two cells."""


def tabled(rows: Iterable[Sequence[str]], *, width: int | None = None) -> Iterator[str]:
    """The lines of a table, without white space at their ends.

    Args:
        rows: Each with as many cells as the others, heads first; cells hold no line ends.
        width: Most columns of a line; the widest cells are folded to keep to it. ``None`` lets
            each row be one line.
    """
    table = [tuple(row) for row in rows]
    widths = [max(map(_columns, column)) for column in zip(*table, strict=True)]
    room = sum(widths) if width is None else width - GAP * (len(widths) - 1)
    if room < sum(widths):
        widths = _narrowed(widths, room)
        table = [line for row in table for line in _folded_row(row, widths)]
    for row in table:
        padded = (
            cell + " " * (wide - _columns(cell)) for cell, wide in zip(row, widths, strict=True)
        )
        yield (" " * GAP).join(padded).rstrip()


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Loaded here: most that is told is ASCII.
    from rich.cells import cell_len

    return cell_len(text)


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit together: each its own, or an equal share of what narrower ones leave."""
    found = dict.fromkeys(range(len(widths)), 1)
    for place, index in enumerate(sorted(found, key=widths.__getitem__)):
        found[index] = min(widths[index], max(1, room // (len(widths) - place)))
        room -= found[index]
    return list(found.values())


def _folded_row(row: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    return zip_longest(*map(_folded, row, widths), fillvalue="")


def _folded(text: str, width: int) -> list[str]:
    """The lines of a cell: broken between words, and within a word that is too long by itself."""
    if _columns(text) <= width:
        return [text]
    lines = [""]
    for number, word in enumerate(text.split(" ")):
        longer = f"{lines[-1]} {word}" if number else word
        if _columns(longer) <= width:
            lines[-1] = longer
        else:
            lines += _chopped(word, width)
    return lines if lines[0] else lines[1:]


def _chopped(word: str, width: int) -> list[str]:
    if word.isascii():
        return [word[start : start + width] for start in range(0, len(word), width)]
    pieces = [""]
    for sign in word:
        if pieces[-1] and _columns(pieces[-1] + sign) > width:
            pieces.append("")
        pieces[-1] += sign
    return pieces
