"""More changes than the kernel keeps notices of."""

from __future__ import annotations

from pathlib import Path

QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


def flood(folder: Path) -> None:
    """Let a name come and go until notices are lost, for who watches the folder."""
    other = folder / "other"
    for _ in range(QUEUE // 2 + 1):
        other.touch()
        other.unlink()
