"""berthd that dies where a fuse says: run by path in the daemon's place.

The fuse is a file on the node with a number. After so many netlink messages that change a NIC the
process is killed; with 0 it is killed before the first. Without the file it is berthd as ever.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import sys
from pathlib import Path
from unittest.mock import patch

from berth.daemon import main
from berth.host.netlink.socket import send_now
from berth.node.nics import Nics

FUSE = "/run/berthd-fuse"
_GET = 2
"""The two lowest bits of an rtnetlink message's type tell what it does; this one only reads."""


def send(sock: socket.socket, data: bytes, /) -> None:
    """Send a request, or die before it or behind it."""
    fuse = Path(FUSE)
    kind = int.from_bytes(data[4:6], sys.byteorder)
    if kind & 3 == _GET or not fuse.exists():
        send_now(sock, data)
        return
    left = int(fuse.read_text())
    if left:
        send_now(sock, data)
    if left <= 1:
        fuse.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    fuse.write_text(str(left - 1))


if __name__ == "__main__":
    with patch("berth.daemon.parts.Nics", functools.partial(Nics, send=send)):
        sys.exit(main())
