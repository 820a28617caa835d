"""The machine's NUMA nodes, by sysfs: which CPUs and how much memory each has.

Source: Linux ``Documentation/ABI/stable/sysfs-devices-node``, ``sysfs-devices-system-cpu``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from berth.host.sysfiles import names, text
from berth.model.numa import NumaNode, parse_numbers

_FOLDER: Final = re.compile(r"node(\d+)")
_TOTAL: Final = re.compile(r"MemTotal:\s+(\d+) kB")


def read_numa_nodes(root: Path = Path("/sys")) -> tuple[NumaNode, ...]:
    """The nodes in order; blocks. A kernel that knows none has one, with all CPUs.

    Args:
        root: Where sysfs is mounted; tests give a tree of files.
    """
    folder = root / "devices/system/node"
    found = [
        (int(match[1]), folder / match[0])
        for match in map(_FOLDER.fullmatch, names(folder))
        if match
    ]
    if not found:
        return (NumaNode(id=0, cpus=parse_numbers(text(root / "devices/system/cpu/online"))),)
    return tuple(
        NumaNode(
            id=number,
            cpus=parse_numbers(text(place / "cpulist")),
            memory_bytes=_memory(text(place / "meminfo")),
        )
        for number, place in sorted(found)
    )


def _memory(meminfo: str) -> int:
    total = _TOTAL.search(meminfo)
    return int(total[1]) * 1024 if total else 0
