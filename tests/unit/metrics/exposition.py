"""Reads Prometheus' text format strictly, as a scraper does.

Source: Prometheus' exposition format, version 0.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@attrs.frozen(kw_only=True)
class Sample:
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float


@attrs.frozen(kw_only=True)
class Told:
    """One family of a page."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def read(page: bytes) -> dict[str, Told]:
    """Every family of a page.

    Raises:
        ValueError: A line is malformed, stands at a wrong place, or comes twice.
    """
    text = page.decode()
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    found: dict[str, Told] = {}
    for block in re.split(r"(?m)^(?=# HELP )", text):
        if block:
            told = _family(block.removesuffix("\n").split("\n"))
            if told.name in found:
                raise ValueError(f"{told.name} comes twice")
            found[told.name] = told
    return found


def _family(lines: list[str]) -> Told:
    _, _, name, meaning = lines[0].split(" ", 3)
    if lines[1].split(" ")[:3] != ["#", "TYPE", name]:
        raise ValueError(f"{name} has no type")
    kind = lines[1].split(" ")[3]
    suffixes = {"_bucket", "_sum", "_count"} if kind == "histogram" else {""}
    samples = tuple(_samples(lines[2:]))
    for sample in samples:
        if sample.name not in {f"{name}{suffix}" for suffix in suffixes}:
            raise ValueError(f"{sample.name} stands below {name}")
    keys = [(one.name, tuple(sorted(one.labels.items()))) for one in samples]
    if len(keys) != len(set(keys)) or not samples:
        raise ValueError(f"{name} has a series twice, or none")
    return Told(name=name, kind=kind, help=_plain(meaning), samples=samples)


def _samples(lines: list[str]) -> Iterator[Sample]:
    for line in lines:
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise ValueError(f"no sample: {line!r}")
        name, inside, value = match.groups()
        labels: dict[str, str] = {}
        end = 0
        for pair in _PAIR.finditer(inside or ""):
            if pair.start() != end or pair[1] in labels:
                raise ValueError(f"no labels: {line!r}")
            labels[pair[1]] = _plain(pair[2])
            end = pair.end()
        if end != len(inside or ""):
            raise ValueError(f"no labels: {line!r}")
        yield Sample(name=name, labels=labels, value=float(value))


def _plain(text: str) -> str:
    return re.sub(r'\\\\|\\"|\\n', lambda match: _ESCAPES[match[0]], text)
