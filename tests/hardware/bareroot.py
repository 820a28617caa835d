"""A root with nothing in it but Python, what a container gets of a GPU, and four plain nodes.

As a program, in a mount namespace of its own, it makes the root that a document on its standard
input tells, enters it and runs a command there:

    {"root": FOLDER, "nodes": [[path, major, minor, mode]], "binds": [[from, to]],
     "links": [[name, leads to]], "command": [...], "environment": {...}}
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from berth.model.edits import DeviceNode, Edits
from berth.rehearsal.mounts import MS_REC, bind, mount

_CLONE_NEWNS: Final = 0x20000
_MS_PRIVATE: Final = 0x40000
_PLAIN: Final = (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9))
_MERGED: Final = ("lib", "lib64", "bin", "sbin")
_LOADER: Final = re.compile(rb"/lib[\w./-]*/ld-[\w.-]+")
_STUBS: Final = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libgcc_s.so.1")
"""Libraries of the C library that a driver's libraries name beside it."""

PYTHON: Final = str(Path(sys.executable).resolve())
"""This Python without what is installed into its environment."""


def plan(
    root: Path, edits: Iterable[Edits], command: Sequence[str], extra: Iterable[Path] = ()
) -> dict[str, Any]:
    """Give the document for a root with exactly these edits.

    Args:
        extra: Folders that the command needs besides.
    """
    every = tuple(edits)
    nodes = [_node(node) for one in every for node in one.nodes]
    binds = [[mount.host_path, mount.container_path] for one in every for mount in one.mounts]
    own = [[str(source), target] for source, target in _python()]
    own += [[str(path), str(path)] for path in extra]
    return {
        "root": str(root),
        "nodes": nodes,
        "binds": own + binds,
        "links": [
            [name, str(Path("/", name).readlink())]
            for name in _MERGED
            if Path("/", name).is_symlink()
        ],
        "command": list(command),
        # What an image's own Python has beside the folders in which the C library looks.
        "environment": {"LD_LIBRARY_PATH": str(Path(sys.base_prefix, "lib"))},
    }


def run(document: dict[str, Any], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command in the root that a document tells; blocks."""
    return subprocess.run(
        [sys.executable, "-m", "tests.hardware.bareroot"],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _node(node: DeviceNode) -> list[Any]:
    return [node.path, node.major, node.minor, node.file_mode]


def _python() -> Iterator[tuple[Path, str]]:
    """What this Python consists of: its files, and the libraries that are loaded into it."""
    for own in (Path(sysconfig.get_path("stdlib")).resolve(), Path(PYTHON)):
        yield own, str(own)
    loader = _LOADER.search(Path(PYTHON).read_bytes())
    for library in _libraries():
        for name in {library, *library.parent.glob("*.so*")}:
            if name.resolve() == library:
                yield library, str(name)
        if loader and library.name.startswith("ld-"):
            yield library, loader[0].decode()


def _libraries() -> frozenset[Path]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    loaded = {path for path in mapped if ".so" in path.name and "nvidia" not in path.name}
    libc = next(path for path in loaded if path.name.startswith(("libc.so", "libc-")))
    stubs = (libc.parent / name for name in _STUBS)
    return frozenset(path.resolve() for path in (*loaded, *stubs) if path.exists())


def main() -> int:
    """Make the root, enter it and become the command."""
    document = json.load(sys.stdin)
    root = Path(document["root"])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", Path("/"), flags=MS_REC | _MS_PRIVATE)
    mount("tmpfs", root, options="mode=755")
    for name in ("dev", "proc", "sys", "tmp"):
        (root / name).mkdir()
    for name, leads_to in document["links"]:
        (root / leads_to.lstrip("/")).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(leads_to.lstrip("/"))
    for source, target in document["binds"]:
        _show(Path(source), root / target.lstrip("/"))
    for name, minor in _PLAIN:
        _make(root / "dev" / name, 1, minor, 0o666)
    for path, major, minor, mode in document["nodes"]:
        _make(root / path.lstrip("/"), major, minor, mode)
    mount("proc", root / "proc")
    os.chroot(root)
    os.chdir("/")
    command, environment = document["command"], document["environment"]
    os.execve(command[0], command, environment)  # noqa: S606 - no shell is in the root


def _show(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir()
    else:
        target.touch()
    bind(source, target, whole=source.is_dir())


def _make(path: Path, major: int, minor: int, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, mode | stat.S_IFCHR, os.makedev(major, minor))
    path.chmod(mode)


if __name__ == "__main__":
    sys.exit(main())
