"""Control groups of the nodes: made in every hierarchy before a node starts, removed after it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

HIERARCHIES = Path("/sys/fs/cgroup")
# Processes leave a group a moment after their death was seen.
REMOVAL_LIMIT_S = 10.0


def hierarchies() -> Iterator[Path]:
    """The mounted hierarchies: version 1, and the unified one where it is mounted beside them."""
    return (path for path in sorted(HIERARCHIES.iterdir()) if (path / "cgroup.procs").exists())


def make(name: str) -> None:
    """Make the group in every hierarchy, so that kubelet finds its `cgroupRoot`.

    A new cpuset group is empty and takes no process: it gets what its parent has.
    """
    for hierarchy in hierarchies():
        group = hierarchy
        for part in Path(name).parts:
            parent, group = group, group / part
            group.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (group / setting).exists() and not (group / setting).read_text().strip():
                    (group / setting).write_text((parent / setting).read_text())


def remove(name: str) -> None:
    """Remove the group and all below it, depth first, from every hierarchy.

    kubelet's cAdvisor loses 3 s on each group that an earlier node of the name left behind.
    """
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            _remove_one(Path(folder))


def _remove_one(group: Path) -> None:
    limit = time.monotonic() + REMOVAL_LIMIT_S
    while True:
        with contextlib.suppress(FileNotFoundError):
            try:
                group.rmdir()
            except OSError:
                # Busy: the kernel tells nobody when the last process of a dead box is gone.
                if time.monotonic() > limit:
                    raise
                time.sleep(0.02)
                continue
        return
