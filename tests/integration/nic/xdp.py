"""The smallest XDP program there is, and how a pod puts it on a link: by two system calls."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

from berth.host.netlink import attributes as nla
from berth.host.netlink.link import IFLA_XDP, LINK_HEAD, RTM_NEWLINK
from berth.host.netlink.message import Request
from berth.host.netlink.socket import Netlink

_BPF: Final = {"x86_64": 321, "aarch64": 280}.get(platform.machine(), 0)
_BPF_PROG_LOAD: Final = 5
_BPF_PROG_TYPE_XDP: Final = 6
_GENERIC: Final = 2
# Register 0 becomes XDP_PASS, and the program ends.
_PROGRAM: Final = struct.pack("=BBhi", 0xB7, 0, 0, 2) + struct.pack("=BBhi", 0x95, 0, 0, 0)

_libc = ctypes.CDLL(None, use_errno=True)


def _load() -> int:
    """Give a descriptor of the loaded program; -1 where the kernel lets nobody."""
    if not _BPF:
        return -1
    code = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
    licence = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack(
        "=IIQQIIQII",
        _BPF_PROG_TYPE_XDP,
        2,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
    )
    attr = attr.ljust(128, b"\0")
    buffer = ctypes.create_string_buffer(attr, len(attr))
    return int(_libc.syscall(_BPF, _BPF_PROG_LOAD, buffer, len(attr)))


def has_bpf() -> bool:
    """Whether this kernel takes XDP programs from us."""
    descriptor = _load()
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def attach_xdp(index: int) -> None:
    """Put the program on a link of this thread's namespace, in the kernel's generic mode."""
    descriptor = _load()
    try:
        body = LINK_HEAD.pack(0, 0, index, 0, 0) + nla.nest(
            IFLA_XDP, nla.s32(1, descriptor), nla.u32(3, _GENERIC)
        )
        with Netlink() as netlink:
            netlink.request(Request(type=RTM_NEWLINK, body=body, label="XDP"))
    finally:
        os.close(descriptor)
