"""Pods while berthd is restarted, crashes, and is upgraded under a real systemd."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.nspawn.container import poll
from tests.nspawn.node import SERVICE, Node
from tests.nspawn.players import SUBNET
from tests.nspawn.troupe import Troupe

PODS = [f"pod{number}" for number in range(10)]


def restart(node: Node) -> None:
    """As an operator does."""
    node.run("systemctl", "restart", SERVICE)


def crash(node: Node) -> None:
    """As the kernel does; systemd starts another."""
    pid = node.pid
    node.kill(signal.SIGKILL)
    node.wait_other(pid)


def upgrade(node: Node) -> None:
    """As apt does: other files under the running daemon, then a guarded restart."""
    pid = node.pid
    node.run("dpkg", "--install", "/root/berthd.deb")
    node.wait_other(pid)


def described(troupe: Troupe, netns: str) -> list[Any]:
    """A pod's NIC, without what the kernel still finds out for itself."""
    link = troupe.links(netns)["net1"]
    addresses = [each["local"] for each in link["addr_info"] if each["scope"] == "global"]
    return [*(link[key] for key in ("ifindex", "address", "mtu", "operstate")), addresses]


ENDINGS = [restart, crash, upgrade]


def test_packets_reach_a_pod_through_restart_crash_and_upgrade(node: Node) -> None:
    """Not one is lost: what was moved stays, whoever comes and goes; kubelet sees nothing."""

    troupe = Troupe(node, nics=1)
    netns = troupe.start("pod0")["pod0"]
    before = described(troupe, netns)
    with troupe.traffic(netns, f"{SUBNET}.10") as traffic:
        for end in ENDINGS:
            count = traffic.sent
            end(node)
            troupe.wait_ready(1)
            assert traffic.sent > count + 50

    assert traffic.lost == []
    assert described(troupe, netns) == before
    acts = troupe.stop("pod0")
    assert (acts["REGISTERED"], acts["UNREGISTERED"]) == (0, 0)
    assert "nic0" in node.run("ip", "link")


@pytest.mark.parametrize("end", [restart, upgrade])
def test_ten_pods_start_while_berthd_is_away(node: Node, end: Callable[[Node], None]) -> None:
    """Each gets its NIC; no call of kubelet's fails, those of the gap wait in the kept sockets."""

    troupe = Troupe(node, nics=len(PODS))
    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(troupe.start, *PODS)
        node.wait_journal("claim prepared")
        end(node)
        spaces = started.result()

    assert_well(troupe, spaces)


def test_ten_pods_start_before_a_crash_and_in_the_gap_after_it(node: Node) -> None:
    """The same; only a call that is under way breaks with its connection, whoever keeps what."""

    troupe = Troupe(node, nics=len(PODS))
    spaces = dict(troupe.start(*PODS[:5]))
    node.kill(signal.SIGKILL)
    node.wait_journal("Main process exited")
    spaces |= troupe.start(*PODS[5:])

    assert_well(troupe, spaces)


def assert_well(troupe: Troupe, spaces: Mapping[str, str]) -> None:
    """Each pod has its address, and kubelet saw nothing but answers."""
    for pod, netns in spaces.items():
        address = f"{SUBNET}.{10 + int(pod.removeprefix('pod'))}"

        def there(netns: str = netns, address: str = address) -> bool:
            link = troupe.links(netns).get("net1", {})
            return address in {each["local"] for each in link.get("addr_info", ())}

        poll(there, bool, what=f"the NIC of {pod}")
    acts = troupe.stop(*PODS)
    assert (acts["REGISTERED"], acts["UNREGISTERED"], acts["CALL_FAILED"]) == (0, 0, 0)
