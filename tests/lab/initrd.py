"""An initrd that finds the guest's disk and nothing else: 5 MB and a fifth of a second.

Debian's own looks for a dozen things, which an emulated processor takes many seconds for.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

BUSYBOX = Path("/usr/bin/busybox")
# In an order in which each finds what it needs; crc32c is asked for by name only, so no list of
# dependencies has it.
MODULES = (
    "crypto/crc32c_generic",
    "drivers/block/virtio_blk",
    "lib/crc16",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
)
_INIT = """#!/bin/busybox sh
bb=/bin/busybox
$bb mount -t devtmpfs dev /dev
for module in {modules}; do $bb insmod /modules/$module.ko; done
until [ -b /dev/vda ]; do $bb usleep 10000; done
$bb mount -t ext4 -o noatime /dev/vda /root
$bb mount --move /dev /root/dev
exec $bb switch_root /root /sbin/init
"""
_FOLDER, _FILE, _PROGRAM, _CHARACTER = 0o40755, 0o100644, 0o100755, 0o20600


class Archive:
    """A cpio archive of the form that the kernel unpacks (`newc`)."""

    def __init__(self) -> None:
        self._written = bytearray()
        self._entries = 0

    def add(
        self, name: str, mode: int, data: bytes = b"", *, device: tuple[int, int] = (0, 0)
    ) -> None:
        """Add a file, a folder or a device, which `mode` tells."""
        self._entries += 1
        path = name.encode() + b"\0"
        fields = (self._entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + path, data):
            self._written += part + b"\0" * (-(len(self._written) + len(part)) % 4)

    def end(self) -> bytes:
        """The whole archive."""
        self.add("TRAILER!!!", 0)
        return bytes(self._written)


def make(modules: Path, wanted: Sequence[str] = MODULES) -> bytes:
    """The archive.

    Args:
        modules: The folder of the kernel's modules, named after its release.
        wanted: Names of modules below its `kernel/`, in the order of their loading.
    """
    archive = Archive()
    for folder in ("bin", "dev", "modules", "root"):
        archive.add(folder, _FOLDER)
    archive.add("dev/console", _CHARACTER, device=(5, 1))
    archive.add("bin/busybox", _PROGRAM, BUSYBOX.read_bytes())
    for each in wanted:
        packed = (modules / "kernel" / f"{each}.ko.xz").read_bytes()
        archive.add(f"modules/{Path(each).name}.ko", _FILE, lzma.decompress(packed))
    names = " ".join(Path(each).name for each in wanted)
    archive.add("init", _PROGRAM, _INIT.format(modules=names).encode())
    return archive.end()
