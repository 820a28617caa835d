"""How the process takes memory from the kernel: what it asks for once, before it has much.

What a daemon holds is little and lives long, what a pod costs is taken and given back within a
second. Three things turn that into memory that stays:

- Debian's kernels give huge pages to whoever has 2 MiB of room (``enabled`` is ``always``). A
  thread's stack, of which 12 KiB are used, then becomes 2 MiB once ``khugepaged`` comes by, and so
  does what Python took for later: 2 to 5 MB came over 50 pods where that was emulated. In the lab,
  whose kernel is Debian's, no huge pages are left; whether there were any was not looked at.
- The C library gives threads arenas of their own, whose holes no other thread fills.
- It learns from a big block that was given back to keep the next ones, of up to 32 MiB.

Source: ``PR_SET_THP_DISABLE(2const)``, ``mallopt(3)``, ``malloc/malloc.h`` of glibc 2.36 and 2.41.
"""

from __future__ import annotations

import ctypes
from typing import Final

BLOCK_LIMIT: Final = 64 * 1024
"""From this size on, in bytes, a block is a mapping of its own, and gone when it is given back."""

_SET_THP_DISABLE: Final = 41

# The first three end the learning; an arena more helps who allocates on many processors at once,
# and Python does so on one.
_MALLOC: Final = {
    "M_MMAP_THRESHOLD": (-3, BLOCK_LIMIT),
    "M_TRIM_THRESHOLD": (-1, BLOCK_LIMIT),
    "M_TOP_PAD": (-2, BLOCK_LIMIT // 4),
    "M_ARENA_MAX": (-8, 1),
}


def take_no_more_than_is_used() -> None:
    """From now on take small pages, one arena, and give big blocks back at once.

    Programs that are started later have no huge pages either, unless they ask for them otherwise.
    A C library or kernel without one of these is left as it is: it costs memory and breaks nothing.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_THP_DISABLE, 1, 0, 0, 0)
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:
        for parameter, value in _MALLOC.values():
            mallopt(parameter, value)
