"""A small disk of the test's own, to be filled up or made read-only."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=20)


@attrs.frozen(kw_only=True)
class SmallDisk:
    """A tmpfs of 256 KiB.

    Attributes:
        path: Where it is mounted.
    """

    path: Path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Leave no room on it for the block."""
        filler = self.path / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        try:
            yield
        finally:
            filler.unlink()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Let nobody write on it for the block."""
        _mount("-o", "remount,ro", str(self.path))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", str(self.path))


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Mount a small disk at a folder for the block."""
    path.mkdir()
    _mount("-t", "tmpfs", "-o", "size=256k", "berth-test", str(path))
    try:
        yield SmallDisk(path=path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True, timeout=20)
