"""The emulator: qemu of Debian 13, run with its own libraries wherever it was unpacked.

Debian 12's qemu knows no NIC with SR-IOV. Nothing is installed and no root is changed: the dynamic
loader that came with it is told where its libraries lie.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster import debian

RELEASE = "trixie"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_DATA = ("usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu")


def folder() -> Path:
    """Where it is unpacked; fetched first when the cache lacks it."""
    return debian.unpack_with_libraries(
        "qemu", "qemu-system-x86", "qemu-utils", "ipxe-qemu", release=RELEASE
    )


def program(name: str) -> list[str]:
    """How a program of it is started."""
    root = folder()
    libraries = root / _LIBRARIES
    loader = libraries / "ld-linux-x86-64.so.2"
    return [str(loader), "--library-path", str(libraries), str(root / "usr/bin" / name)]


def system() -> list[str]:
    """How the emulated machine is started, without any device."""
    data = [part for each in _DATA for part in ("-L", str(folder() / each))]
    return [*program("qemu-system-x86_64"), *data, "-nodefaults", "-no-user-config"]


def make_overlay(disk: Path, overlay: Path) -> None:
    """Make a disk that keeps what is changed over another, which is left as it is."""
    command = [*program("qemu-img"), "create", "-q", "-f", "qcow2", "-F", "raw"]
    subprocess.run([*command, "-b", str(disk), str(overlay)], check=True)
