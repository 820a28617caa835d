"""The guest's disk, kernel and initrd, made of Debian 13's packages and kept in the cache.

Its name in the cache is a hash of all that it is made of, so that a change of the recipe makes
another one; the packages are those of the day on which it was made.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import attrs

from berth.errors import HostError
from tests.cluster import cache, debian, images, parts
from tests.cluster.gobuild import build
from tests.lab import initrd
from tests.lab.emulator import RELEASE

GUEST = Path(__file__).parent / "guest"
PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "kmod", "iproute2", "pciutils", "python3"),
    *("ethtool", "runc", "containernetworking-plugins", "libudev1"),
)
_DISK = ("mke2fs", "-q", "-t", "ext4", "-L", "root")
_SIZE = "6G"
# Work that a guest of minutes has no use for.
_MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service", "systemd-tmpfiles-clean.timer"),
    *("systemd-networkd-wait-online.service", "systemd-timesyncd.service"),
    *("getty@tty1.service", "serial-getty@ttyS0.service"),
)
_FILES = {
    "/etc/hostname": "lab\n",
    "/etc/hosts": "127.0.0.1 localhost lab\n",
    "/etc/fstab": "/dev/vda / ext4 rw,noatime 0 0\n",
    "/etc/resolv.conf": "nameserver 127.0.0.1\n",
    "/etc/modules-load.d/lab.conf": "overlay\nvfio-pci\nbr_netfilter\n",
    "/etc/sysctl.d/lab.conf": "net.ipv4.ip_forward = 1\n",
    "/etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=persistent\nSyncIntervalSec=1s\n",
}
_PLACES = {
    "agent.py": "/usr/lib/lab/agent.py",
    "10-management.network": "/etc/systemd/network/10-management.network",
    "lab-agent.service": "/etc/systemd/system/lab-agent.service",
    "containerd.service": "/etc/systemd/system/containerd.service",
    "containerd.toml": "/etc/containerd/config.toml",
    "kubelet.service": "/etc/systemd/system/kubelet.service",
}
_ENABLED = ("systemd-networkd", "lab-agent", "containerd", "kubelet")


@attrs.frozen(kw_only=True)
class Image:
    """What a machine is started from; nobody changes it."""

    disk: Path
    kernel: Path
    initrd: Path


def key() -> str:
    """Changes when anything that the image is made of does, but for Debian's packages."""
    digest = hashlib.sha256()
    for each in _recipe():
        digest.update(each)
    return digest.hexdigest()[:16]


def _recipe() -> Iterator[bytes]:
    for file in (Path(__file__), Path(initrd.__file__), *sorted(GUEST.iterdir())):
        if file.is_file():
            yield file.read_bytes()
    for part in (parts.KUBERNETES, parts.CONTAINERD):
        yield part.key().encode()
    yield images.archive().parent.name.encode()


def image() -> Image:
    """The image; made first when the cache lacks it, which takes about two minutes."""
    folder = cache.entry(f"lab-{key()}", _make)
    return Image(disk=folder / "disk.img", kernel=folder / "vmlinuz", initrd=folder / "initrd.cpio")


def _make(folder: Path) -> None:
    kernel = debian.unpack_kernel(release=RELEASE)
    (modules,) = (kernel / "usr/lib/modules").iterdir()
    (boot,) = (kernel / "boot").glob("vmlinuz-*")
    shutil.copy(boot, folder / "vmlinuz")
    (folder / "initrd.cpio").write_bytes(initrd.make(modules))
    root = folder / "root"
    _bootstrap(root)
    shutil.copytree(modules, root / "usr/lib/modules" / modules.name, symlinks=True)
    subprocess.run(["chroot", root, "depmod", modules.name], check=True)
    _fill(root)
    cache.say("writing the lab's disk")
    subprocess.run([*_DISK, "-d", root, folder / "disk.img", _SIZE], check=True)
    shutil.rmtree(root)


def _bootstrap(root: Path) -> None:
    cache.say(f"making a root of Debian {RELEASE} for the lab")
    wanted = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", wanted, RELEASE, str(root), debian.mirror()]
    log = root.with_name("debootstrap.log")
    with log.open("wb") as told:
        done = subprocess.run(command, check=False, stdout=told, stderr=subprocess.STDOUT)
    if done.returncode:
        raise HostError("debootstrap", "failed", rule="\n" + log.read_text()[-2000:])
    for left in (root / "var/cache/apt/archives").glob("*.deb"):
        left.unlink()


def _fill(root: Path) -> None:
    """What makes it a node: a fixed identity, our units, the cluster's parts."""
    for name, text in {**_FILES, "/etc/machine-id": f"{uuid.uuid4().hex}\n"}.items():
        _place(root, name).write_text(text, encoding="ascii")
    for name, where in _PLACES.items():
        shutil.copy(GUEST / name, _place(root, where))
    for unit in _MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    binaries = root / "usr/local/bin"
    shutil.copy(build(parts.KUBERNETES) / "kube", binaries)
    for binary in build(parts.CONTAINERD).iterdir():
        shutil.copy(binary, binaries)
    shutil.copy(images.archive(), _place(root, "/usr/lib/lab/images.tar"))
    subprocess.run(["chroot", root, "systemctl", "enable", "-q", *_ENABLED], check=True)


def _place(root: Path, name: str) -> Path:
    file = root / name.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
