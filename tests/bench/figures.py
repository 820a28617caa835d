"""Figures: what was measured, beside what, and what was aimed at; as a table and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

SOLE: Final = "value"
"""What an aim of a single figure speaks of."""


@attrs.frozen(kw_only=True)
class Aim:
    """What was promised.

    Attributes:
        of: ``p50``, ``p99``, or `SOLE`.
        most: No more than that, in the row's unit.
    """

    of: str
    most: float

    def verdict(self, row: Row) -> str:
        """Whether it was met, and else by how much it was missed."""
        found = row.figure(self.of)
        label = "" if self.of == SOLE else f"{self.of} "
        aim = f"{label}≤ {number(self.most)}"
        if found <= self.most:
            return f"{aim}: met"
        return f"{aim}: missed by {number(found - self.most)}"


@attrs.frozen(kw_only=True)
class Row:
    """One thing that was measured.

    Attributes:
        name: What it is.
        unit: Of all numbers; empty for counts.
        samples: Every measurement, in the order in which they were made.
        beside: What was measured in turns with it, for the ratio.
        beside_name: What that was.
        note: What a reader has to know.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    aims: tuple[Aim, ...] = ()
    beside: tuple[float, ...] = ()
    beside_name: str = ""
    note: str = ""

    def figure(self, of: str) -> float:
        """The median, the 99th percentile, or the only figure, which is the median too."""
        return percentile(self.samples, 99 if of == "p99" else 50)

    @property
    def ratio(self) -> float | None:
        """By how much more it is than what was measured beside it, of the medians."""
        below = percentile(self.beside, 50) if self.beside else 0.0
        return self.figure("p50") / below if below else None

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What is to be said of each aim."""
        return tuple(aim.verdict(self) for aim in self.aims)


def percentile(samples: Sequence[float], part: float) -> float:
    """The smallest sample that so many per cent of all are not above."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * part / 100) - 1)]


def number(value: float) -> str:
    """A figure for people: three digits that count."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of equal columns."""
    cells = [("what", "unit", "n", "p50", "p99", "ratio", "aim"), *map(_cells, rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for line, row in zip(cells, (None, *rows), strict=True):
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
        if row is not None and row.note:
            lines.append(f"    {row.note}")
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    several = len(row.samples) > 1
    ratio = row.ratio
    return (
        row.name,
        row.unit,
        str(len(row.samples)),
        number(row.figure("p50")),
        number(row.figure("p99")) if several else "",
        f"{ratio:.2f} x {row.beside_name}" if ratio is not None else "",
        "; ".join(row.verdicts),
    )


def document(rows: Sequence[Row], machine: Mapping[str, Any]) -> str:
    """All rows as JSON, every sample among them."""
    return json.dumps(
        {"machine": dict(machine), "rows": [_row_json(row) for row in rows]}, indent=1
    )


def _row_json(row: Row) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": row.name,
        "unit": row.unit,
        "p50": row.figure("p50"),
        "p99": row.figure("p99"),
        "samples": list(row.samples),
    }
    if row.ratio is not None:
        made |= {"ratio": row.ratio, "beside": row.beside_name, "beside_samples": [*row.beside]}
    if row.aims:
        made["aims"] = [
            {"of": aim.of, "most": aim.most, "verdict": verdict}
            for aim, verdict in zip(row.aims, row.verdicts, strict=True)
        ]
    if row.note:
        made["note"] = row.note
    return made
