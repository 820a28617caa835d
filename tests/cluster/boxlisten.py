"""Binds listening sockets inside a box and hands them out, as a systemd socket unit would.

`python3 boxlisten.py FD PATH...`: the sockets must be bound in there, so that their names are the
node's and not the way to them from outside; they leave through the Unix socket FD, in order.
It imports nothing of ours, since it is run by path.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def listen(path: str) -> socket.socket:
    """A socket that listens there; the folder is made and an old socket's file replaced."""
    Path(path).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    Path(path).unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    Path(path).chmod(0o600)
    made.listen(128)
    return made


def main() -> None:
    """Bind what is named and hand it out."""
    sockets = [listen(path) for path in sys.argv[2:]]
    with socket.socket(fileno=int(sys.argv[1])) as out:
        socket.send_fds(out, [b"."], [each.fileno() for each in sockets])


if __name__ == "__main__":
    main()
