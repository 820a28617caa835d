"""A machine made of files, for checks to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.cli.checks.line import Level, Line


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a root, by absolute path; a path that ends in a slash is a folder."""
    for name, text in files.items():
        path = root / name.strip("/")
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return root


def told(lines: Iterable[Line]) -> list[tuple[str, str]]:
    """Levels and texts."""
    return [(line.level.value, line.text) for line in lines]


def bad(lines: Iterable[Line]) -> list[tuple[str, str]]:
    """Texts and mends of what is a fault."""
    return [(line.text, line.mend) for line in lines if line.level is Level.FAULT]
