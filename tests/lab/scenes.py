"""Tests of our code alone, run in the guest: for what only its kernel has.

They come as they are, with the pytest that runs this; the code that they test is the package's.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.lab.channel import Guest
from tests.lab.labnode import CODE

TESTS: Final = Path(__file__).parents[1]
_PLACE: Final = "/var/tmp/scenes"
# What runs tests without a plugin of ours or of another's.
_RUNNER: Final = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_OPTIONS: Final = (
    *("-q", "-rs", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib"),
    # Settings and fixtures of all tests need what is not in the guest.
    *("-c", "/dev/null", f"--rootdir={_PLACE}", f"--confcutdir={_PLACE}/tests/integration"),
    *("-o", "markers=root"),
)


def run(guest: Guest, file: str) -> str:
    """Run a file of tests, as it is below `tests/`; gives the last line of what pytest said.

    Raises:
        HostError: One failed, with all that was said.
    """
    guest.run("mkdir", "-p", _PLACE)
    guest.run("tar", "-x", "-C", _PLACE, given=_archive())
    search = f"PYTHONPATH={CODE}:{_PLACE}"
    command = ("python3", "-B", "-m", "pytest", *_OPTIONS, f"{_PLACE}/tests/{file}")
    said = guest.run("env", "-C", _PLACE, search, *command)
    guest.run("rm", "-r", _PLACE)
    return said.strip().rpartition("\n")[2]


def _archive() -> bytes:
    """The tests and what runs them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, name in (*_sources(), *_runner()):
            archive.add(path, name)
    return packed.getvalue()


def _sources() -> Iterator[tuple[Path, str]]:
    for path in TESTS.rglob("*.py"):
        yield path, str(path.relative_to(TESTS.parent))


def _runner() -> Iterator[tuple[Path, str]]:
    for project in _RUNNER:
        for file in metadata.files(project) or ():
            if file.suffix != ".pyc" and not str(file).startswith(".."):
                yield Path(str(file.locate())), str(file)
