"""Processes that have device nodes open: what keeps a GPU from a reset, or a module from leaving.

Blocks. Processes come and go while it looks, and of others' processes only root sees the files.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import attrs

TEXT_LIMIT: Final = 4096
"""Most that is read of a process's name, in bytes."""


@attrs.frozen(kw_only=True)
class Opener:
    """A process, and the nodes that it has open.

    Attributes:
        command: Its name, as the kernel keeps it.
        group: Its control group, which tells the pod; empty when it is not told.
    """

    pid: int
    command: str
    group: str
    paths: tuple[str, ...]


def openers(prefix: str, proc: Path = Path("/proc")) -> tuple[Opener, ...]:
    """Processes with a file open whose path begins with ``prefix``, by number."""
    found = []
    for folder in proc.iterdir():
        if folder.name.isdigit():
            paths = sorted(path for path in _open_files(folder) if path.startswith(prefix))
            if paths:
                found.append(
                    Opener(
                        pid=int(folder.name),
                        command=_text(folder / "comm").strip(),
                        group=_group(_text(folder / "cgroup")),
                        paths=tuple(dict.fromkeys(paths)),
                    )
                )
    return tuple(sorted(found, key=lambda one: one.pid))


def _open_files(folder: Path) -> list[str]:
    paths = []
    try:
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                paths.append(str(link.readlink()))
    except OSError:
        return []
    return paths


def _group(text: str) -> str:
    """The longest path of all hierarchies: the one that tells most."""
    return max((line.rpartition(":")[2] for line in text.splitlines()), key=len, default="")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TEXT_LIMIT).decode(errors="replace")
    except OSError:
        return ""
