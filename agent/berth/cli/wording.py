"""Numbers and lists as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """A time span in its two largest units: ``2 d 3 h``."""
    left = round(seconds)
    parts = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def counted(count: int, one: str, many: str = "") -> str:
    """``1 slice``, ``2 slices``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(words: Iterable[object], *, empty: str = "none") -> str:
    """Words with commas, or what stands for none."""
    return ", ".join(str(word) for word in words) or empty


def quoted(names: Iterable[str]) -> str:
    """``"fast", "slow"``: names that somebody gave."""
    return ", ".join(f'"{name}"' for name in names)


def tallied(counts: Mapping[str, int]) -> str:
    """``2 uplink, 1 enslaved``: the larger first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return listed(f"{count} {name}" for name, count in ordered)


def health_word(verdict: Mapping[str, Any] | None) -> str:
    """A verdict in a word, and its reason: ``unhealthy (xid-48)``; ``-`` without a verdict."""
    if verdict is None:
        return "-"
    word, reason = verdict["status"], verdict["reason"]
    if word == "healthy" and reason:
        word = "degraded"
    return f"{word} ({reason})" if reason else str(word)


def memory_size(size_bytes: int) -> str:
    """An amount of memory in its largest fitting unit: ``2.5 GiB``."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if size == int(size) else f"{size:.1f} {unit}"
