"""Whether what a container has lies together, in words: for the text and for the picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def sentences(container: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said of a container, or of a pod, of the answer to ``topology``."""
    numa, pcie = container["numa"], container["pcie"]
    if numa["nodes"]:
        yield f"{numa['verdict']} {numa['says']}"
    if numa["unknown"]:
        yield f"nobody says where {', '.join(numa['unknown'])} is"
    if pcie["verdict"] == "spread":
        yield f"PCIe roots differ: {pcie['says']}"
    elif pcie["roots"]:
        yield pcie["says"]
