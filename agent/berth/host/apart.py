"""Calls that the kernel may hold up without end, by threads that keep nothing of ours open.

A thread that waits in the kernel where no signal reaches it outlives its process, even one that was
killed; and as long as it is there, so is every file that the process had open: the lock of the
state folder, the sockets for kubelet. No other daemon could start before it comes back.

Source: close_range(2), ``CLOSE_RANGE_UNSHARE``, of Linux 5.9 and glibc 2.34; seen on Linux 6.12
with an unbind from vfio-pci.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_ALL: Final = 0xFFFFFFFF
_UNSHARE: Final = 2
_libc = ctypes.CDLL(None, use_errno=True)


def run_apart(work: Callable[[], T]) -> T:
    """Give what work gives in a thread of its own that has no file open; blocks as long as that.

    Args:
        work: Opens what it needs, and does little else: the thread's descriptors are not ours.
    """
    answers: list[T] = []
    errors: list[Exception] = []

    def alone() -> None:
        # A kernel that refuses it leaves the thread what it was.
        _libc.close_range(0, _ALL, _UNSHARE)
        try:
            answers.append(work())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            errors.append(error)

    thread = threading.Thread(target=alone, name=threading.current_thread().name, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
