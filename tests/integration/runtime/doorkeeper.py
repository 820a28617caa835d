"""A daemon in small: a front door on a socket that it inherits, grpcio behind it.

Run as ``doorkeeper.py NAME PUBLIC FOLDER``; answers each call with its name. Says "serving".
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio
from google.protobuf.wrappers_pb2 import StringValue

from berth.runtime.asyncthread import open_asyncio_thread
from berth.runtime.frontdoor import FrontDoor
from berth.runtime.grpcbridge import GrpcServer
from berth.runtime.inotify import open_inotify
from berth.runtime.methods import Call, Method, Service
from berth.runtime.systemd import listen_fds


async def main(name: str, public: Path, folder: Path) -> None:
    """Serve until SIGTERM, then drain."""

    async def answer(_request: StringValue, _call: Call) -> StringValue:
        await trio.lowlevel.checkpoint()
        return StringValue(value=name)

    method = Method(name="Name", request=StringValue, reply=StringValue, handler=answer)
    service = Service(name="test.Door", methods=(method,))
    inherited = listen_fds(os.environ)
    door = FrontDoor(path=public, inherited=inherited.sockets.get(public))
    door.open()
    async with (
        open_asyncio_thread() as thread,
        open_inotify() as inotify,
        trio.open_nursery() as nursery,
    ):
        private = folder / f"{os.getpid()}-dra.sock"
        server = GrpcServer(thread, path=private, services=(service,))
        await nursery.start(server.run)
        nursery.start_soon(door.keep, inotify)
        await nursery.start(door.serve, private)
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                break
        await door.dismiss()
        await server.drain()
        nursery.cancel_scope.cancel()
    door.close()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
