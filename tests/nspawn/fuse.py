"""The daemon with a fuse: SIGUSR1 hangs its trio loop, SIGUSR2 grpcio's loop, each for an hour.

With a number as its argument, recovery takes that many seconds longer.

Started inside a container in the place of `/usr/sbin/berthd`, with the package's code on its path.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from typing import Any

import trio

from berth.daemon import main
from berth.node.claims.recovery import Recovery
from berth.runtime.asyncthread import AsyncioThread


def hang_trio(_number: int, _frame: object) -> None:
    """Handlers of signals run in the main thread, which is trio's."""
    time.sleep(3600)


def hang_grpcio(_number: int, _frame: object) -> None:
    """Give the other loop something that does not end."""
    for thing in gc.get_objects():
        if isinstance(thing, AsyncioThread):
            thing.post(time.sleep, 3600)


def delay_recovery(seconds: float) -> None:
    """Have it read the records as slowly as a bad disk gives them."""
    load = Recovery.load

    async def load_slowly(self: Any) -> None:
        await trio.sleep(seconds)
        await load(self)

    Recovery.load = load_slowly  # type: ignore[method-assign]


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, hang_trio)
    signal.signal(signal.SIGUSR2, hang_grpcio)
    for argument in sys.argv[1:]:
        delay_recovery(float(argument))
    sys.exit(main([]))
