"""Fetch the locked wheels, and unpack them into the one tree that every supported Python reads.

Usage: vendor.py WHEELS ARCHITECTURE TREE LICENCES

WHEELS is filled when it lacks anything, and else nothing is asked of the network. The trees of
different Pythons differ in files alone whose names tell for which one they are, so one folder
holds them all.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

LOCK: Final = Path(__file__).parent.parent / "requirements" / "runtime.lock"

PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")

NATIVE: Final[Mapping[str, Sequence[str]]] = {
    "grpcio": PYTHONS,
    # The module of the stable ABI serves every Python from its own on.
    "protobuf": PYTHONS[:1],
    # Its C parser is left out below, and what remains is the same for all.
    "pyyaml": PYTHONS[:1],
}
"""What has no wheel for every machine, and for which Pythons its wheels are taken."""

SOURCE: Final = "sdnotify"
"""The one project that publishes no wheel: a package of one file."""

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture to that in a wheel's."""

LEFT_OUT: Final = (
    "example.py",  # at the top, where every program of the tree would see it
    "google/protobuf/testdata/*",
    "*/_tests/*",
    # Nothing of ours asks for the C parser, which has 2.7 MB for each Python.
    "_yaml/*",
    "yaml/_yaml.*",
    "yaml/cyaml.py",
    # For test runners, linters, compilers and trio's own authors.
    "anyio/pytest_plugin.py",
    "trio/_tools/*",
    "*.pyi",
    "*/py.typed",
    "*.cc",
    "*.h",
)
"""What a running daemon has no use for; `*` stands for slashes too."""


class Unfit(Exception):
    """The folder of wheels is not what the lock says."""


def locked() -> dict[str, str]:
    """The SHA-256 of each file that may be taken, to its project."""
    found = {}
    project = ""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if named := re.match(r"([a-z0-9-]+)==", line):
            project = named[1]
        found.update(dict.fromkeys(re.findall(r"sha256:([0-9a-f]{64})", line), project))
    return found


def chosen(folder: Path, architecture: str) -> dict[str, list[Path]]:
    """The files of each locked project that fit the architecture.

    Raises:
        Unfit: A project has fewer files, or more, than the tree is made of.
    """
    projects = locked()
    found: dict[str, list[Path]] = {project: [] for project in projects.values()}
    fitting = (MACHINES[architecture], "-any.whl", ".tar.gz")
    for file in sorted(folder.glob("*")):
        project = projects.get(hashlib.sha256(file.read_bytes()).hexdigest())
        if project is not None and any(word in file.name for word in fitting):
            found[project].append(file)
    for project, files in found.items():
        wanted = len(NATIVE.get(project, ("any",)))
        if len(files) != wanted:
            raise Unfit(f"{folder}: {project} has {len(files)} locked files, wanted: {wanted}")
    return found


def fetch(folder: Path, architecture: str) -> None:
    """Download what the tree is made of. Blocks on the network."""
    projects = set(locked().values())
    pure = projects - NATIVE.keys() - {SOURCE}
    anywhere = ("--platform", "any", "--implementation", "py", "--abi", "none")
    _download(folder, pure, *anywhere, "--python-version", PYTHONS[0])
    _download(folder, {SOURCE}, "--no-build-isolation")
    machine = f"manylinux2014_{MACHINES[architecture]}"
    for python in PYTHONS:
        compiled = {project for project in NATIVE if python in NATIVE[project]}
        _download(folder, compiled, "--platform", machine, "--python-version", python)


def _download(folder: Path, projects: set[str], *options: str) -> None:
    """By pip, which compares each file with the lock."""
    blocks = re.split(r"\n(?=[a-z])", LOCK.read_text(encoding="utf-8"))
    wanted = [block for block in blocks if block.split("==")[0] in projects]
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / ".wanted"
    requirements.write_text("\n".join(wanted), encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check")
    exact = ("--no-deps", "--require-hashes", "-r", str(requirements), "-d", str(folder))
    subprocess.run([*pip, *exact, *options], check=True)
    requirements.unlink()


def unpack(files: Mapping[str, Sequence[Path]], tree: Path, licences: Path) -> None:
    """Lay all files into the tree, and the texts of their licences into a folder per project.

    Raises:
        Unfit: Two wheels have a file of one name, and not the same in it.
    """
    for project, archives in files.items():
        for archive in archives:
            for name, data in _members(archive):
                target = _place(name, project, tree, licences)
                if target is not None:
                    _write(target, data)


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if not name.endswith("/"):
                    yield PurePosixPath(name), wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            file = source.extractfile(member)
            if file is not None:
                # The first folder is that of the archive.
                yield PurePosixPath(*PurePosixPath(member.name).parts[1:]), file.read()


def _place(name: PurePosixPath, project: str, tree: Path, licences: Path) -> Path | None:
    """Where a file belongs; ``None`` when it is left out."""
    if re.match(r"(LICEN[CS]E|COPYING|NOTICE|AUTHORS)", name.name):
        return licences / project / name.name
    if name.parts[0].endswith(".dist-info"):
        # Two libraries ask for their own version there, and so does who looks for known flaws.
        return tree / name if name.name == "METADATA" else None
    if project == SOURCE and name.parts[0] != SOURCE:
        return None
    return None if any(fnmatchcase(str(name), pattern) for pattern in LEFT_OUT) else tree / name


def _write(target: Path, data: bytes) -> None:
    """A file of the mode that all have: none of them is a program."""
    if target.exists() and target.read_bytes() != data:
        raise Unfit(f"{target}: two wheels have it, each with other bytes")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o644)


def main(arguments: Sequence[str]) -> int:
    """Fetch what is missing, and unpack."""
    wheels, architecture, tree, licences = arguments
    try:
        files = chosen(Path(wheels), architecture)
    except Unfit:
        fetch(Path(wheels), architecture)
        files = chosen(Path(wheels), architecture)
    unpack(files, Path(tree), Path(licences))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
