"""Keeps a packet program, for `ip link set dev LINK xdpgeneric pinned FILE`: `xdp.py FILE`.

The program lets every packet pass. Numbers: linux/bpf.h of 6.12, the call's number of x86-64.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_BPF = 321
_PROG_LOAD, _OBJ_PIN, _TYPE_XDP = 5, 6, 6
# Two instructions: XDP_PASS into the register of the result, and the end.
_PROGRAM = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0)


def call(command: int, attributes: bytes) -> int:
    """bpf(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    given = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result: int = libc.syscall(_BPF, command, given, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def main() -> None:
    """Load the program and give it a name in the file system."""
    instructions = ctypes.create_string_buffer(_PROGRAM)
    words = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQ", _TYPE_XDP, 2, ctypes.addressof(instructions), ctypes.addressof(words)
    )
    descriptor = call(_PROG_LOAD, load)
    name = ctypes.create_string_buffer(sys.argv[1].encode())
    call(_OBJ_PIN, struct.pack("<QI", ctypes.addressof(name), descriptor))


if __name__ == "__main__":
    main()
