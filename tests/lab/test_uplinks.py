"""Functions that keep the machine reachable through links that this host's kernel has none of."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.labnode import VFS, LabNode
from tests.lab.labsite import LabSite

pytestmark = pytest.mark.slow

FIRST, SECOND = "nic-0000-21-10-0", "nic-0000-21-10-2"
OUT = """link set ens1v0 down
link set ens1v0 master out0
link set out0 up
address add 203.0.113.2/24 dev out0
route add default via 203.0.113.1 dev out0 metric 5000
"""
ROUNDS = 10
"""Of a thousand events each, of which its socket has room for about two thousand."""


def test_port_of_a_bond_that_leads_out_is_not_offered(site: LabSite) -> None:
    """By a default route behind the bond; it is offered again when the bond is gone.

    NW §10 row 24: whoever tells it of the bond is not heard, since too much else was told; the
    look that makes up for it goes on while links come and go, and misses none of the others.
    """

    node = site.node
    node.make_vfs("ens1", 2)
    node.ip("link", "add", "out0", "type", "bond")
    node.ip("link", "add", "pod0", "type", "veth", "peer", "name", "pod1")
    # Of an alias nothing is told while a link is down.
    node.ip("link", "set", "pod0", "up")
    site.open(VFS, nics=[], offers=[FIRST, SECOND])

    with deaf(node):
        batch(node, OUT)
    batch(node, churn())

    site.wait_offered([SECOND])
    (listed,) = (each for each in site.listed("devices") if each["ifname"] == "ens1v0")
    assert listed["reason"] == "uplink"
    assert [
        line for line in site.log_lines(" gone=") if SECOND in line.partition(" gone=")[2]
    ] == []
    for link in ("out0", "pod0"):
        node.ip("link", "delete", link)
    node.run("modprobe", "--remove", "bonding")
    site.wait_offered([FIRST, SECOND])


@contextmanager
def deaf(node: LabNode) -> Iterator[None]:
    """Have the daemon stand still until events are lost, so that those of the block are as well.

    They are of links of pods, of which none is a reason to look at the machine.
    """
    node.berthd.send(signal.SIGSTOP)
    before = lost(node)
    for _ in range(ROUNDS):
        if lost(node) > before:
            break
        batch(node, "".join(f"link set pod0 alias a{number}\n" for number in range(1000)))
    assert lost(node) > before
    yield
    node.berthd.send(signal.SIGCONT)


def batch(node: LabNode, commands: str) -> None:
    """Have iproute2 do many things at once."""
    node.run("ip", "-batch", "-", given=commands)


def churn() -> str:
    """Links that come and go: a table that is read meanwhile is read in vain."""
    names = [f"churn{number}" for number in range(20)]
    made = [f"link add {name} type veth peer name {name}p\n" for name in names]
    return "".join((*made, *(f"link delete {name}\n" for name in names)))


def lost(node: LabNode) -> int:
    """How many events the daemon's sockets have lost so far."""
    rows = [row.split() for row in node.read("/proc/net/netlink").splitlines()[1:]]
    own = set(node.berthd.open_files())
    return sum(int(row[8]) for row in rows if f"socket:[{row[9]}]" in own)
