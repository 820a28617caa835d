"""NUMA nodes, and lists of numbers as the kernel and people write them: ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import attrs


@attrs.frozen(kw_only=True)
class NumaNode:
    """One NUMA node of the machine.

    Attributes:
        cpus: Its CPUs that are online, ascending; none for a node of memory alone.
        memory_bytes: All of its memory; 0 when the machine does not say.
    """

    id: int
    cpus: tuple[int, ...] = ()
    memory_bytes: int = 0


def parse_numbers(text: str) -> tuple[int, ...]:
    """The numbers of a list such as ``0-3,8``, ascending; none of what is no such list.

    Source: Linux ``Documentation/core-api/kernel-api.rst`` (``bitmap_parselist``).
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()):
            return ()
        found.update(range(int(first), int(last) + 1))
    return tuple(sorted(found))


def numbers_text(numbers: Iterable[int]) -> str:
    """The same the other way: ``0-3,8``; empty for none."""
    ordered = sorted(set(numbers))
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(pairs) for _, pairs in runs)]
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def cpus_text(cpus: Iterable[int]) -> str:
    """CPUs in words: ``CPU 4``, ``CPUs 0-3,8``."""
    listed = tuple(cpus)
    return f"CPU{'' if len(listed) == 1 else 's'} {numbers_text(listed)}"
