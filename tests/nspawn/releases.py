"""Other releases of the package, made of the one under test: of another version, and changed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import berth

Change: TypeAlias = Callable[[str], str]

MODULES = "usr/lib/berthd/berth"


class Releases:
    """What could be installed instead.

    Args:
        package: The package under test.
        folder: Where they are made.
    """

    def __init__(self, package: Path, folder: Path) -> None:
        self.current = package
        self._folder = folder
        self._tree = folder / "tree"
        subprocess.run(["dpkg-deb", "--raw-extract", package, self._tree], check=True)

    def make(self, version: str, changes: Mapping[str, Change] | None = None) -> Path:
        """A release; its program tells that version too, and its files have the same times.

        So its bytecode is told from that of another release by nothing but our own care.

        Args:
            version: As long as the current one, so that the file that tells it is, too.
            changes: From a file to what becomes of its text.
        """
        tree = self._folder / version
        subprocess.run(["cp", "--archive", "--link", self._tree, tree], check=True)
        told = {
            "DEBIAN/control": lambda text: text.replace(
                f"Version: {berth.__version__}", f"Version: {version}"
            ),
            f"{MODULES}/__init__.py": lambda text: text.replace(berth.__version__, version),
            **(changes or {}),
        }
        for name, change in told.items():
            file = tree / name
            text, times = file.read_text(encoding="utf-8"), file.stat()
            # The file is the other releases' as well.
            file.unlink()
            file.write_text(change(text), encoding="utf-8")
            subprocess.run(["touch", f"--date=@{times.st_mtime}", file], check=True)
            file.chmod(times.st_mode)
        made = self._folder / f"berthd_{version}.deb"
        subprocess.run(
            ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, made], check=True
        )
        subprocess.run(["rm", "--recursive", tree], check=True)
        return made
