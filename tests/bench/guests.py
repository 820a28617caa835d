"""What the packaged service costs on the emulated machine, as the kernel there tells it."""

from __future__ import annotations

from typing import Final

import attrs

from tests.lab.labnode import LabNode

_TOLD: Final = "cat /proc/$1/status /proc/$1/stat; ls /proc/$1/fd | wc -l; getconf CLK_TCK"


@attrs.frozen(kw_only=True)
class Cost:
    """What the service had, or had used, at one moment.

    Attributes:
        pid: Its process; figures of two processes say nothing beside each other.
        rss_mb: Resident memory, shared pages included.
        own_mb: What of it no file backs: a leak is there. Pages of programs come one by one, as
            they are run for the first time since the machine was on.
        cpu_s: Processor time so far, in itself and in the kernel.
        files: Open files.
    """

    pid: int
    rss_mb: float
    own_mb: float
    cpu_s: float
    threads: int
    files: int


def cost(node: LabNode) -> Cost:
    """What it has now."""
    pid = node.run("systemctl", "show", "--property=MainPID", "--value", node.berthd.name).strip()
    *status, stat, files, ticks_a_second = node.run("sh", "-euc", _TOLD, "sh", pid).splitlines()
    told = {line.partition(":")[0]: line.partition(":")[2].split() for line in status}
    user, system = stat.rpartition(")")[2].split()[11:13]
    return Cost(
        pid=int(pid),
        rss_mb=int(told["VmRSS"][0]) / 1024,
        own_mb=int(told["RssAnon"][0]) / 1024,
        cpu_s=(int(user) + int(system)) / int(ticks_a_second),
        threads=int(told["Threads"][0]),
        files=int(files),
    )
