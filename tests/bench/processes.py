"""What the kernel tells of a process: memory, threads, and how often they woke."""

from __future__ import annotations

import re
from pathlib import Path


def rss_mb(pid: int) -> float:
    """Resident memory, shared pages included."""
    return int(_field(Path(f"/proc/{pid}/status"), "VmRSS")) / 1024


def switches(pid: int) -> dict[str, int]:
    """By thread, how often it gave up the processor of itself: each is a wake-up later."""
    return {
        f"{thread.name} {(thread / 'comm').read_text().strip()}": int(
            _field(thread / "status", "voluntary_ctxt_switches")
        )
        for thread in sorted(Path(f"/proc/{pid}/task").iterdir())
    }


def _field(path: Path, name: str) -> str:
    found = re.search(rf"^{name}:\s+(\d+)", path.read_text(), re.MULTILINE)
    assert found is not None, f"{path} tells no {name}"
    return found[1]
