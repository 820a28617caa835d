"""NICs in pods are watched from home: by real events, and nothing keeps a pod's namespace alive."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio

from berth.config.nic import NicTable
from berth.health.finding import Finding, Severity
from berth.health.terms import NIC
from berth.host.netlink.rtnl import Rtnl
from berth.model.device import Nic, NicKind, NicMode
from berth.model.inventory import Inventory
from berth.nic.health import link as rules
from berth.nic.record import Stage
from berth.node.watches import nics as nicwatch
from berth.node.watches.nics import LINK, NicWatch
from berth.runtime.latest import Latest
from tests.integration.nic.beds import Bed, child_config_of
from tests.integration.node.nodebeds import Node, drafted, links_until
from tests.netns import need_kind
from tests.unit.node.reported import Reported

pytestmark = pytest.mark.root


class Told(Reported):
    """What was told, with a sign of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.news = trio.Event()

    def _keep(self, subject: str, codes: tuple[str, ...], **more: Any) -> None:
        super()._keep(subject, codes, **more)
        self.news.set()
        self.news = trio.Event()


class Watched:
    """A node whose NIC is watched, at once when the kernel tells something and in no turn."""

    def __init__(self, node: Node, identity: str, index: int, mode: NicMode) -> None:
        self.node = node
        self.reports = Told()
        self.identity = identity
        nic = Nic(
            identity=identity,
            name="nic-0",
            kind=NicKind.VIRTUAL,
            group="test",
            ifindex=index,
            mode=mode,
        )
        self.watch = NicWatch(
            self.reports,
            inventory=Latest(Inventory(nics=(nic,))),
            records=node.records,
            table=NicTable(),
            terms=lambda _: NIC,
        )

    def codes(self) -> set[str]:
        """What stands against the NIC."""
        return {each.code for each in self.reports.standing(self.identity, LINK)}

    def finding(self, code: str) -> Finding:
        """One of what stands."""
        standing = self.reports.standing(self.identity, LINK)
        return next(each for each in standing if each.code == code)

    async def until(self, *codes: str) -> None:
        """Wait until exactly this stands; five seconds are what anybody has."""
        with trio.fail_after(5):
            while self.codes() != {*codes} or not self.reports.told:
                await self.reports.news.wait()

    async def looked(self) -> None:
        """Wait for a look from now on."""
        await self.watch.probe_now(self.identity)


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to hold for seconds holds for a tenth of one here."""
    monkeypatch.setattr(rules, "CARRIER_S", 0.1)
    monkeypatch.setattr(rules, "ATTACH_S", 0.0)
    monkeypatch.setattr(nicwatch, "SPACING_S", 0.02)


@contextlib.asynccontextmanager
async def watching(
    node: Node, identity: str, *, index: int = 0, mode: NicMode = NicMode.EXCLUSIVE
) -> AsyncIterator[Watched]:
    """Watch one NIC for the block."""
    watched = Watched(node, identity, index, mode)
    async with node.running(), trio.open_nursery() as nursery:
        await nursery.start(watched.watch.run)
        yield watched
        nursery.cancel_scope.cancel()


async def steady(condition: Callable[[], bool]) -> None:
    """See that nothing changes for a moment in which anything would have been heard."""
    for _ in range(10):
        assert condition()
        await trio.sleep(0.02)


async def test_carrier_in_a_pod_is_heard_to_go_and_to_come(bed: Bed, node: Node) -> None:
    """The other end is set down and up again; what the pod lost of its addresses is told, too."""

    bed.veth("v0")
    pod = bed.pod()
    await node.prepared("u1", pod, "v0", addresses=[{"address": "192.0.2.5/24"}])
    await node.attach(pod, "u1")
    async with watching(node, node.nic("u1").identity) as watched:
        await watched.looked()
        assert watched.codes() == set()
        bed.home.ip("link", "set", "v0p", "down")
        await watched.until("no-carrier")
        assert f"in pod {pod.sandbox.pod}" in watched.finding("no-carrier").message
        bed.home.ip("link", "set", "v0p", "up")
        await watched.until()
        pod.netns.ip("addr", "del", "192.0.2.5/24", "dev", "net-v0")
        await watched.until("drifted")
        assert "addresses[0]" in watched.finding("drifted").message
        pod.netns.ip("link", "set", "net-v0", "down")
        await watched.until("no-carrier")
        assert "is down" in watched.finding("no-carrier").message


async def test_a_cable_that_comes_and_goes_is_counted_by_the_kernel(bed: Bed, node: Node) -> None:
    """However few of its events are heard; what the attach did to the link is not counted."""

    bed.veth("v0")
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    async with watching(node, node.nic("u1").identity) as watched:
        await watched.looked()
        for _ in range(rules.FLAPS - 1):
            bed.home.ip("link", "set", "v0p", "down")
            bed.home.ip("link", "set", "v0p", "up")
        await watched.looked()
        assert "flapping" not in watched.codes()
        bed.home.ip("link", "set", "v0p", "down")
        bed.home.ip("link", "set", "v0p", "up")
        await watched.until("flapping")


async def test_a_link_whose_other_end_is_deleted_is_missing_at_once(bed: Bed, node: Node) -> None:
    """It goes with it, while its pod goes on."""

    bed.veth("v0")
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    async with watching(node, node.nic("u1").identity) as watched:
        await watched.looked()
        bed.home.ip("link", "del", "v0p")
        await watched.until("missing")
        assert watched.finding("missing").severity is Severity.FAULT
        assert "found nowhere" in watched.finding("missing").message


async def test_a_pod_that_ends_is_no_fault_and_is_not_kept_alive(bed: Bed, node: Node) -> None:
    """However it ends: by its runtime's word, or without one."""

    bed.veth("v0")
    bed.veth("v1")
    pod, other = bed.pod(), bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.prepared("u2", other, "v1")
    await node.attach(pod, "u1")
    await node.attach(other, "u2")
    async with (
        watching(node, node.nic("u1").identity) as first,
        watching_more(node, "u2") as second,
    ):
        await first.looked()
        await second.looked()
        await node.nics.give_back("u1", sandbox_id=pod.sandbox.id)
        assert node.stages("u1") == [Stage.HOME]
        other.netns.end()
        await links_until(lambda: "v1p" not in bed.names())
        await steady(lambda: first.codes() == set())
        assert all("missing" not in told.codes for told in first.reports.told)
        assert all("missing" not in told.codes for told in second.reports.told)


@contextlib.asynccontextmanager
async def watching_more(node: Node, uid: str) -> AsyncIterator[Watched]:
    """Watch another NIC of a node that runs already."""
    watched = Watched(node, node.nic(uid).identity, 0, NicMode.EXCLUSIVE)
    async with trio.open_nursery() as nursery:
        await nursery.start(watched.watch.run)
        yield watched
        nursery.cancel_scope.cancel()


async def test_a_link_that_was_taken_out_of_its_pod_is_told_where_it_is(
    bed: Bed, node: Node
) -> None:
    """Somebody may move it into another, or home; who looks finds it."""

    bed.veth("v0")
    pod, other = bed.pod(), bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    watched = Watched(node, node.nic("u1").identity, 0, NicMode.EXCLUSIVE)
    async with trio.open_nursery() as nursery:
        await nursery.start(watched.watch.run)
        await watched.looked()
        with Rtnl.home() as tables:
            nsid = tables.ensure_nsid(other.netns.fd)
            assert nsid in tables.nsids()
        pod.netns.ip("link", "set", "net-v0", "netns", str(other.netns.path))
        await watched.until("missing")
        assert f"in network namespace {nsid} (" in watched.finding("missing").message
        other.netns.ip("link", "set", "net-v0", "netns", str(bed.home.path))
        await watched.looked()
        assert "at home as net-v0" in watched.finding("missing").message
        nursery.cancel_scope.cancel()


async def test_a_parent_that_is_set_down_and_what_a_pod_does_to_its_child(
    bed: Bed, node: Node
) -> None:
    """The first is everybody's fault, the second is told and nobody's."""

    need_kind("macvlan")
    parent = bed.veth("v0")
    pod = bed.pod()
    config = child_config_of("net-c")
    await node.prepare(drafted("u1", [(parent, config)], pod=pod, children=True))
    await node.attach(pod, "u1")
    identity = node.nic("u1").identity
    mode = NicMode.SHARED
    async with watching(node, identity, index=parent.index, mode=mode) as watched:
        await watched.looked()
        assert watched.codes() == set()
        bed.home.ip("link", "set", "v0", "down")
        await watched.until("parent-down")
        assert watched.finding("parent-down").severity is Severity.FAULT
        bed.home.ip("link", "set", "v0", "up")
        await watched.until()
        bed.home.ip("link", "set", "v0p", "down")
        await watched.until("no-carrier")
        bed.home.ip("link", "set", "v0p", "up")
        await watched.until()
        pod.netns.ip("link", "del", "net-c")
        await watched.until("missing")
        assert watched.finding("missing").severity is Severity.DEGRADED
