"""The machine with our package in it, installed as an operator would, and kept as a snapshot.

The emulated processor compiles the package's modules for a minute, so that is done once for each
package; the package is the same bytes as long as nothing in it has changed.

`python -m tests.lab.software` makes the machine without a package and does nothing else: continuous
integration does so beside the tests that need no machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.cluster import cache, debian
from tests.cluster.boxes import Box
from tests.lab import emulator, image
from tests.lab import machine as machines
from tests.lab.channel import Guest
from tests.lab.image import Image
from tests.lab.machine import READY

ROOT: Final = Path(__file__).parents[2]
PROVISION: Final = ROOT / "vagrant" / "provision.sh"
TOOLS: Final = {"/usr/sbin/debootstrap": "debootstrap", "/usr/sbin/mke2fs": "e2fsprogs"}
# The unit is the package's own but for its patience: this processor is ten times slower.
_PATIENCE: Final = "[Service]\nTimeoutStartSec=900\nWatchdogSec=300\n"
# One for each package adds up: what nobody made anew for a day goes when the next is made.
_KEPT_S: Final = 86400.0


def package() -> Path:
    """The package: `$BERTH_DEB`, else the one that `make deb` makes of this tree."""
    if given := os.environ.get("BERTH_DEB"):
        return Path(given)
    subprocess.run(["make", "--silent", "deb"], cwd=ROOT, check=True)
    return max((ROOT / "dist").glob("berthd_*.deb"), key=lambda path: path.stat().st_mtime)


def install(guest: Guest, archive: Path) -> str:
    """Install it by the script that makes a node of any machine; gives what that said."""
    guest.write("/etc/systemd/system/berthd.service.d/lab.conf", _PATIENCE)
    guest.write("/root/berthd.deb", archive.read_bytes())
    guest.write("/root/provision.sh", PROVISION.read_bytes())
    return guest.run("sh", "/root/provision.sh", "/root/berthd.deb")


def booted() -> Path:
    """A disk over the image, with a snapshot of the machine when all its units are up."""
    base = image.image()
    return cache.entry(_booted_name(), lambda folder: _boot(base, folder)) / "disk.qcow2"


def _booted_name() -> str:
    return f"lab-{image.key()}-{machines.key()}"


def installed(archive: Path) -> tuple[Image, Path]:
    """The image and a disk over it, with a snapshot of the machine with that package in it."""
    base, first = image.image(), booted()
    digest = hashlib.sha256(
        archive.read_bytes() + PROVISION.read_bytes() + _PATIENCE.encode()
    ).hexdigest()[:16]

    def make(folder: Path) -> None:
        _forget_old()
        cache.say("installing the package in the lab")
        machines.copy_disk(first, folder / "disk.qcow2")
        with machines.on(_net(folder), folder / "machine", base, folder / "disk.qcow2") as one:
            one.start(snapshot=READY)
            install(one.guest, archive)
            one.guest.run("systemctl", "stop", "berthd.socket", "berthd.service")
            one.save(READY)

    return base, cache.entry(f"{_booted_name()}-{digest}", make) / "disk.qcow2"


def _boot(base: Image, folder: Path) -> None:
    cache.say("booting the lab for its snapshot")
    emulator.make_overlay(base.disk, folder / "disk.qcow2")
    with machines.on(_net(folder), folder / "machine", base, folder / "disk.qcow2") as one:
        one.start()
        one.guest.run("systemctl", "is-system-running", "--wait", check=False)
        one.guest.run("ctr", "-n", "k8s.io", "image", "import", "/usr/lib/lab/images.tar")
        one.guest.run("sync")
        one.save(READY)


def _net(folder: Path) -> Box:
    return Box("lab-net", folder / "box", node=False)


def _forget_old() -> None:
    for each in cache.root().glob("lab-*-*-*"):
        if time.time() - each.stat().st_mtime > _KEPT_S:
            shutil.rmtree(each)


def main() -> int:
    """Make what does not depend on the package, say where it lies and how long it took."""
    began = time.monotonic()
    debian.install(TOOLS)
    found = booted()
    cache.say(f"the lab's machine in {found.parent} after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
