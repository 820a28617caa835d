"""Small files and links of sysfs; what cannot be read is unknown, and no error. All blocks."""

from __future__ import annotations

from pathlib import Path


def names(folder: Path) -> list[str]:
    """What is in a folder, in no order."""
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def text(path: Path) -> str:
    """What a file says."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """The number that a file says, in any usual base."""
    try:
        return int(text(path), 0)
    except ValueError:
        return None


def natural(path: Path) -> int | None:
    """The same, unless it stands for "none" by being negative."""
    found = number(path)
    return found if found is not None and found >= 0 else None


def link_name(path: Path) -> str:
    """The last part of what a link leads to."""
    try:
        return path.readlink().name
    except OSError:
        return ""
