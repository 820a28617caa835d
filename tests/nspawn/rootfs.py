"""Root file systems of Debian releases: made once, kept in the cache, never written to again."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

from berth.errors import HostError
from tests.cluster import cache, debian

SUITES: Final = {"12": "bookworm", "13": "trixie", "testing": "testing"}
"""What each release is called in Debian's archive."""

# What a node has before berthd comes, and what the tests look at it with.
PACKAGES: Final = (
    "ca-certificates",
    "init-system-helpers",
    "iproute2",
    "libudev1",
    "python3",
    "systemd",
    "systemd-sysv",
    "udev",
)
_OPTIONS: Final = (
    "--variant=minbase",
    "--aptopt=Acquire::Languages none",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)


def rootfs(release: str, also: tuple[str, ...] = ()) -> Path:
    """The folder with that release's root file system, for a read-only lower layer.

    Made from the machine's own Debian mirror when it is not in the cache; that takes 20 s to 70 s.

    Args:
        also: Further packages.

    Raises:
        HostError: The machine's apt knows no Debian mirror, or the release cannot be had.
    """
    options = (*_OPTIONS, f"--include={','.join((*PACKAGES, *also))}")
    digest = hashlib.sha256(" ".join(options).encode()).hexdigest()[:16]
    return cache.entry(f"rootfs-{release}-{digest}", lambda folder: _make(release, options, folder))


def _make(release: str, options: tuple[str, ...], folder: Path) -> None:
    cache.say(f"making the root file system of Debian {release}")
    with cache.progress(lambda: f"root file system of Debian {release}"):
        result = subprocess.run(
            [
                "mmdebstrap",
                *options,
                # As in `debian`: a mirror may stand still for a while.
                '--aptopt=Acquire::Check-Valid-Until "false"',
                "--skip=check/empty",
                SUITES[release],
                folder,
                debian.mirror(),
            ],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if result.returncode:
        raise HostError(
            "mmdebstrap", f"ended with {result.returncode}", rule="\n" + result.stdout[-2000:]
        )
