"""What comes after the hook's answer: a late carrier is announced, a duplicate address is told."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from berth.errors import ClaimError, HostError
from berth.host.netlink.link import RTM_GETLINK
from berth.host.netlink.neighbor import RTM_NEWNEIGH
from berth.host.netlink.socket import Sender, send_now
from berth.nic import announce
from berth.nic import attach as attach_module
from berth.nic.attach import Budget
from berth.nic.record import NicRecord, Stage
from berth.node.nics import announcer
from berth.runtime.threads import Decision
from tests.integration.nic.beds import Bed, Pod, child_config_of, config_of, staged
from tests.integration.nic.senders import Died, DyingAfter, Message, Refusing
from tests.integration.node.nodebeds import Node, drafted, links_until
from tests.netns import need_kind

pytestmark = pytest.mark.root

_ETH_P_ARP = 0x0806
_ETH_P_IPV6 = 0x86DD
_NEIGHBOR_ADVERTISEMENT = 136
_ROUTER = 0x80
_EVERY_HOP = 255
SILENT_KERNEL: dict[str, Any] = {
    "sysctls": {"ipv4": {"arp_notify": 0}, "ipv6": {"ndisc_notify": 0}}
}
"""What is heard is ours then."""


@pytest.fixture(name="ear")
async def _ear(bed: Bed) -> AsyncIterator[trio.socket.SocketType]:
    """A packet socket on the other end of v0's cable, which has carrier on demand."""
    bed.veth("v0")
    bed.home.ip("link", "set", "v0p", "down")
    heard = trio.socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    with heard:
        yield heard


def forbidden(*_args: Any, **_more: Any) -> None:
    """In place of a socket that nobody needs."""
    raise AssertionError("a socket was opened")


async def listen(
    ear: trio.socket.SocketType, wanted: set[str], *, limit_s: float = 5.0
) -> set[str]:
    """Hear until every wanted address was announced, or the time is over."""
    await ear.bind(("v0p", 0x0003))
    # That its link was down is told once, whenever it was.
    ear.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    heard: set[str] = set()
    with trio.move_on_after(limit_s):
        while not wanted <= heard:
            heard |= announced_by(await ear.recv(2048))
    return heard


def attach(pod: Pod, nic: NicRecord, *, send: Sender = send_now) -> tuple[NicRecord, ...]:
    """Bring a NIC into a pod, by messages that a test counts or refuses."""
    budget = Budget(ends_at=time.monotonic() + 60.0)
    return attach_module.attach([nic], pod.sandbox, budget=budget, decision=Decision(), send=send)


def announced_by(frame: bytes) -> set[str]:
    """The address that a frame tells every station of; a router's has a word for that."""
    kind = struct.unpack_from("!H", frame, 12)[0]
    if kind == _ETH_P_ARP and frame[28:32] == frame[38:42]:
        return {socket.inet_ntoa(frame[28:32])}
    if kind == _ETH_P_IPV6 and frame[54] == _NEIGHBOR_ADVERTISEMENT:
        assert frame[80:86] == frame[6:12]
        assert frame[21] == _EVERY_HOP
        told = socket.inet_ntop(socket.AF_INET6, frame[62:78])
        return {f"{told} router" if frame[58] & _ROUTER else told}
    return set()


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


async def test_addresses_are_announced_before_the_hook_answers(
    bed: Bed, node: Node, ear: trio.socket.SocketType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device's carrier may have come since the kernel spoke; nothing has to be watched then."""

    monkeypatch.setattr(announcer, "EventSocket", forbidden)
    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    own = {"192.0.2.5", "198.51.100.5", "2001:db8::5"}
    addresses = [{"address": f"{ip}/{64 if ':' in ip else 24}"} for ip in sorted(own)]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, **SILENT_KERNEL)
        await ear.bind(("v0p", 0x0003))
        await node.attach(pod, "u1")
        heard = await listen(ear, own)

    assert own <= heard
    assert node.nic("u1").announced
    assert pod.netns.ip_json("neigh", "show", "dev", "net-v0") == []


async def test_announcement_leaves_no_trace(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """The link's neighbors are there as before, those that were learnt as well."""

    pod = bed.pod()
    mac = "02:00:00:00:00:0a"
    async with node.running():
        await node.prepared(
            "u1",
            pod,
            "v0",
            addresses=[{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}],
            neighbors=[{"address": "192.0.2.10", "hardwareAddr": mac}],
        )
        await node.attach(pod, "u1")
        for ip in ("192.0.2.11", "2001:db8::a"):
            pod.netns.ip("neigh", "add", ip, "lladdr", mac, "nud", "stale", "dev", "net-v0")
        bed.home.ip("link", "set", "v0p", "up")
        await listen(ear, {"192.0.2.5", "2001:db8::5"})
        await node.until(lambda: node.nic("u1").announced)

    kept = pod.netns.ip_json("neigh", "show", "dev", "net-v0")
    found = {each["dst"]: each["lladdr"] for each in kept if not each["dst"].startswith("fe80:")}
    assert found == {"192.0.2.10": mac, "192.0.2.11": mac, "2001:db8::a": mac}


async def test_only_what_is_asked_for_in_its_own_name_is_announced(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """Not a second address of a network in the first one's name, nor one that is searched for."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    addresses = [
        {"address": "192.0.2.5/24"},
        {"address": "192.0.2.6/24"},
        {"address": "198.51.100.1/32", "peer": "198.51.100.2"},
        {"address": "2001:db8::5/64"},
        {"address": "2001:db8::6/64", "noDAD": False},
    ]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, **SILENT_KERNEL)
        await ear.bind(("v0p", 0x0003))
        await node.attach(pod, "u1")
        heard = await listen(ear, {"nothing of it"}, limit_s=2.0)

    assert heard == {"192.0.2.5", "2001:db8::5"}


async def test_port_with_carrier_that_waits_for_its_login(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """Carrier is told of at once; the addresses are announced when it lets frames out."""

    pod = bed.pod()
    async with node.running():
        await node.prepared(
            "u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}], **SILENT_KERNEL
        )
        await node.attach(pod, "u1")
        pod.netns.ip("link", "set", "net-v0", "mode", "dormant")
        bed.home.ip("link", "set", "v0p", "up")
        await node.until(lambda: node.nic("u1").carrier)
        early = await listen(ear, {"192.0.2.5"}, limit_s=0.5)
        assert (early, node.nic("u1").announced) == (set(), False)
        pod.netns.ip("link", "set", "net-v0", "state", "up")
        heard = await listen(ear, {"192.0.2.5"})

    assert heard == {"192.0.2.5"}


async def test_link_of_which_nobody_asks(bed: Bed, node: Node, ear: trio.socket.SocketType) -> None:
    """Without address resolution there is nothing that stations would have to forget."""

    pod = bed.pod()
    addresses = [{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, **SILENT_KERNEL)
        await node.attach(pod, "u1")
        pod.netns.ip("link", "set", "net-v0", "arp", "off")
        await ear.bind(("v0p", 0x0003))
        bed.home.ip("link", "set", "v0p", "up")
        await node.until(lambda: node.nic("u1").announced)
        heard = await listen(ear, {"nothing"}, limit_s=0.5)

    assert heard == set()


async def test_link_that_came_anew_is_announced_again(
    bed: Bed, ear: trio.socket.SocketType
) -> None:
    """Somebody took it out of the pod: what was said of it before is past."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    config = config_of(addresses=[{"address": "192.0.2.5/24"}], **SILENT_KERNEL)
    (nic,) = attach(pod, staged(bed.link("v0"), config))
    assert await listen(ear, {"192.0.2.5"}) == {"192.0.2.5"}
    pod.netns.ip("link", "set", "net1", "netns", str(bed.home.path))
    (nic,) = attach(pod, nic)
    heard = await listen(ear, {"192.0.2.5"})

    assert (heard, nic.announced) == ({"192.0.2.5"}, True)


async def test_own_entry_of_the_pod_outlasts_the_announcement(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """An address of which it has a neighbor entry on its own link is not asked for."""

    pod = bed.pod()
    mac = "02:00:00:00:00:0a"
    addresses = [{"address": "192.0.2.5/24"}, {"address": "198.51.100.5/24"}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, **SILENT_KERNEL)
        await node.attach(pod, "u1")
        pod.netns.ip("neigh", "add", "192.0.2.5", "lladdr", mac, "dev", "net-v0")
        bed.home.ip("link", "set", "v0p", "up")
        heard = await listen(ear, {"198.51.100.5"})
        await node.until(lambda: node.nic("u1").announced)

    (kept,) = pod.netns.ip_json("-4", "neigh", "show", "dev", "net-v0")
    assert (kept["dst"], kept["lladdr"], kept["state"]) == ("192.0.2.5", mac, ["PERMANENT"])
    assert heard == {"198.51.100.5"}


async def test_announcement_after_a_death_before_its_entry_was_gone(
    bed: Bed, ear: trio.socket.SocketType
) -> None:
    """What is left of the question that was asked is no reason to be silent, and goes."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    own = config_of(addresses=[{"address": "192.0.2.5/24"}], **SILENT_KERNEL)
    nic = staged(bed.link("v0"), own)
    with pytest.raises(Died):
        attach(pod, nic, send=DyingAfter(lambda message: message.kind == RTM_NEWNEIGH))
    assert pod.netns.ip_json("-4", "neigh", "show", "nud", "all", "dev", "net1") != []
    await ear.bind(("v0p", 0x0003))
    (again,) = attach(pod, attrs.evolve(nic, stage=Stage.ATTACHING, sandbox=pod.sandbox))
    heard = await listen(ear, {"192.0.2.5"})

    assert (heard, again.announced) == ({"192.0.2.5"}, True)
    assert pod.netns.ip_json("-4", "neigh", "show", "nud", "all", "dev", "net1") == []


async def test_addresses_of_the_other_family_when_one_is_refused(
    bed: Bed, ear: trio.socket.SocketType
) -> None:
    """A full table of IPv4 neighbors, which is the whole machine's, leaves IPv6 to be heard."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    addresses = [{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}]
    full = Refusing(lambda message: message.kind == RTM_NEWNEIGH, number=errno.ENOBUFS)
    await ear.bind(("v0p", 0x0003))
    nic = staged(bed.link("v0"), config_of(addresses=addresses, **SILENT_KERNEL))
    (nic,) = attach(pod, nic, send=full)
    heard = await listen(ear, {"2001:db8::5"})

    assert (heard, nic.announced) == ({"2001:db8::5"}, False)


def test_look_for_the_announcement_that_is_refused(bed: Bed) -> None:
    """It is the last one of an attach, and refuses no pod."""

    looks = 0

    def counts(message: Message) -> bool:
        nonlocal looks
        looks += message.kind == RTM_GETLINK
        return looks == refused and message.kind == RTM_GETLINK

    config = config_of(addresses=[{"address": "192.0.2.5/24"}])
    refused = -1
    (nic,) = attach(bed.pod(), staged(bed.veth("v0"), config), send=Refusing(counts))
    assert nic.announced
    refused, looks = looks, 0
    (nic,) = attach(bed.pod(), staged(bed.veth("v1"), config), send=Refusing(counts))

    assert (looks, nic.stage, nic.announced) == (refused, Stage.ATTACHED, False)


async def test_what_the_pod_added_is_not_announced(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """It may be an address that others have too, which the pod keeps quiet about."""

    pod = bed.pod()
    async with node.running():
        await node.prepared(
            "u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}], **SILENT_KERNEL
        )
        await node.attach(pod, "u1")
        for ip in ("198.51.100.9/32", "2001:db8::9/128"):
            pod.netns.ip("addr", "add", ip, "dev", "net-v0", "nodad")
        bed.home.ip("link", "set", "v0p", "up")
        heard = await listen(ear, {"nothing"}, limit_s=2.0)

    assert heard == {"192.0.2.5"}


async def test_nic_that_is_taken_back_is_not_announced(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """The pod's other NIC cannot be attached, so it has none; nobody heard of the first."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    async with node.running():
        await node.prepared(
            "u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}], **SILENT_KERNEL
        )
        await node.prepared("u2", pod, "v1")
        bed.home.ip("link", "del", "v1")
        await ear.bind(("v0p", 0x0003))
        with pytest.raises(ClaimError):
            await node.attach(pod, "u1", "u2")
        heard = await listen(ear, {"nothing"}, limit_s=1.0)

    assert heard == set()


async def test_router_is_announced_as_one(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """Or its neighbors would forget their routes by it."""

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    sysctls = {"ipv6": {"ndisc_notify": 0, "forwarding": 1}}
    addresses = [{"address": "2001:db8::5/64"}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, sysctls=sysctls)
        await ear.bind(("v0p", 0x0003))
        await node.attach(pod, "u1")
        heard = await listen(ear, {"2001:db8::5 router"})

    assert heard == {"2001:db8::5 router"}


async def test_nothing_is_announced_where_that_is_not_wanted(
    bed: Bed, node: Node, ear: trio.socket.SocketType
) -> None:
    """Carrier is waited for all the same, since the pod's condition tells of it."""

    pod = bed.pod()
    addresses = [{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}]
    async with node.running():
        await node.prepared("u1", pod, "v0", addresses=addresses, announce=False)
        await ear.bind(("v0p", 0x0003))
        await node.attach(pod, "u1")
        bed.home.ip("link", "set", "v0p", "up")
        await node.until(lambda: node.nic("u1").carrier)
        heard = await listen(ear, {"nothing"}, limit_s=1.0)

    assert (heard, node.nic("u1").announced) == (set(), False)


async def test_pod_starts_where_nothing_may_be_announced(
    bed: Bed, node: Node, ear: trio.socket.SocketType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its NIC works without; it is tried again when the link stirs."""

    def refuse(*_args: Any, **_more: Any) -> None:
        raise HostError("neighbor advertisement", "Operation not permitted", errno=errno.EPERM)

    bed.home.ip("link", "set", "v0p", "up")
    pod = bed.pod()
    async with node.running():
        with monkeypatch.context() as patch:
            patch.setattr(announce, "advertise", refuse)
            await node.prepared("u1", pod, "v0", addresses=[{"address": "2001:db8::5/64"}])
            await node.attach(pod, "u1")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert (node.nic("u1").carrier, node.nic("u1").announced) == (True, False)
        bed.home.ip("link", "set", "v0p", "down")
        bed.home.ip("link", "set", "v0p", "up")
        await node.until(lambda: node.nic("u1").announced)

    assert pod.names() == {"net-v0"}


async def test_child_is_announced(bed: Bed, node: Node, ear: trio.socket.SocketType) -> None:
    """It has an address of its own, that of a parent with carrier at once."""

    need_kind("macvlan")
    bed.home.ip("link", "set", "v0p", "up")
    bed.home.ip("link", "set", "v0", "up")
    pod = bed.pod()
    own = {"192.0.2.5", "2001:db8::5"}
    child = child_config_of(
        addresses=[{"address": "192.0.2.5/24"}, {"address": "2001:db8::5/64"}], **SILENT_KERNEL
    )
    draft = drafted("u1", [(bed.link("v0"), child)], pod=pod, children=True)
    async with node.running():
        await node.prepare(draft)
        await ear.bind(("v0p", 0x0003))
        await node.attach(pod, "u1")
        heard = await listen(ear, own)

    assert own <= heard


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

    monkeypatch.setattr(announcer, "EventSocket", forbidden)
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
