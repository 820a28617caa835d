"""Opens a function through its IOMMU group and keeps it open for ever: `holder.py GROUP ADDRESS`.

As a virtual machine that hangs, it heeds no request to let go. It prints its process' number once
it has it, and goes on in the background.
Source: linux/vfio.h of 6.12 (VFIO_GROUP_SET_CONTAINER, VFIO_SET_IOMMU, VFIO_GROUP_GET_DEVICE_FD).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys

_SET_IOMMU, _SET_CONTAINER, _GET_DEVICE, _TYPE1 = 0x3B66, 0x3B68, 0x3B6A, 1


def main() -> None:
    """Open it, tell who has it, and sleep."""
    number, address = sys.argv[1:]
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    group = os.open(f"/dev/vfio/{number}", os.O_RDWR)
    fcntl.ioctl(group, _SET_CONTAINER, container.to_bytes(4, sys.byteorder))
    fcntl.ioctl(container, _SET_IOMMU, _TYPE1)
    fcntl.ioctl(group, _GET_DEVICE, address.encode() + b"\0")
    if holder := os.fork():
        os.write(1, f"{holder}\n".encode())
        return
    # Whoever waits for the end of the output shall not wait for this.
    for standard in (0, 1, 2):
        os.close(standard)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
