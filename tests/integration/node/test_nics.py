"""Who moves NICs: by records first, all or none, and never out of a pod that still wants them."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import attrs
import pytest
import trio

from berth.errors import ClaimError, HostError
from berth.model.claim import Consumer
from berth.nic.attach import NotAttached
from berth.nic.record import Stage
from berth.node.records.document import claim_from_bytes
from berth.node.records.record import ClaimRecord
from berth.runtime.threads import Decision
from tests.descriptors import open_descriptors
from tests.integration.nic.beds import Bed, Pod, child_config_of, config_of
from tests.integration.nic.senders import RTM_NEWADDR, Before, Chained, Message, Refusing
from tests.integration.node.nodebeds import Node, drafted
from tests.netns import need_kind

pytestmark = pytest.mark.root

ADDRESS = [{"address": "192.0.2.5/24"}]
GROUP = Consumer(resource="podgroups", name="team", uid="uid-of-team")


def on_disk(node: Node, uid: str) -> ClaimRecord:
    """The claim's record as its file has it now."""
    path = node.folder / "claims" / f"{uid}.json"
    return claim_from_bytes(path.read_bytes(), where=str(path))


def is_move(message: Message) -> bool:
    """The message that brings a link into a namespace."""
    return message.moves


async def test_claim_goes_in_and_comes_home(bed: Bed, node: Node) -> None:
    """Prepare, attach, return: the record on disk says each stage, and home is as it was."""

    pod = bed.pod()
    bed.veth("v0")
    before = bed.seen("v0")
    await node.prepared("u1", pod, "v0", addresses=ADDRESS)
    assert on_disk(node, "u1").devices[0].nic == node.nic("u1")
    assert Stage.STAGED is node.nic("u1").stage
    (record,) = await node.attach(pod, "u1")
    assert on_disk(node, "u1") == record
    assert node.stages("u1") == [Stage.ATTACHED]
    assert pod.names() == {"net-v0"}
    assert node.nics.statistics().attached == 1
    assert await node.nics.verify(record, pod.sandbox) == ()

    assert await node.nics.give_back("u1")
    assert on_disk(node, "u1").is_home
    assert bed.seen("v0") == before
    assert node.nics.statistics().away == 0


@pytest.mark.parametrize("event", ["in", "out"])
async def test_record_is_on_disk_before_the_move(bed: Bed, tmp_path: Path, event: str) -> None:
    """Before a link leaves a namespace the file says that it may have left."""

    seen: list[Stage] = []
    (tmp_path / "claims").mkdir()

    def look() -> None:
        nic = on_disk(node, "u1").devices[0].nic
        assert nic is not None
        seen.append(nic.stage)

    count = iter(range(10))
    wanted = 0 if event == "in" else 1
    sender = Before(lambda m: m.moves and next(count) == wanted, look)
    node = Node(bed, tmp_path, send=sender)
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    await node.nics.give_back("u1")

    assert seen == [Stage.ATTACHING if event == "in" else Stage.RETURNING]


async def test_prepare_when_a_link_refuses(bed: Bed, tmp_path: Path) -> None:
    """Nothing is left half done: the links that were staged before are as they were."""

    (tmp_path / "claims").mkdir()
    node = Node(bed, tmp_path, send=Refusing(lambda m: m.sets(4) == (1234).to_bytes(4, "little")))
    links = [bed.veth(name) for name in ("v0", "v1")]
    before = [bed.seen(name) for name in ("v0", "v1")]
    configs = [config_of("net1", interface={"mtu": mtu}) for mtu in (1300, 1234)]
    record = drafted("u1", list(zip(links, configs, strict=True)), pod=bed.pod())
    with pytest.raises(HostError, match=r"interface.mtu \(v1\)"):
        await node.prepare(record)

    assert [bed.seen(name) for name in ("v0", "v1")] == before
    assert node.stages("u1") == [Stage.HOME, Stage.HOME]


async def test_prepare_when_nothing_can_be_undone(bed: Bed, tmp_path: Path) -> None:
    """Both faults are told, and the link is put back as soon as it lets itself be."""

    (tmp_path / "claims").mkdir()
    refusing = True
    link = bed.veth("v0")
    before = bed.seen("v0")
    config = config_of("net1", interface={"mtu": 1300, "txQueueLen": 77})
    record = drafted("u1", [(link, config)], pod=bed.pod())

    def drift() -> None:
        bed.home.ip("link", "set", "v0", "txqueuelen", "9")

    # The queue's length is refused, and is another one by the time it is to be put back.
    sender = Chained(
        Before(lambda m: m.sets(13) is not None, drift),
        Refusing(lambda m: refusing and m.sets(13) is not None),
    )
    node = Node(bed, tmp_path, send=sender)
    with pytest.raises(HostError, match=r"and it is not undone yet: .* not permitted"):
        await node.prepare(record)
    assert node.stages("u1") == [Stage.RETURNING]
    refusing = False
    async with node.running():
        await node.wait_stage("u1", Stage.HOME)

    assert bed.seen("v0") == before


async def test_two_claims_of_a_pod_when_one_fails(bed: Bed, tmp_path: Path) -> None:
    """All NICs of the pod or none, over its claims; each record says why."""

    (tmp_path / "claims").mkdir()
    node = Node(bed, tmp_path, send=Refusing(lambda m: m.kind == RTM_NEWADDR))
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.prepared("u2", pod, "v1", addresses=ADDRESS)
    with pytest.raises(ClaimError, match=r"addresses\[0\] .*; every NIC of the pod is home"):
        await node.attach(pod, "u1", "u2")

    assert (pod.names(), node.stages("u1"), node.stages("u2")) == (
        set(),
        [Stage.HOME],
        [Stage.HOME],
    )
    assert "Operation not permitted" in node.nic("u1").fault
    assert on_disk(node, "u1") == node.records.get("u1")


async def test_attach_again_keeps_the_record(bed: Bed, node: Node) -> None:
    """The hook again for the same sandbox writes nothing: no new version of the record."""

    pod = bed.pod()
    await node.prepared("u1", pod, "v0", addresses=ADDRESS)
    first = await node.attach(pod, "u1")
    version = node.records.changes.version

    assert await node.attach(pod, "u1") == first
    assert node.records.changes.version == version


async def test_second_sandbox_of_the_pod(bed: Bed, node: Node) -> None:
    """A new sandbox without a new prepare: home from the old one first, then into the new one."""

    old = bed.pod()
    new = bed.pod(again=old)
    await node.prepared("u1", old, "v0", addresses=ADDRESS)
    await node.attach(old, "u1")
    await node.attach(new, "u1")

    assert (old.names(), new.names()) == (set(), {"net-v0"})
    assert node.nic("u1").sandbox == new.sandbox


async def test_nic_stays_with_the_pod_that_came_first(bed: Bed, node: Node) -> None:
    """Nobody names a group's pods, and two may come at once: the lock says which was the first."""

    one, two = bed.pod(), bed.pod()
    await node.prepared("u1", one, "v0")
    await node.reserve("u1", GROUP)
    refused: list[ClaimError] = []

    async def come(pod: Pod) -> None:
        try:
            await node.attach(pod, "u1")
        except ClaimError as error:
            refused.append(error)

    async with trio.open_nursery() as nursery, node.records.lock("u1"):
        nursery.start_soon(come, one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(come, two)
        await trio.testing.wait_all_tasks_blocked()

    assert [str(error).partition(":")[0] for error in refused] == ["nic-0"]
    assert f"is used by pod {one.sandbox.pod}: a NIC can be in one pod only" in str(refused[0])
    assert (one.names(), two.names(), node.stages("u1")) == ({"net-v0"}, set(), [Stage.ATTACHED])


async def test_none_of_a_pods_nics_moves_when_another_pod_has_one(bed: Bed, node: Node) -> None:
    """Its own one stays in its older sandbox too: nothing is begun."""

    one, two = bed.pod(), bed.pod()
    await node.prepared("u2", one, "v1")
    await node.reserve("u2", GROUP)
    await node.attach(one, "u2")
    await node.prepared("u1", two, "v0")
    await node.attach(two, "u1")
    with pytest.raises(ClaimError, match=f"is used by pod {one.sandbox.pod}"):
        await node.attach(bed.pod(again=two), "u1", "u2")

    assert (one.names(), two.names()) == ({"net-v1"}, {"net-v0"})


async def test_successor_gets_the_nic_that_the_first_pod_has_yet(bed: Bed, node: Node) -> None:
    """The claim names it by now, and the first pod no more: that was deleted by force."""

    old, new = bed.pod(), bed.pod()
    await node.prepared("u1", old, "v0")
    await node.attach(old, "u1")
    await node.reserve("u1", new.consumer)
    await node.attach(new, "u1")

    assert (old.names(), new.names()) == (set(), {"net-v0"})


async def test_next_pod_gets_the_nic_of_one_that_is_dead(bed: Bed, node: Node) -> None:
    """Nobody told of the sandbox's end, and its namespace is no more."""

    need_kind("macvlan")
    old, new = bed.pod(), bed.pod()
    record = drafted("u1", [(bed.veth("v0"), child_config_of())], pod=old, children=True)
    await node.prepare(attrs.evolve(record, consumers=(GROUP,)))
    await node.attach(old, "u1")
    old.netns.end()
    # The kernel ends a namespace by and by: until then the child's address is in use, and kubelet
    # would try the sandbox again.
    with trio.fail_after(30):
        while new.names() != {"net1"}:
            with contextlib.suppress(NotAttached):
                await node.attach(new, "u1")
            await trio.sleep(0.05)


async def test_second_sandbox_when_the_first_lets_go_of_nothing(bed: Bed, tmp_path: Path) -> None:
    """Where the NIC is must not be forgotten: the new sandbox is refused until it is home."""

    (tmp_path / "claims").mkdir()
    count = iter(range(10))
    sender = Refusing(lambda m: m.moves and next(count) == 1)
    node = Node(bed, tmp_path, send=sender)
    old = bed.pod()
    new = bed.pod(again=old)
    await node.prepared("u1", old, "v0")
    await node.attach(old, "u1")
    with pytest.raises(ClaimError, match=r"nic-0: cannot be attached now: .* not permitted"):
        await node.attach(new, "u1")

    assert node.nic("u1").sandbox == old.sandbox
    assert node.stages("u1") == [Stage.RETURNING]
    assert await node.nics.give_back("u1")
    await node.attach(new, "u1")
    assert new.names() == {"net-v0"}


async def test_late_end_of_an_old_sandbox(bed: Bed, node: Node) -> None:
    """Its event finds nothing: the NIC in the new sandbox stays."""

    old = bed.pod()
    new = bed.pod(again=old)
    await node.prepared("u1", old, "v0")
    await node.attach(old, "u1")
    await node.attach(new, "u1")

    assert await node.nics.give_back("u1", sandbox_id=old.sandbox.id)
    assert new.names() == {"net-v0"}
    assert node.stages("u1") == [Stage.ATTACHED]


async def test_attach_of_a_claim_that_is_undone_meanwhile(bed: Bed, node: Node) -> None:
    """A claim that was undone while the hook waited for its lock is not attached."""

    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    async with trio.open_nursery() as nursery, node.records.lock("u1"):

        async def hook() -> None:
            with pytest.raises(ClaimError, match="claim u1: is not prepared any more"):
                await node.attach(pod, "u1")

        nursery.start_soon(hook)
        await trio.testing.wait_all_tasks_blocked()
        await node.revoke("u1")
    with pytest.raises(ClaimError, match="claim nobody: is not prepared any more"):
        await node.attach(pod, "nobody")

    assert pod.names() == set()


async def test_attach_when_its_caller_is_cancelled(bed: Bed, tmp_path: Path) -> None:
    """The cancel is served when the thread has ended and the record says what is."""

    (tmp_path / "claims").mkdir()
    token = trio.lowlevel.current_trio_token()
    scope = trio.CancelScope()
    sender = Before(is_move, lambda: token.run_sync_soon(scope.cancel))
    node = Node(bed, tmp_path, send=sender)
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    with scope:
        await node.attach(pod, "u1")

    assert scope.cancel_called
    assert on_disk(node, "u1") == node.records.get("u1")
    assert (node.stages("u1"), pod.names()) == ([Stage.ATTACHED], {"net-v0"})


async def test_attach_when_its_caller_gave_up(bed: Bed, tmp_path: Path) -> None:
    """A hook that answered "late" during the move leaves nothing in the pod."""

    (tmp_path / "claims").mkdir()
    decision = Decision()
    node = Node(bed, tmp_path, send=Before(is_move, decision.claim_late))
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    with pytest.raises(ClaimError, match="s of the hook's time are left"):
        await node.nics.attach(["u1"], pod.sandbox, limit_s=60, decision=decision)

    assert (node.stages("u1"), pod.names()) == ([Stage.HOME], set())


async def test_return_when_its_caller_is_cancelled(bed: Bed, tmp_path: Path) -> None:
    """Whoever waits may leave at once; the return goes on."""

    (tmp_path / "claims").mkdir()
    token = trio.lowlevel.current_trio_token()
    scope = trio.CancelScope()
    release = threading.Event()
    count = iter(range(10))

    def hold() -> None:
        token.run_sync_soon(scope.cancel)
        release.wait(5)

    node = Node(bed, tmp_path, send=Before(lambda m: m.moves and next(count) == 1, hold))
    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    await node.attach(pod, "u1")
    async with node.running():
        with scope:
            await node.nics.give_back("u1")
        assert (scope.cancelled_caught, node.stages("u1")) == (True, [Stage.RETURNING])
        release.set()
        await node.wait_stage("u1", Stage.HOME)

    assert pod.names() == set()


async def test_children_of_two_claims(bed: Bed, node: Node) -> None:
    """Children of one parent in two pods; the end of one does not touch the other."""

    need_kind("macvlan")
    parent = bed.veth("v0")
    pods = [bed.pod(), bed.pod()]
    for number, pod in enumerate(pods):
        mac = f"02:00:00:00:01:0{number}"
        config = child_config_of(interface={"hardwareAddr": mac}, addresses=ADDRESS)
        record = drafted(f"u{number}", [(parent, config)], pod=pod, children=True)
        await node.prepare(record)
        await node.attach(pod, f"u{number}")
    assert [pod.names() for pod in pods] == [{"net1"}, {"net1"}]
    await node.nics.give_back("u0")

    assert [pod.names() for pod in pods] == [set(), {"net1"}]
    assert node.stages("u1") == [Stage.ATTACHED]


async def test_renumbered_link_is_told(bed: Bed, node: Node) -> None:
    """A virtual link under a new index is another key in the ledger: told, and in the record."""

    pod = bed.pod()
    await node.prepared("u1", pod, "v0")
    before = node.nic("u1").identity
    await node.attach(pod, "u1")
    index = before.rpartition(":")[2]
    bed.home.ip("link", "add", "other", "index", index, "type", "veth", "peer", "name", "x")
    await node.nics.give_back("u1")
    after = node.nic("u1").identity
    record = node.records.get("u1")

    assert after != before
    assert node.renumbered == [("u1", before, after)]
    assert record is not None
    assert record.devices[0].identity == after


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
async def test_many_pods_leave_nothing_open(bed: Bed, node: Node, count: int) -> None:
    """Open files and threads are as many after a row of pods as before them."""

    bed.veth("v0")

    async def one() -> None:
        pod = bed.pod()
        await node.prepared("u1", pod, "v0", addresses=ADDRESS)
        await node.attach(pod, "u1")
        await node.nics.give_back("u1")
        await node.records.delete("u1")
        pod.netns.end()

    async with node.running():
        await one()
        files, threads = len(open_descriptors()), threading.active_count()
        for _ in range(count):
            await one()
        assert len(open_descriptors()) <= files
        # trio keeps a few idle workers, whose number follows the machine's mood; a leak of one
        # for each pod is more than that.
        assert threading.active_count() < threads + count // 2

    assert bed.link("v0").up
