"""What comes after the hook's answer: a late carrier is announced, a duplicate address is told."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from berth.errors import HostError
from berth.node.nics import announcer
from tests.integration.nic.beds import Bed
from tests.integration.node.nodebeds import Node, links_until

pytestmark = pytest.mark.root

_ETH_P_ARP = 0x0806
_ETH_P_IPV6 = 0x86DD
_NEIGHBOR_ADVERTISEMENT = 136


@pytest.fixture(name="ear")
async def _ear(bed: Bed) -> AsyncIterator[trio.socket.SocketType]:
    """A packet socket on the other end of v0's cable, which has carrier on demand."""
    bed.veth("v0")
    bed.home.ip("link", "set", "v0p", "down")
    heard = trio.socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    with heard:
        yield heard


async def listen(ear: trio.socket.SocketType, wanted: set[str]) -> set[str]:
    """Hear until every wanted address was announced, or five seconds are over."""
    await ear.bind(("v0p", 0x0003))
    heard: set[str] = set()
    with trio.move_on_after(5):
        while not wanted <= heard:
            frame = await ear.recv(2048)
            kind = struct.unpack_from("!H", frame, 12)[0]
            if kind == _ETH_P_ARP and frame[28:32] == frame[38:42]:
                heard.add(socket.inet_ntoa(frame[28:32]))
            elif kind == _ETH_P_IPV6 and frame[54] == _NEIGHBOR_ADVERTISEMENT:
                heard.add(socket.inet_ntop(socket.AF_INET6, frame[62:78]))
    return heard


async def test_late_carrier_is_announced(bed: Bed, node: Node, ear: trio.socket.SocketType) -> None:
    """Neighbors learn of both addresses at the first carrier, and the record tells of it."""

    pod = bed.pod()
    addresses = [{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses)
        await node.attach(pod, "u1")
        assert not node.nic("u1").carrier
        await trio.testing.wait_all_tasks_blocked(0.05)
        bed.home.ip("link", "set", "v0p", "up")
        heard = await listen(ear, {"192.0.2.5", "2001:db8::5"})
        await node.until(lambda: bool(node.nic("u1").carrier))

    assert {"192.0.2.5", "2001:db8::5"} <= heard
    assert node.noticed == ["u1"]


async def test_neighbors_outlast_the_announcement(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """The kernel forgets a link's neighbors with it: the claim's and the pod's own are there."""

    pod = bed.pod()
    mac = "02:00:00:00:00:0a"
    async with node.running():
        await node.prepared(
            "u1",
            pod,
            "v0",
            addresses=[{"address": "192.0.2.5/24"}],
            neighbors=[{"address": "192.0.2.10", "hardwareAddr": mac}],
        )
        await node.attach(pod, "u1")
        pod.netns.ip("neigh", "add", "2001:db8::a", "lladdr", mac, "dev", "net-v0")
        bed.home.ip("link", "set", "v0p", "up")
        await listen(ear, {"192.0.2.5"})
        await node.until(lambda: bool(node.nic("u1").carrier))

    kept = pod.netns.ip_json("neigh", "show", "nud", "permanent")
    found = {each["dst"]: each["lladdr"] for each in kept}
    assert found == {"192.0.2.10": mac, "2001:db8::a": mac}


async def test_late_carrier_when_events_of_pods_are_not_heard(
    bed: Bed, node: Node, ear: trio.socket.SocketType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to hear other namespaces it is looked for now and then."""

    def refuse(*_args: Any, **_more: Any) -> None:
        raise HostError("netlink events", "Operation not permitted", errno=errno.EPERM)

    monkeypatch.setattr(announcer, "EventSocket", refuse)
    pod = bed.pod()
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}])
        await node.attach(pod, "u1")
        bed.home.ip("link", "set", "v0p", "up")
        assert "192.0.2.5" in await listen(ear, {"192.0.2.5"})


async def test_duplicate_address_is_told(bed: Bed, node: Node) -> None:
    """A search that was asked for finds the other station; the pod keeps running."""

    bed.veth("v0")
    bed.home.ip("addr", "add", "2001:db8::5/64", "dev", "v0p", "nodad")
    pod = bed.pod()
    addresses = [{"address": "2001:db8::5/64", "noDAD": False}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses)
        await node.attach(pod, "u1")
        await node.until(lambda: bool(node.nic("u1").duplicates))

    assert node.nic("u1").duplicates == ("2001:db8::5/64",)
    assert node.noticed == ["u1"]
    assert pod.names() == {"net-v0"}


async def test_nothing_is_listened_to_when_all_is_said(
    bed: Bed, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With carrier at once and no search there is no socket and no wake-up."""

    def refuse(*_args: Any, **_more: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(announcer, "EventSocket", refuse)
    pod = bed.pod()
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}])
        await node.attach(pod, "u1")
        await trio.testing.wait_all_tasks_blocked()

    assert node.nic("u1").carrier


async def test_pod_that_ends_while_it_is_looked_after(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """Looking after a NIC keeps no namespace alive, and ends with it."""

    pod, other = bed.pod(), bed.pod()
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}])
        await node.attach(pod, "u1")
        await trio.testing.wait_all_tasks_blocked(0.05)
        pod.netns.end()
        await links_until(lambda: "v0p" not in bed.names())
        bed.veth("v1")
        bed.home.ip("link", "set", "v1p", "down")
        await node.prepared("u2", other, "v1", addresses=[{"address": "192.0.2.6/24"}])
        await node.attach(other, "u2")
        bed.home.ip("link", "set", "v1p", "up")
        await node.until(lambda: bool(node.nic("u2").carrier))

    assert node.noticed == ["u2"]


async def test_watch_over_a_restart(bed: Bed, tmp_path: Path, ear: trio.socket.SocketType) -> None:
    """A daemon that starts while a NIC waits for carrier looks after it again."""

    (tmp_path / "claims").mkdir()
    node = Node(bed, tmp_path)
    pod = bed.pod()
    await node.prepared("u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}])
    await node.attach(pod, "u1")
    again = Node(bed, tmp_path)
    await again.records.load()
    async with again.running():
        await trio.testing.wait_all_tasks_blocked(0.05)
        bed.home.ip("link", "set", "v0p", "up")
        assert "192.0.2.5" in await listen(ear, {"192.0.2.5"})
