"""Has udev judge links anew, and with it everybody who listens to udev.

What is gone meanwhile needs no judgement, so that is no error here. All blocks, briefly.

Source: Linux ``Documentation/ABI/testing/sysfs-uevent``.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Final

from berth.host.driverbind import write_now
from berth.host.sysfiles import names

_SYS: Final = Path("/sys")


def trigger_link(index: int, *, root: Path = _SYS) -> None:
    """Have the link of an index judged anew."""
    with contextlib.suppress(OSError):
        _change(root / "class/net" / socket.if_indextoname(index))


def trigger_function(address: str, *, root: Path = _SYS) -> None:
    """Have every link of a PCI function judged anew, also those that it has through virtio."""
    function = root / "bus/pci/devices" / address
    for folder in (function / "net", *function.glob("virtio*/net")):
        for name in names(folder):
            _change(folder / name)


def _change(link: Path) -> None:
    with contextlib.suppress(OSError):
        write_now(link / "uevent", b"change")
