"""What the service costs a node on which it has nothing to do."""

from __future__ import annotations

import time
from typing import Final

from tests.nspawn.container import poll
from tests.nspawn.node import SERVICE, Node

RSS_LIMIT_MB: Final = {"12": 74, "13": 79, "testing": 85}
"""Resident memory after READY, by Debian's release, as in the rehearsal's own test of it."""

OWN_WAKE_UPS_S: Final = 2.0
"""Wake-ups a second of trio's thread: the watchdog's two in 30 s, and a look for credentials and
the runtime that are not there. grpcio's threads have their own, about 10."""

WATCHED_S: Final = 20.0


def test_memory_after_ready_is_below_its_limit(node: Node) -> None:
    """As the package runs it: with bytecode of its own, and nothing of a developer's tree."""

    node.run("systemctl", "restart", SERVICE)
    release = node.container.name.partition("-")[0].removeprefix("debian")

    assert node.figure("VmRSS") / 1024 < RSS_LIMIT_MB[release]


def test_idle_daemon_sleeps(node: Node) -> None:
    """With no device configured its own loop has next to nothing to wake up for."""

    node.run("systemctl", "restart", SERVICE)
    main = node.pid
    switches = "voluntary_ctxt_switches"
    # What the start began has come to rest.
    poll(lambda: _in_a_second(node, main), lambda count: count < 5, what="rest after the start")
    before = node.figure(switches, task=main)
    time.sleep(WATCHED_S)

    assert (node.figure(switches, task=main) - before) / WATCHED_S < OWN_WAKE_UPS_S


def _in_a_second(node: Node, task: int) -> int:
    before = node.figure("voluntary_ctxt_switches", task=task)
    time.sleep(1)
    return node.figure("voluntary_ctxt_switches", task=task) - before
