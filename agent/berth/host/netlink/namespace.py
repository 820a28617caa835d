"""Work in another network namespace, in a thread that then ends.

A socket, and what ``/proc/sys/net`` shows, belong to the namespace of the thread that opens them.
A pooled thread that once entered a namespace would serve its next caller there (seen), so each
entry has a thread of its own. ``setns`` is called through the C library: Python has it from 3.12.

Blocks: never call this on the trio thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from berth.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

Netns: TypeAlias = "str | os.PathLike[str] | int"
"""A namespace: the path that a runtime names, or an open descriptor."""

HOME: Final = "/proc/self/ns/net"
"""The namespace that the process started in; worker threads never leave it."""

CLONE_NEWNET: Final = 0x40000000
"""The kind of a network namespace; ``linux/sched.h``."""

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def netns_descriptor(netns: Netns) -> Iterator[int]:
    """Give a descriptor of a namespace for the block; one that was opened here is then closed.

    A descriptor keeps the namespace, and the devices in it, alive: make the block short.

    Raises:
        HostError: The path cannot be opened.
    """
    if isinstance(netns, int):
        yield netns
        return
    try:
        # Whatever else lies at the path, a FIFO say, must not hold the thread up.
        descriptor = os.open(netns, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _told(error, os.fspath(netns), "cannot be opened") from error
    except ValueError as error:  # a NUL, or half a surrogate pair
        text = ascii(os.fspath(netns))
        raise HostError(text, "is no path that can be opened", errno=errno.ENOENT) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def run_in_netns(netns: Netns, work: Callable[[], T]) -> T:
    """Give what work gives when a fresh thread does it inside a network namespace.

    The thread's end can follow the return by some microseconds; till then it keeps the namespace.

    Args:
        netns: The namespace; a path is opened in the thread and closed before the work begins.
        work: What to do there. It must leave nothing behind that lives on in the thread.

    Raises:
        HostError: The namespace cannot be entered, or the system gives no further thread.
        BaseException: Whatever the work raises.
    """

    def inside() -> T:
        _enter(netns)
        return work()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as thread:
        try:
            future = thread.submit(inside)
        except RuntimeError as error:
            raise HostError("netns", str(error), errno=errno.EAGAIN) from error
        return future.result()


def _enter(netns: Netns) -> None:
    with netns_descriptor(netns) as descriptor:
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            where = f"descriptor {netns}" if isinstance(netns, int) else os.fspath(netns)
            raise _told(OSError(number, os.strerror(number)), where, "cannot be entered")


def _told(error: OSError, where: str, found: str) -> HostError:
    return HostError(
        where,
        f"{found}: {error.strerror}",
        rule="it must be a network namespace that this process may enter",
        errno=error.errno or 0,
    )
