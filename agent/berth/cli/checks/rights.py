"""The rights that the daemon needs, and the folder that it keeps its state in.

Source: packaging.md §2 (the unit); ``capability.h`` for the numbers.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.sandbox import SERVICE
from berth.cli.checks.unitfile import read_unit
from berth.runtime.lock import NAME as LOCK

TOPIC: Final = "daemon"

CAPABILITIES: Final = {
    11: "CAP_NET_BROADCAST",
    12: "CAP_NET_ADMIN",
    13: "CAP_NET_RAW",
    21: "CAP_SYS_ADMIN",
}
"""What moving NICs, announcing them, and seeing them in pods, takes."""

LEAST_BYTES: Final = 16 * 1024 * 1024
"""Free space in the state folder below which a warning is due."""


def check_capabilities(machine: Machine) -> Iterator[Line]:
    """Whether the running daemon, or else this user, has what it takes to move NICs."""
    pid = (machine.status or {}).get("pid")
    if pid is None:
        mend = "" if read_unit(machine, SERVICE) is None else f"systemctl status {SERVICE} says why"
        yield Line(topic=TOPIC, level=Level.NOTE, text="berthd does not answer here", mend=mend)
    if pid is None and machine.user_id != 0:
        text = "this is not root, and some of what is looked at only root can see"
        yield Line(topic=TOPIC, level=Level.NOTE, text=text, mend="run it as root")
        return
    who = f"process {pid}" if pid else "what root starts here"
    text = machine.read(f"/proc/{pid or 'self'}/status") or ""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", text, re.MULTILINE)
    if found is None:
        return
    mask = int(found[1], 16)
    missing = [name for number, name in CAPABILITIES.items() if not mask >> number & 1]
    if missing:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"{who} lacks {', '.join(missing)}",
            mend="add them to CapabilityBoundingSet= of the unit, or of the container around it",
        )
    elif pid:
        yield Line(topic=TOPIC, level=Level.OK, text=f"berthd runs as {who}")


def check_state(machine: Machine) -> Iterator[Line]:
    """Whether state can be kept, and whether somebody keeps it already."""
    folder = machine.config.node.state_dir
    path = machine.at(folder)
    if not path.is_dir():
        text = f"{folder} is not there yet; the daemon makes it"
        yield Line(topic=TOPIC, level=Level.NOTE, text=text)
        return
    space = os.statvfs(path)
    if space.f_flag & os.ST_RDONLY:
        mend = "make it writable, or set [node] state_dir"
        text = f"{folder} is on a read-only file system"
        yield Line(topic=TOPIC, level=Level.FAULT, text=text, mend=mend)
    elif space.f_bavail * space.f_frsize < LEAST_BYTES:
        free = space.f_bavail * space.f_frsize // 1024
        text = f"{folder} has {free} KiB left: claims are refused when it is full"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend="free space there")
    holder = _holder(path)
    if holder and machine.status is None:
        yield Line(
            topic=TOPIC,
            level=Level.FAULT,
            text=f"process {holder} holds {folder}/{LOCK}, and does not answer",
            mend="see what it does, or end it",
        )


def _holder(folder: Path) -> str:
    """The process that holds the lock of a state folder; empty when nobody does."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return ""
