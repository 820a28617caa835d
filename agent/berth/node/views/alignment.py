"""Whether what a container has lies together: on one NUMA node, below one PCIe root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from berth.model.numa import NumaNode, cpus_text, numbers_text
from berth.model.provision import MemoryBlock

ALIGNED = "aligned"
SPREAD = "spread"
UNKNOWN = "unknown"
"""There is something, and nobody says where it is."""
NONE = "none"
"""There is nothing that would have a place."""


@attrs.frozen(kw_only=True)
class Thing:
    """Something that lies at a place.

    Attributes:
        label: What it is, for a sentence.
        numa: NUMA nodes to each of which it is near; empty when nobody says so.
        root: PCIe root complex that it is below; empty for what is below none.
    """

    label: str
    numa: tuple[int, ...] = ()
    root: str = ""


def cpu_things(cpus: Iterable[int], nodes: Iterable[NumaNode]) -> list[Thing]:
    """CPUs, those of each node together; some that are on no node have no place."""
    left = set(cpus)
    found = []
    for node in nodes:
        here = left & set(node.cpus)
        if here:
            found.append(Thing(label=cpus_text(here), numa=(node.id,)))
            left -= here
    return [*found, *([Thing(label=cpus_text(left))] if left else [])]


def memory_things(blocks: Iterable[MemoryBlock]) -> list[Thing]:
    """Memory; a block that comes from several nodes has a part on each."""
    found = []
    for block in blocks:
        part = "part of the " if len(block.numa) > 1 else ""
        label = f"{part}{block.type}"
        found += [Thing(label=label, numa=(node,)) for node in block.numa] or [Thing(label=label)]
    return found


def numa_verdict(things: Sequence[Thing]) -> dict[str, Any]:
    """Whether there is a node that all things are near to, and what is where if not.

    Returns:
        ``verdict``, the ``nodes`` (all of those if it is spread, else the common ones), ``says``
        (a phrase), and ``unknown``: labels of what has no place.
    """
    placed = [thing for thing in things if thing.numa]
    unknown = [thing.label for thing in things if not thing.numa]
    common = set(placed[0].numa).intersection(*(each.numa for each in placed)) if placed else set()
    nodes = sorted(common or {node for thing in placed for node in thing.numa})
    if not placed:
        word, says = (UNKNOWN, "nobody says where it is") if unknown else (NONE, "")
    elif common:
        word, says = ALIGNED, f"on {_nodes(nodes)}"
    else:
        where = ", ".join(f"{each.label} on {numbers_text(each.numa)}" for each in placed)
        word, says = SPREAD, f"over {_nodes(nodes)}: {where}"
    return {"verdict": word, "nodes": nodes, "says": says, "unknown": unknown}


def pcie_verdict(things: Iterable[Thing]) -> dict[str, Any]:
    """Whether all devices that are below a PCIe root are below the same.

    Returns:
        ``verdict``, the ``roots``, and ``says`` (a phrase).
    """
    below: dict[str, list[str]] = {}
    for thing in things:
        if thing.root:
            below.setdefault(thing.root, []).append(thing.label)
    roots = sorted(below)
    if not roots:
        return {"verdict": NONE, "roots": [], "says": ""}
    if len(roots) == 1:
        return {"verdict": ALIGNED, "roots": roots, "says": f"below {roots[0]}"}
    says = ", ".join(f"{' and '.join(below[root])} below {root}" for root in roots)
    return {"verdict": SPREAD, "roots": roots, "says": says}


def _nodes(nodes: Sequence[int]) -> str:
    return f"NUMA node{'' if len(nodes) == 1 else 's'} {numbers_text(nodes)}"
