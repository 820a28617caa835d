"""Watches a socket's path in user and mount namespaces of its own, and says what it sees.

Run as ``-m watcher limit NAME FOLDER`` with a file of ``/proc/sys/user``, whose limit is 0 at first
and later 8, or as ``-m watcher unmount FOLDER``.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from berth.runtime.inotify import open_inotify
from berth.runtime.logs import start_logging
from berth.runtime.sockets import InodeChanges, watch_inode
from tests.descriptors import inotify_watches

LIMIT_S = 30.0


async def bind(path: trio.Path) -> None:
    """Leave a socket."""
    with trio.socket.socket(trio.socket.AF_UNIX) as made:
        await made.bind(str(path))


def say(text: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def follow(changes: InodeChanges, *acts: Callable[[], Awaitable[None]]) -> None:
    """Do one thing after the other, each while it is waited for; say what is seen of each."""
    async with trio.open_nursery() as nursery:
        for act in (trio.lowlevel.checkpoint, *acts):
            nursery.start_soon(act)
            found = await changes.wait_next()
            say(f"{'nothing' if found is None else 'socket'}, watches: {inotify_watches()}")


async def until_watched() -> None:
    """Wait until the kernel watches a folder for this process, which nobody tells."""
    while True:
        if sum(inotify_watches()):
            return
        await trio.sleep(0.05)


async def limit(name: str, folder: Path) -> None:
    """Watch while the kernel has none left, and when it has again."""
    allowed = trio.Path("/proc/sys/user") / name
    path = trio.Path(folder / "x.sock")

    async def make() -> None:
        await bind(path)

    async def remove() -> None:
        await allowed.write_text("8")
        await until_watched()
        await path.unlink()

    await allowed.write_text("0")
    async with open_inotify() as inotify:
        with watch_inode(inotify, Path(path)) as changes:
            await follow(changes, make, remove, make)


async def unmount(folder: Path) -> None:
    """Watch in a file system that goes."""
    path = trio.Path(folder / "x.sock")

    async def make() -> None:
        await bind(path)

    async def end() -> None:
        await trio.run_process(["umount", str(folder)])

    await trio.run_process(["mount", "-t", "tmpfs", "none", str(folder)])
    await make()
    async with open_inotify() as inotify:
        with watch_inode(inotify, Path(path)) as changes:
            await follow(changes, end, make)


async def main(how: str, name: str, folder: Path) -> None:
    """Do what is asked for."""
    with trio.fail_after(LIMIT_S):
        await (limit(name, folder) if how == "limit" else unmount(folder))


if __name__ == "__main__":
    start_logging(environ={})
    trio.run(main, sys.argv[1], sys.argv[2], Path(sys.argv[-1]))
