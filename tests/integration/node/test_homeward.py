"""The task that brings NICs home: by events, without spinning, by what is true under the lock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from berth.host.netlink.events import GROUP_LINK, GROUP_NSID, EventSocket
from berth.nic import homecoming
from berth.nic.record import Stage
from berth.node.nics import homeward
from berth.runtime.latest import Latest
from tests.integration.nic.beds import Bed
from tests.integration.nic.senders import Message, Refusing
from tests.integration.node.nodebeds import Node

pytestmark = pytest.mark.root


class Looks:
    """Counts the looks at which pods have ended, and lets a test wait for the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._find_ended = homecoming.find_ended
        self.count: Latest[int] = Latest(0)
        monkeypatch.setattr(homecoming, "find_ended", self._look)

    def _look(self, *args: Any, **kwargs: Any) -> tuple[bool, ...]:
        found = self._find_ended(*args, **kwargs)
        self._token.run_sync_soon(lambda: self.count.set(self.count.get() + 1))
        return found

    async def wait(self, count: int) -> None:
        """Wait until there were so many."""
        with trio.fail_after(5):
            await self.count.wait_value(lambda seen: seen >= count)


async def stirring(events: EventSocket, node: Node) -> None:
    """Pass each event on, as discovery does."""
    while True:
        await events.receive()
        node.nics.look_again()


async def test_end_of_a_namespace_is_heard(bed: Bed, node: Node) -> None:
    """The kernel tells the end of a pod's namespace, and what was in it is settled at once."""

    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    with EventSocket([GROUP_NSID]) as events:
        async with node.running(), trio.open_nursery() as nursery:
            nursery.start_soon(stirring, events, node)
            pod.netns.end()
            nic = await node.wait_stage("u1", Stage.LOST)
            nursery.cancel_scope.cancel()

    assert nic.fault == "its link exists no more"


async def test_sweep_when_no_event_speaks(
    bed: Bed, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod whose end nobody told of is found by the sweep, which began with nothing away."""

    monkeypatch.setattr(homeward, "SWEEP_S", 0.1)
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    async with node.running():
        await trio.testing.wait_all_tasks_blocked()
        await node.attach(pod, "u1")
        pod.netns.end()
        await node.wait_stage("u1", Stage.LOST)


async def test_sweep_leaves_living_pods_alone(
    bed: Bed, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at NICs that are where they belong changes nothing, staged and attached ones."""

    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    await node.prepared("u2", bed.pod(), "v1")
    version = node.records.changes.version
    async with node.running():
        node.nics.look_again()
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked(0.05)

    assert node.records.changes.version == version
    assert (node.stages("u1"), node.stages("u2")) == ([Stage.ATTACHED], [Stage.STAGED])


async def test_sweep_brings_an_undone_claim_home(bed: Bed, node: Node) -> None:
    """What was staged for a claim that is undone now goes back as well as what is in a pod."""

    pod = bed.pod()
    bed.veth("v1")
    before = bed.seen("v1")
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    await node.prepared("u2", bed.pod(), "v1", interface={"mtu": 1300})
    async with node.running():
        for uid in ("u1", "u2"):
            await node.revoke(uid)
        node.nics.look_again()
        for uid in ("u1", "u2"):
            await node.wait_stage(uid, Stage.HOME)

    assert (pod.names(), bed.seen("v1")) == (set(), before)


async def test_sweep_passes_over_a_claim_in_work(
    bed: Bed, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim whose lock is held holds up no other; it is looked after when it is free."""

    monkeypatch.setattr(homeward, "BUSY_S", 0.05)
    for uid, name in (("u1", "v0"), ("u2", "v1")):
        pod = bed.pod()
        await node.prepared(uid, pod, name)
        await node.attach(pod, uid)
    async with node.running():
        async with node.records.lock("u1"):
            for uid in ("u1", "u2"):
                await node.revoke(uid)
            node.nics.look_again()
            await node.wait_stage("u2", Stage.HOME)
            assert node.stages("u1") == [Stage.ATTACHED]
        await node.wait_stage("u1", Stage.HOME)


async def test_nic_that_was_sent_home_by_hand(bed: Bed, node: Node) -> None:
    """A link of a living pod that is seen at home is put back, and then missing in the pod."""

    pod = bed.pod()
    bed.veth("v0")
    before = bed.seen("v0")
    await node.prepared("u1", pod, "v0")
    (record,) = await node.attach(pod, "u1")
    pod.netns.ip("link", "set", "net-v0", "netns", str(os.getpid()))
    async with node.running():
        node.nics.look_again()
        await node.wait_stage("u1", Stage.HOME)

    assert bed.seen("v0") == before
    assert await node.nics.verify(record, pod.sandbox) == ("nic-0",)


@pytest.mark.slow
async def test_refused_return_is_tried_with_pauses(bed: Bed, tmp_path: Path) -> None:
    """Each try makes link events; taken for news they would make the next try, without end."""

    (tmp_path / "claims").mkdir()
    token = trio.lowlevel.current_trio_token()
    tries: Latest[int] = Latest(0)
    refusing = False

    def is_refused(message: Message) -> bool:
        refused = refusing and message.sets(4) is not None
        if refused:
            token.run_sync_soon(lambda: tries.set(tries.get() + 1))
        return refused

    node = Node(bed, tmp_path, send=Refusing(is_refused))
    pod = bed.pod()
    bed.veth("v0")
    before = bed.seen("v0")
    await node.prepared("u1", pod, "v0", interface={"mtu": 1300})
    await node.attach(pod, "u1")
    refusing = True
    with EventSocket([GROUP_LINK]) as events:
        async with node.running(), trio.open_nursery() as nursery:
            nursery.start_soon(stirring, events, node)
            began = trio.current_time()
            assert not await node.nics.give_back("u1")
            await tries.wait_value(lambda count: count >= 3)
            took_s = trio.current_time() - began
            refusing = False
            await node.wait_stage("u1", Stage.HOME)
            nursery.cancel_scope.cancel()

    # At once, and after 0.25 and 0.5 s more.
    assert took_s >= 0.7
    assert bed.seen("v0") == before
