"""systemd's units as they are in force: the first file that is found, and all drop-ins over it.

Source: systemd.unit(5) (order of folders, drop-ins), systemd.syntax(7) (an empty value empties a
list; a line may go on after a backslash).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from berth.cli.checks.machine import Machine

FOLDERS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Where units lie, those that go over others first."""


@attrs.frozen(kw_only=True)
class Assignment:
    """One line of a unit.

    Attributes:
        file: Where it is written.
        section: Such as ``Service``.
    """

    file: str
    section: str
    key: str
    value: str


@attrs.frozen(kw_only=True)
class Unit:
    """One unit.

    Attributes:
        path: Of its own file.
        masked: It is a link to nothing, so it is never started.
        assignments: What its files say, in the order in which later ones go over earlier ones.
    """

    path: str
    masked: bool = False
    assignments: tuple[Assignment, ...] = ()

    def values(self, section: str, key: str) -> tuple[str, ...]:
        """All values of a key that is a list; an empty one forgets those before it."""
        found: list[str] = []
        for one in self.assignments:
            if (one.section, one.key) == (section, key):
                found = [*found, one.value] if one.value else []
        return tuple(found)

    def words(self, section: str, key: str) -> tuple[str, ...]:
        """The same, where a value may have several words."""
        return tuple(word for value in self.values(section, key) for word in value.split())

    def value(self, section: str, key: str) -> str:
        """The value of a key that has one; empty when it is not written."""
        return next(reversed(self.values(section, key)), "")


def read_unit(machine: Machine, name: str) -> Unit | None:
    """A unit by name; ``None`` when it is not installed."""
    path = next((f"{f}/{name}" for f in FOLDERS if _is_there(machine, f"{f}/{name}")), None)
    if path is None:
        return None
    if machine.at(path).is_symlink() and str(machine.at(path).readlink()) == "/dev/null":
        return Unit(path=path, masked=True)
    dropins: dict[str, str] = {}
    for folder in reversed(FOLDERS):
        for file in machine.files(f"{folder}/{name}.d", "*.conf"):
            dropins[file.rpartition("/")[2]] = file
    files = (path, *(dropins[key] for key in sorted(dropins)))
    return Unit(
        path=path,
        assignments=tuple(
            one for file in files for one in assignments(file, machine.read(file) or "")
        ),
    )


def is_enabled(machine: Machine, name: str) -> bool:
    """Whether another unit wants this one, by a link as ``systemctl enable`` makes it."""
    return any(
        _is_there(machine, f"{folder}/{target.name}/{name}")
        for folder in FOLDERS
        for pattern in ("*.wants", "*.requires")
        for target in machine.at(folder).glob(pattern)
    )


def assignments(file: str, text: str) -> Iterator[Assignment]:
    """What a file of systemd's form says."""
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()  # noqa: PLW2901 - blanks around it mean nothing
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and line[0] not in "#;" and "=" in line:
            key, _, value = line.partition("=")
            yield Assignment(file=file, section=section, key=key.strip(), value=value.strip())


def _is_there(machine: Machine, path: str) -> bool:
    """Whether anything lies there, a link that leads to nothing too."""
    file = machine.at(path)
    return file.is_symlink() or file.exists()
