"""How the process takes memory: asked of kernel and C library, in a process of its own."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from berth.runtime import ownmemory

_PROBE = """
import ctypes, json, threading
from berth.runtime.ownmemory import BLOCK_LIMIT, take_no_more_than_is_used

class Figures(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                 "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Figures
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def mappings():
    return libc.mallinfo2().hblks

def arenas():
    # A thread's arena keeps room of 64 MiB for itself, most of it out of reach.
    lines = [line.split() for line in open("/proc/self/maps")]
    return sum(line[1] == "---p" and len(line) == 5 and 60 << 20 < size(line[0]) < 64 << 20
               for line in lines)

def size(bounds):
    first, last = (int(bound, 16) for bound in bounds.split("-"))
    return last - first

def in_threads(number):
    together = threading.Barrier(number)
    def work():
        block = libc.malloc(1000)
        together.wait()
        libc.free(block)
    threads = [threading.Thread(target=work) for _ in range(number)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

TAKE
before = mappings()
# The library would learn from the first that big blocks come often, and keep the next. No hole that
# Python's start has left is as big.
libc.free(libc.malloc(32 * BLOCK_LIMIT))
block = libc.malloc(32 * BLOCK_LIMIT)
mapped = mappings() - before
libc.free(block)
in_threads(4)
print(json.dumps({
    "huge_pages_off": libc.prctl(42, 0, 0, 0, 0),
    "mapped": mapped,
    "left": mappings() - before,
    "arenas": arenas(),
}))
"""


def told(take: str) -> dict[str, Any]:
    """What a process says that begins with this statement."""
    command = [sys.executable, "-c", _PROBE.replace("TAKE", take)]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, text=True))
    return found


def test_takes_small_pages_one_arena_and_gives_big_blocks_back() -> None:
    """What is taken for a moment leaves nothing behind, whichever thread took it."""

    usual, ours = told(""), told("take_no_more_than_is_used()")

    # The kernel and the library do otherwise by themselves, or this would prove nothing.
    assert (usual["mapped"], usual["arenas"] > 0) == (0, True)
    assert ours == {"huge_pages_off": 1, "mapped": 1, "left": 0, "arenas": 0}


def test_goes_on_where_the_c_library_has_no_such_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Musl has no mallopt: it is no reason not to serve."""

    asked: list[tuple[int, ...]] = []
    library = SimpleNamespace(prctl=lambda *arguments: asked.append(arguments))
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)

    ownmemory.take_no_more_than_is_used()

    assert asked == [(41, 1, 0, 0, 0)]
