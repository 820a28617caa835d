"""The Debian 13 in which vagrant and libvirt run, and the box that is made in it.

Debian 12's emulator knows no NIC with VFs, and testing has no vagrant. Nothing of it is installed
on the machine itself.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from berth.errors import HostError
from tests.cluster import cache, debian
from tests.cluster.boxes import ENVIRONMENT
from tests.nspawn.rootfs import rootfs

VAGRANT = Path(__file__).parents[2] / "vagrant"
MAKE_BOX = ("make-box", "furnish")
SOURCE = "/berth/vagrant"
"""Where the tree's own folder is seen in there."""
BOX = "/var/tmp/berth-box"
"""Where the box is; by default it is looked for there."""
DIST = "/berth/dist"
"""Where the package is: where `make deb` puts it, as seen from the tree's own folder."""
# What docs/how-to/try-a-node-in-a-vm.md has a user install, and what apt adds to it by itself.
PACKAGES = (
    *("vagrant", "vagrant-libvirt", "libvirt-daemon-system", "libvirt-clients"),
    *("qemu-system-x86", "qemu-utils", "mmdebstrap", "e2fsprogs", "libarchive13t64"),
    *("dnsmasq-base", "openssh-client", "rsync"),
)


def root() -> Path:
    """That Debian, for a read-only lower layer; made first when the cache lacks it."""
    return rootfs("13", PACKAGES)


def lay_out(layers: Path, binds: Mapping[Path, str]) -> str:
    """A script that lays the root out in its own mount namespace and goes into it, without chroot.

    Args:
        layers: An empty folder; what is written to the root lies there, in memory.
        binds: Folders out here that it sees, with the path in there.
    """
    where = shlex.quote(str(layers))
    lower = shlex.quote(str(root()))
    options = f"lowerdir={lower},upperdir={where}/upper,workdir={where}/work"
    lines = [
        "set -eu",
        f"mount -t tmpfs -o mode=755 tmpfs {where}",
        f"cd {where}",
        "mkdir upper work root",
        f"mount -t overlay overlay -o {options} root",
        "cd root",
        "mount -t proc proc proc",
        "mount -t sysfs sysfs sys",
        "mount --rbind /dev dev",
        "mount -t tmpfs -o mode=755 tmpfs run",
    ]
    for outside, inside in binds.items():
        target = shlex.quote(f".{inside}")
        lines += [f"mkdir -p {target}", f"mount --bind {shlex.quote(str(outside))} {target}"]
    return "\n".join(lines) + "\n"


def box() -> Path:
    """The folder that `make-box` fills; made first when the cache lacks it, in about a minute.

    Raises:
        HostError: It could not be made; what the script said is told.
    """
    digest = hashlib.sha256()
    for name in MAKE_BOX:
        digest.update((VAGRANT / name).read_bytes())
    return cache.entry(f"vagrant-box-{digest.hexdigest()[:16]}", _make_box)


def _make_box(folder: Path) -> None:
    cache.say("making the box for vagrant")
    layers, scratch = folder / "layers", folder / "scratch"
    layers.mkdir()
    scratch.mkdir()
    binds = {VAGRANT: SOURCE, folder: BOX}
    command = ["nice", "-n", "10", "chroot", ".", "env", f"TMPDIR={BOX}/scratch"]
    make = shlex.join([*command, f"{SOURCE}/make-box", BOX, debian.mirror()])
    script = f"{lay_out(layers, binds)}cp /etc/resolv.conf /etc/hosts etc/\n{make}\n"
    with cache.progress(lambda: "box for vagrant"):
        done = subprocess.run(
            ["unshare", "--mount", "--propagation=private", "sh", "-c", script],
            check=False,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode:
        raise HostError(
            "make-box", f"ended with {done.returncode}", rule="\n" + done.stdout[-2000:]
        )
    for each in (layers, scratch):
        shutil.rmtree(each)
