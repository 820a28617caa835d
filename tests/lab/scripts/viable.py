"""Asks whether a program that opens an IOMMU group could use it: `viable.py /dev/vfio/N`.

It prints `viable`, or `not viable` when a member is with a driver of the host.
Source: linux/vfio.h of 6.12 (VFIO_GROUP_GET_STATUS).
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

_GET_STATUS, _VIABLE = 0x3B67, 1


def main() -> None:
    """Ask, and tell."""
    group = os.open(sys.argv[1], os.O_RDWR)
    status = bytearray(struct.pack("<II", 8, 0))
    fcntl.ioctl(group, _GET_STATUS, status)
    viable = struct.unpack("<II", status)[1] & _VIABLE
    os.write(1, b"viable\n" if viable else b"not viable\n")


if __name__ == "__main__":
    main()
