"""The first process of a box: lays out its file systems, then waits until it is told to go.

Started by `boxes.py` inside fresh namespaces, as `python3 boxinit.py PLAN`; the plan is JSON.
It writes `ready` to stdout when the box is laid out and ends when its stdin does, so that a box
never outlives the test run, however that ends: with its first process the kernel ends the rest.

It is a script of its own that imports nothing of ours: it must work before there is a `/run`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def mount(*arguments: str) -> None:
    """Call the program of that name, and end the box when it fails."""
    subprocess.run(["mount", *arguments], check=True)


def lay_out(plan: dict[str, Any]) -> None:
    """Give the box its own `/proc`, `/sys`, `/run`, `/etc`, `/var/lib` and boot id."""
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    if plan["hostname"]:
        socket.sethostname(plan["hostname"])
        node_file_systems(plan)
    # kubelet and the runtime hand mounts to each other.
    mount("--make-rshared", "/")


def node_file_systems(plan: dict[str, Any]) -> None:
    """What makes a box a node: every standard path is free and its own.

    The overlays exist so that mount points can be made without touching the machine's folders.
    """
    folder = Path(plan["folder"])
    sysfs = folder / "sys"
    sysfs.mkdir(exist_ok=True)
    mount("-t", "sysfs", "sysfs", str(sysfs))
    mount("--rbind", "/sys/fs/cgroup", f"{sysfs}/fs/cgroup")
    mount("--move", str(sysfs), "/sys")
    for target in ("/etc", "/var/lib"):
        overlay = folder / "overlay" / target.strip("/")
        for part in ("upper", "work"):
            (overlay / part).mkdir(parents=True, exist_ok=True)
        layers = f"lowerdir={target},upperdir={overlay}/upper,workdir={overlay}/work"
        mount("-t", "overlay", "overlay", "-o", layers, target)
    for target in plan["own"]:
        source = folder / "own" / target.strip("/").replace("/", "-")
        source.mkdir(parents=True, exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        mount("--bind", str(source), target)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    boot_id = Path("/run/boot_id")
    boot_id.write_text(plan["boot_id"] + "\n", encoding="ascii")
    mount("--bind", str(boot_id), "/proc/sys/kernel/random/boot_id")


def reap(_signal: int, _frame: object) -> None:
    """Collect what was orphaned: runtime shims end up as our children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    """Lay out, say so, wait for the end of stdin."""
    lay_out(json.loads(sys.argv[1]))
    signal.signal(signal.SIGCHLD, reap)
    os.write(1, b"ready\n")
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main()
