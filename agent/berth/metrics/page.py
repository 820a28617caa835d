"""One page of figures: what everybody has to say at one moment, and its text.

The text is Prometheus' own format, which node_exporter takes from files as well. Its library would
cost the process 38 ms at the start and 12 MB of memory for what is said in this module.

Source: Prometheus' exposition format, version 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final, TypeVar

from berth.errors import LocalProtocolError
from berth.metrics.families import BY_NAME, FAMILIES, Family, Kind
from berth.model.meter import BUCKETS_S, Figure, Spread, Values

V = TypeVar("V", bound=tuple[str, ...])

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (*(f"{bound_s:g}" for bound_s in BUCKETS_S), "+Inf")


class Page:
    """Figures by family and labels; a family of which nobody says anything is left out."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Values, float | Spread]] = {}

    def put(self, name: str, value: float, *values: str) -> None:
        """Enter one counter or gauge.

        Args:
            name: Of its family.
            values: Of its labels, in the family's order.

        Raises:
            LocalProtocolError: There is no such family, or it has other labels.
        """
        _require(name, len(values), Kind.COUNTER, Kind.GAUGE)
        self._values.setdefault(name, {})[values] = value

    def put_all(self, name: str, series: Mapping[V, float]) -> None:
        """Enter several of one family, by the values of their labels; raises as `put` does."""
        for values, value in series.items():
            self.put(name, value, *values)

    def put_figure(self, name: str, *figures: Figure[float] | Figure[Spread]) -> None:
        """Enter what was counted; the sum where several have counted the same.

        One without labels is there from the start, so that its first increase is seen.

        Raises:
            LocalProtocolError: There is no such family, or it has other labels.
        """
        family = _require(name, None, Kind.COUNTER, Kind.HISTOGRAM)
        entries = self._values.setdefault(name, {})
        for figure in figures:
            if figure.labels != family.labels:
                raise _misfit(family, f"is counted by {', '.join(figure.labels) or 'no label'}")
            for values, value in figure.series().items():
                entries[values] = _sum(entries[values], value) if values in entries else value
        if not family.labels:
            entries.setdefault((), Spread() if family.kind is Kind.HISTOGRAM else 0)

    def put_spread(self, name: str, spread: Spread, *values: str) -> None:
        """Enter how long things took, added to what is there; raises as `put` does."""
        _require(name, len(values), Kind.HISTOGRAM)
        entries = self._values.setdefault(name, {})
        entries[values] = _sum(entries[values], spread) if values in entries else spread

    def text(self) -> bytes:
        """The whole page."""
        lines = (line for family in FAMILIES for line in self._lines(family))
        return "".join(f"{line}\n" for line in lines).encode()

    def names(self) -> tuple[str, ...]:
        """Families of which something is said."""
        return tuple(self._values)

    def series(self, name: str) -> dict[Values, float | Spread]:
        """What is said of one family."""
        return dict(self._values.get(name, {}))

    def _lines(self, family: Family) -> Iterator[str]:
        series = self._values.get(family.name)
        if not series:
            return
        yield f"# HELP {family.name} {_escaped(family.help)}"
        yield f"# TYPE {family.name} {family.kind.value}"
        for values, value in sorted(series.items()):
            if isinstance(value, Spread):
                yield from _histogram_lines(family, values, value)
            else:
                yield f"{family.name}{_labels(family.labels, values)} {_number(value)}"


def _require(name: str, labels: int | None, *kinds: Kind) -> Family:
    """The family of an entry, which has so many labels and is of one of these kinds."""
    family = BY_NAME.get(name)
    if family is None:
        raise LocalProtocolError(name, "is no family", rule="see berth.metrics.families")
    if family.kind not in kinds:
        raise _misfit(family, "is entered as something else")
    if labels is not None and len(family.labels) != labels:
        raise _misfit(family, f"is entered with {labels} labels")
    return family


def _misfit(family: Family, found: str) -> LocalProtocolError:
    rule = f"it is a {family.kind.value} by {', '.join(family.labels) or 'no label'}"
    return LocalProtocolError(family.name, found, rule=rule)


def _sum(one: float | Spread, other: float | Spread) -> float | Spread:
    if isinstance(one, Spread) and isinstance(other, Spread):
        counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
        return Spread(counts=counts, sum_s=one.sum_s + other.sum_s)
    if isinstance(one, Spread) or isinstance(other, Spread):
        raise LocalProtocolError("figures", "a histogram and a number are added")
    return one + other


def _histogram_lines(family: Family, values: Values, spread: Spread) -> Iterator[str]:
    labels = (*family.labels, "le")
    for bound, count in zip(_BOUNDS, accumulate(spread.counts), strict=True):
        yield f"{family.name}_bucket{_labels(labels, (*values, bound))} {count}"
    yield f"{family.name}_sum{_labels(family.labels, values)} {_number(spread.sum_s)}"
    yield f"{family.name}_count{_labels(family.labels, values)} {sum(spread.counts)}"


def _labels(names: tuple[str, ...], values: Values) -> str:
    pairs = (
        f'{name}="{_escaped(value, quoted=True)}"'
        for name, value in zip(names, values, strict=True)
    )
    inside = ",".join(pairs)
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, *, quoted: bool = False) -> str:
    """The text in one line; what cannot be encoded is replaced, as names of files may not be."""
    plain = text.encode("utf-8", "replace").decode()
    escaped = plain.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quoted else escaped


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
