"""berthd that dies or stops where a fuse says: run by path in the daemon's place.

The fuse is a file on the node: a phase, a number and a signal, such as `attach 3 SIGKILL`. In that
phase, after so many netlink messages that change something, the process sends itself the signal;
with 0 before the first. The file is gone then. Without it this is berthd as ever.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from berth.daemon import main
from berth.host.netlink.socket import send_now
from berth.node.nics.nics import Nics

FUSE = os.environ.get("BERTHD_FUSE", "/run/berthd-fuse")
"""A unit's sandbox may let it write elsewhere."""
PHASES = {
    "stage": "berth.nic.attach.stage",
    "attach": "berth.nic.attach.attach",
    "return": "berth.nic.homecoming.bring_home",
}
"""What runs in each phase, in a thread, one at a time."""
_GET = 2
"""The two lowest bits of an rtnetlink message's type tell what it does; this one only reads."""


class Fuse:
    """Counts messages, and sends the signal."""

    def __init__(self) -> None:
        self._phase = ""

    def watch(self, phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its messages counted in that phase."""

        @functools.wraps(work)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._phase = phase
            try:
                return work(*args, **kwargs)
            finally:
                self._phase = ""

        return watched

    def send(self, sock: socket.socket, data: bytes, /) -> None:
        """Send a request, and the signal before it or behind it."""
        if int.from_bytes(data[4:6], sys.byteorder) & 3 == _GET:
            send_now(sock, data)
            return
        left, number = self._read()
        if left == 0:
            _blow(number)
        send_now(sock, data)
        if left == 1:
            _blow(number)
        elif left > 1:
            Path(FUSE).write_text(f"{self._phase} {left - 1} {number.name}")

    def _read(self) -> tuple[int, signal.Signals]:
        """How many messages are left, and the signal; none in another phase or without a fuse."""
        with contextlib.suppress(FileNotFoundError):
            phase, left, name = Path(FUSE).read_text().split()
            if phase == self._phase:
                return int(left), signal.Signals[name]
        return -1, signal.SIGKILL


def _blow(number: signal.Signals) -> None:
    Path(FUSE).unlink()
    # To this thread: one that is for the process may stop it only after the next message.
    signal.pthread_kill(threading.get_ident(), number)


@contextlib.contextmanager
def fused() -> Iterator[None]:
    """Have the daemon that is made in the block burn the fuse."""
    fuse = Fuse()
    with contextlib.ExitStack() as stack:
        for phase, name in PHASES.items():
            module, _, function = name.rpartition(".")
            work = getattr(sys.modules[module], function)
            stack.enter_context(patch(name, fuse.watch(phase, work)))
        send = functools.partial(Nics, send=fuse.send)
        stack.enter_context(patch("berth.daemon.holdings.Nics", send))
        yield


if __name__ == "__main__":
    with fused():
        sys.exit(main())
