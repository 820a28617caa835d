"""What the kernel tells of a process: memory, threads, and how often they woke."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def rss_mb(pid: int) -> float:
    """Resident memory, shared pages included."""
    return int(_field(Path(f"/proc/{pid}/status"), "VmRSS")) / 1024


def switches(pid: int) -> dict[str, int]:
    """By thread, how often it gave up the processor of itself: each is a wake-up later."""
    found = {}
    for thread in sorted(Path(f"/proc/{pid}/task").iterdir()):
        # One that ends meanwhile has nothing to tell any more.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = f"{thread.name} {(thread / 'comm').read_text().strip()}"
            found[name] = int(_field(thread / "status", "voluntary_ctxt_switches"))
    return found


def _field(path: Path, name: str) -> str:
    found = re.search(rf"^{name}:\s+(\d+)", path.read_text(), re.MULTILINE)
    assert found is not None, f"{path} tells no {name}"
    return found[1]


def cpu_s(pid: int) -> float:
    """Processor time that it took so far, in itself and in the kernel."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
