"""Claims from prepare to unprepare, whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import BerthError, ClaimError, HostError, KubeError
from berth.model.claim import Claim, ClaimRef, Consumer
from berth.nic import execute
from berth.nic.record import NicRecord, Stage
from berth.node.records.record import ClaimRecord
from berth.node.views.troubles import Trouble
from tests.unit.node.claimserver import refused
from tests.unit.node.conftest import Node, sandbox_of
from tests.unit.node.machine import FAST, OTHER, PARENT, claim, config, look, pod, result, share

NET = claim()
TWO = claim(result(FAST, "one"), result(OTHER, "two"), name="two")
CHILD = claim(share(1), name="child")
ADMIN = claim(result(FAST, admin_access=True), name="admin")
NETNS = Path("/proc/self/ns/net")
INODE = NETNS.stat().st_ino
GROUP = Consumer(resource="podgroups", name="team", uid="uid-of-team")


async def test_prepare_gives_record_files_hold_and_answer(node: Node) -> None:
    """What kubelet is told is on disk before it is told."""

    answer = await node.prepare(TWO)

    assert [device.device for device in answer.devices] == [FAST, OTHER]
    record = node.record(TWO)
    assert (record.prepared, record.generation, record.consumers) == (True, 1, (pod(),))
    assert node.stages(TWO.ref) == [Stage.STAGED, Stage.STAGED]
    assert node.records.stored == {TWO.ref.uid: record}
    assert node.papers.files == {(TWO.ref.uid, "metadata"): 1, (TWO.ref.uid, "cdi"): 1}
    assert sorted(hold.device for hold in node.ledger.holds()) == [FAST, OTHER]
    assert node.told.records[TWO.ref.uid] == [record]


async def test_repeated_prepare_gives_the_same_answer(node: Node) -> None:
    """A new sandbox of the pod changes nothing: nothing is staged or attached anew."""

    first = await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    before = node.record(NET)

    assert await node.prepare(NET) == first
    assert node.record(NET) == before
    assert node.nics.moved == [(FAST, "sandbox-web-1")]


async def test_repeated_prepare_writes_lost_files_again(node: Node) -> None:
    """CDI files lie in memory and may be gone; the record knows what was in them."""

    await node.prepare(NET)
    written = dict(node.papers.files)
    node.papers.files.clear()

    await node.prepare(NET)

    assert node.papers.files == written


async def test_prepare_after_reboot_is_made_anew(node: Node) -> None:
    """Nothing of an earlier boot is trusted: link and settings are looked at again."""

    await node.prepare(NET)
    old = node.record(NET)
    await node.records.put(
        attrs.evolve(
            old.with_nic(0, first_nic(old, stage=Stage.HOME)), boot_id="boot-0", generation=7
        )
    )
    looks = node.eyes.looks

    await node.prepare(NET)

    assert node.eyes.looks == looks + 1
    assert node.record(NET).boot_id == "boot-1"
    assert (node.record(NET).generation, node.stages(NET.ref)) == (1, [Stage.STAGED])


def first_nic(record: ClaimRecord, **changes: Any) -> NicRecord:
    """The record's first NIC, changed."""
    nic = record.devices[0].nic
    assert nic is not None
    return attrs.evolve(nic, **changes)


def name_in(node: Node, claim: Claim) -> str:
    """What the claim's first NIC is called in its pod."""
    return first_nic(node.record(claim)).config.interface.name


async def test_admin_access_takes_nothing(node: Node) -> None:
    """Whoever only looks gets files, beside the claim that has the NIC."""

    await node.prepare(NET)
    answer = await node.prepare(ADMIN)

    assert [device.device for device in answer.devices] == [FAST]
    assert node.stages(ADMIN.ref) == []
    assert [hold.holder for hold in node.ledger.holds()] == [NET.ref]

    await node.claims.unprepare(ADMIN.ref)
    assert node.records.all() == (node.record(NET),)


async def test_lost_device_is_waited_for_and_told(node: Node, autojump_clock: MockClock) -> None:
    """The device of a prepared claim is gone: prepare tells what it waits for, unprepare works."""

    await node.prepare(NET)
    node.nics.lost.add(FAST)
    await node.nics.give_back(NET.ref.uid)
    node.eyes.show(look(names=[OTHER, PARENT]))

    with pytest.raises(ClaimError, match=rf"waited 39 s: {FAST} is not seen on this node"):
        await node.prepare(NET)
    await node.claims.unprepare(NET.ref)

    assert node.traces() == {}


async def test_lost_device_that_is_back_is_prepared_anew(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """It may come back under the same identity while prepare waits."""

    await node.prepare(NET)
    node.nics.lost.add(FAST)
    await node.nics.give_back(NET.ref.uid)
    node.eyes.show(look(names=[OTHER, PARENT]))
    nursery.start_soon(node.prepare, NET)
    await trio.sleep(20)
    node.eyes.show(look())
    await wait_all_tasks_blocked()

    assert node.stages(NET.ref) == [Stage.STAGED]


async def test_other_nic_of_a_claim_with_a_lost_one_goes_home_first(
    node: Node, autojump_clock: MockClock
) -> None:
    """One of two devices is gone: what was done to the other is undone before it is done anew."""

    await node.prepare(TWO)
    record = node.record(TWO)
    await node.records.put(record.with_nic(0, first_nic(record, stage=Stage.LOST)))

    await node.prepare(TWO)

    assert node.stages(TWO.ref) == [Stage.STAGED, Stage.STAGED]
    assert node.record(TWO).prepared


async def test_claim_allocated_anew_gets_its_new_device(
    node: Node, autojump_clock: MockClock
) -> None:
    """The same claim may have another device now; the old one is somebody else's."""

    await node.prepare(NET)
    node.add(attrs.evolve(NET, results=(result(OTHER),)))

    answer = await node.prepare(NET)

    assert [device.device for device in answer.devices] == [OTHER]
    assert [hold.device for hold in node.ledger.holds()] == [OTHER]


async def test_refused_configuration_leaves_nothing(node: Node) -> None:
    """All faults are told, the device is free, and `berth why` finds the words."""

    bad = claim(configs=[config(interface={"name": "a/b"}, mtu=3)], name="bad")

    with pytest.raises(BerthError, match=r"a/b"):
        await node.prepare(bad)

    assert node.traces() == {}
    (trouble,) = node.troubles.all()
    assert trouble.claim == "default/bad"
    assert "a/b" in trouble.text
    assert "mtu" in trouble.text


async def test_success_forgets_the_trouble(node: Node) -> None:
    """What was refused once and is prepared now is no trouble any more."""

    node.server.answers["get_claim"] = [refused(404)]
    with pytest.raises(KubeError):
        await node.prepare(NET)
    assert [trouble.claim for trouble in node.troubles.all()] == ["default/net"]

    await node.prepare(NET)

    assert node.troubles.all() == ()


async def test_unprepare_forgets_what_was_refused(node: Node) -> None:
    """The troubles of the claim and of its pod are over with it."""

    await node.prepare(NET)
    node.troubles.note(NET.ref.uid, Trouble(claim="default/net", text="busy", at="now"))
    node.troubles.note(pod().uid, Trouble(pod="default/web", text="busy", at="now"))
    node.troubles.note("another", Trouble(pod="default/other", text="busy", at="now"))

    await node.claims.unprepare(NET.ref)

    assert [trouble.pod for trouble in node.troubles.all()] == ["default/other"]


async def test_names_of_an_undone_claim_are_free(node: Node) -> None:
    """A claim that is gone takes no name in the pod any more."""

    await node.prepare(NET)
    await node.claims.unprepare(NET.ref)
    second = claim(result(OTHER), name="second")
    await node.prepare(second)

    assert first_nic(node.record(second)).config.interface.name == "net1"


async def test_claims_of_a_pod_that_are_prepared_together_know_each_other(node: Node) -> None:
    """The name that one wishes is left to it, also when it is drafted last or cannot be read."""

    first = claim(name="first")
    wishing = claim(result(OTHER), name="wishing", configs=[config(interface={"name": "net1"})])
    unread = attrs.evolve(wishing.ref, name="unread", uid="uid-of-unread")
    node.add(first, wishing)
    beside = (first.ref, wishing.ref, unread)

    for each in (first, wishing):
        await node.claims.prepare(each.ref, beside=beside)

    names = [first_nic(node.record(each)).config.interface.name for each in (first, wishing)]
    assert names == ["net2", "net1"]


@pytest.mark.parametrize("order", ["shared own", "own shared"])
async def test_claim_of_a_group_and_a_pods_own_have_two_names(node: Node, order: str) -> None:
    """The group's claim names no pod; what one wishes is left to it, and each wish is checked."""

    shared = claim(name="shared", consumers=[GROUP])
    own = claim(result(OTHER), name="own")
    alike = [config(interface={"name": "same"})]
    node.add(shared, own)
    both = {"shared": shared, "own": own}
    beside = (shared.ref, own.ref)

    for name in order.split():
        await node.claims.prepare(both[name].ref, beside=beside)

    assert [name_in(node, each) for each in (shared, own)] == ["net1", "net2"]
    for each in both.values():
        await node.claims.unprepare(each.ref)
    node.add(*(attrs.evolve(each, configs=tuple(alike)) for each in both.values()))
    first, second = (both[name].ref for name in order.split())
    await node.claims.prepare(first, beside=beside)
    with pytest.raises(BerthError, match=r'"same" is the name'):
        await node.claims.prepare(second, beside=beside)


async def test_next_pod_of_a_group_leaves_the_groups_name_alone(node: Node) -> None:
    """Kubelet prepares the group's claim once, and asks for the next pod's own claim alone."""

    node.add(shared := claim(name="shared", consumers=[GROUP]))
    own = claim(result(OTHER), name="own", consumers=[pod("second")])
    node.add(own)
    await node.claims.prepare(shared.ref, beside=[shared.ref])
    await node.claims.prepare(own.ref, beside=[own.ref])

    assert [name_in(node, each) for each in (shared, own)] == ["net1", "net2"]


async def test_failed_stage_leaves_nothing(node: Node) -> None:
    """The second NIC's driver refuses: the first is put back, and the claim is as if unasked."""

    node.nics.faults[OTHER] = HostError(OTHER, "driver says no")

    with pytest.raises(HostError, match="driver says no"):
        await node.prepare(TWO)
    await wait_all_tasks_blocked()

    assert node.traces() == {}


async def test_stage_that_cannot_be_undone_keeps_its_hold(
    node: Node, autojump_clock: MockClock
) -> None:
    """A link that is not as it was belongs to nobody else until it is."""

    node.nics.faults[FAST] = HostError(FAST, "driver says no")
    node.nics.stuck.add(FAST)
    with pytest.raises(HostError, match="driver says no"):
        await node.prepare(NET)
    await wait_all_tasks_blocked()
    assert [hold.device for hold in node.ledger.holds()] == [FAST]
    assert node.records.stored[NET.ref.uid].revoked

    node.nics.faults.clear()
    node.nics.free(FAST)
    await wait_all_tasks_blocked()

    assert node.traces() == {}


async def count_writes(node: Node) -> int:
    """How many writes a prepare takes."""
    await node.prepare(NET)
    taken = node.disk.writes
    await node.claims.unprepare(NET.ref)
    assert node.traces() == {}
    return taken


async def test_disk_full_at_each_write_of_prepare(node: Node, autojump_clock: MockClock) -> None:
    """Whichever write fails: the path and the reason are told, nothing is half done, and it works
    again once there is room.
    """

    for room in range(await count_writes(node)):
        node.disk.room = room
        with pytest.raises(HostError, match="No space left on device"):
            await node.prepare(NET)
        await trio.sleep(10)
        assert node.traces() == {}, f"room for {room}"

        node.disk.room = 1000
        await node.prepare(NET)
        await node.claims.unprepare(NET.ref)
        assert node.traces() == {}


async def test_disk_full_keeps_the_hold_while_the_nic_is_not_home(
    node: Node, autojump_clock: MockClock
) -> None:
    """The last write fails with the link staged: nobody gets it before it is put back."""

    writes = await count_writes(node)
    node.nics.stuck.add(FAST)
    node.disk.room = writes - 1
    with pytest.raises(HostError):
        await node.prepare(NET)
    await trio.sleep(60)
    assert [hold.holder for hold in node.ledger.holds()] == [NET.ref]

    rival = claim(name="rival")
    node.server.claims.pop(NET.ref.uid)
    node.disk.room = 1000
    with pytest.raises(ClaimError, match=r"waited .*is held by claim default/net"):
        await node.prepare(rival)

    node.nics.free(FAST)
    await node.prepare(rival)
    assert [hold.holder for hold in node.ledger.holds()] == [rival.ref]


async def test_read_only_disk_refuses_prepare_and_repeats(
    node: Node, autojump_clock: MockClock
) -> None:
    """Not even a removal works; when the disk is well again, so is prepare."""

    node.disk.locked = True
    with pytest.raises(HostError):
        await node.prepare(NET)
    assert [hold.device for hold in node.ledger.holds()] == []

    node.disk.locked = False
    await node.prepare(NET)

    assert node.stages(NET.ref) == [Stage.STAGED]


async def test_unprepare_of_an_unknown_claim_succeeds(node: Node) -> None:
    """Kubelet undoes claims that were never prepared, and claims that are undone."""

    unknown = ClaimRef(namespace="default", name="never", uid="never")
    await node.claims.unprepare(unknown)
    await node.prepare(NET)
    await node.claims.unprepare(NET.ref)
    await node.claims.unprepare(NET.ref)

    assert node.traces() == {}
    assert node.told.forgotten.count(NET.ref.uid) == 2


async def test_unprepare_removes_what_a_lost_record_left(node: Node) -> None:
    """The record is gone, files and hold are not: the UID alone is enough."""

    await node.prepare(NET)
    await node.records.delete(NET.ref.uid)

    await node.claims.unprepare(NET.ref)

    assert node.traces() == {}


async def test_unprepare_with_a_lost_device_succeeds(node: Node) -> None:
    """What is gone needs no way home."""

    await node.prepare(TWO)
    await node.attach(TWO, sandbox_of("web"))
    node.nics.lost.add(FAST)

    await node.claims.unprepare(TWO.ref)

    assert node.traces() == {}


async def test_unprepare_answers_while_a_nic_is_on_its_way(
    node: Node, autojump_clock: MockClock
) -> None:
    """It never waits for a namespace: files are gone, the hold is kept until the NIC is home."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    node.nics.stuck.add(FAST)
    began = trio.current_time()

    await node.claims.unprepare(NET.ref)

    assert trio.current_time() - began <= 2
    assert node.papers.files == {}
    assert [hold.device for hold in node.ledger.holds()] == [FAST]
    node.nics.free(FAST)
    await wait_all_tasks_blocked()
    assert node.traces() == {}


async def test_unprepare_on_a_full_disk_frees_the_hardware(
    node: Node, autojump_clock: MockClock
) -> None:
    """Nothing can be written, yet the NIC is home and free, and nothing is left on disk."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    node.disk.room = 0

    await node.claims.unprepare(NET.ref)

    assert node.traces() == {}


async def test_unprepare_on_a_read_only_disk_fails_with_the_nic_home(
    node: Node, autojump_clock: MockClock
) -> None:
    """Kubelet asks again; the hardware does not wait for that, and a disk that is well ends it."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    node.disk.locked = True
    with pytest.raises(HostError, match="Read-only"):
        await node.claims.unprepare(NET.ref)
    assert node.stages(NET.ref) == [Stage.HOME]
    assert node.ledger.holds() != ()

    node.disk.locked = False
    await trio.sleep(60)

    assert node.traces() == {}


async def test_what_the_disk_keeps_is_tried_again_less_and_less(
    node: Node, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An ended claim whose files cannot go costs a try now and then, and goes when they can."""

    await node.prepare(NET)
    node.disk.locked = True
    with pytest.raises(HostError):
        await node.claims.unprepare(NET.ref)
    await trio.sleep(600)
    tries = caplog.text.count("ended claims not removed, trying again")
    assert 20 < tries < 40

    node.disk.locked = False
    await trio.sleep(31)

    assert node.traces() == {}


async def test_prepare_after_unprepare_waits_for_the_return(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The next pod of the same claim comes while its NIC is on its way home."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    node.nics.stuck.add(FAST)
    await node.claims.unprepare(NET.ref)
    nursery.start_soon(node.prepare, NET)
    await trio.sleep(10)
    assert not node.record(NET).prepared or node.record(NET).revoked

    node.nics.free(FAST)
    await wait_all_tasks_blocked()

    assert node.stages(NET.ref) == [Stage.STAGED]
    assert node.record(NET).prepared


async def test_prepare_says_that_the_return_did_not_come(
    node: Node, autojump_clock: MockClock
) -> None:
    """At the caller's deadline the answer names what was waited for."""

    await node.prepare(NET)
    node.nics.stuck.add(FAST)
    await node.claims.unprepare(NET.ref)

    with pytest.raises(ClaimError, match="its devices are not home yet"):
        await node.prepare(NET)


async def test_claims_of_one_device_are_prepared_once(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Two living claims that both name a device: one has it, the other is told by whom."""

    rival = claim(name="rival", consumers=[pod("other")])
    outcomes: list[str] = []

    async def ask(wanted: Any) -> None:
        try:
            await node.prepare(wanted)
        except ClaimError as error:
            outcomes.append(str(error))

    node.add(NET, rival)
    async with trio.open_nursery() as both:
        both.start_soon(ask, NET)
        both.start_soon(ask, rival)

    assert len(node.ledger.holds()) == len(outcomes) == 1
    assert f"{FAST}: is held by claim {node.ledger.holds()[0].holder}" in outcomes[0]


class Canceller(trio.abc.Instrument):
    """Cancels a task's scope when it and its children have taken so many steps.

    Attributes:
        steps: How many it has taken.
    """

    def __init__(self, scope: trio.CancelScope, *, at: int) -> None:
        self.steps = 0
        self._scope = scope
        self._at = at
        self._task = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count, and cancel in time."""
        if self._is_of_it(task):
            self.steps += 1
            if self.steps == self._at:
                self._scope.cancel()

    def _is_of_it(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = task.parent_nursery.parent_task if task.parent_nursery is not None else None
        return task is self._task


async def cancelled_at(node: Node, wanted: Any, step: int) -> bool:
    """Prepare a claim, cancelled at a step; whether it was done before."""
    with trio.CancelScope() as scope:
        canceller = Canceller(scope, at=step)
        trio.lowlevel.add_instrument(canceller)
        try:
            await node.claims.prepare(wanted.ref)
        finally:
            trio.lowlevel.remove_instrument(canceller)
        return canceller.steps < step
    return False


@pytest.mark.parametrize("wanted", [TWO, CHILD], ids=["moved", "child"])
async def test_cancel_at_each_await_of_prepare_leaves_all_or_nothing(
    node: Node, autojump_clock: MockClock, wanted: Any
) -> None:
    """Kubelet hangs up at any moment: the claim is prepared, or nothing of it is left."""

    node.add(wanted)
    step, done = 0, False
    while not done:
        step += 1
        done = await cancelled_at(node, wanted, step)
        await trio.sleep(5)
        record = node.records.get(wanted.ref.uid)
        if record is None:
            assert node.traces() == {}, f"cancelled at step {step}"
        else:
            assert record.prepared, f"cancelled at step {step}"
            assert node.records.stored == {wanted.ref.uid: record}
            await node.claims.unprepare(wanted.ref)
        assert node.traces() == {}, f"cancelled at step {step}"
    assert step > 10


async def test_unprepare_waits_for_a_prepare_under_way(
    node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """What a prepare has taken a moment ago is not freed under its hands."""

    node.server.gate = trio.Event()
    nursery.start_soon(node.prepare, NET)
    await wait_all_tasks_blocked()
    nursery.start_soon(node.claims.unprepare, NET.ref)
    await wait_all_tasks_blocked()
    node.server.gate.set()
    await wait_all_tasks_blocked()

    assert node.traces() == {}


async def test_reread_follows_a_successor(node: Node) -> None:
    """After a pod was deleted by force the same claim is its successor's, without a prepare."""

    await node.prepare(NET)
    node.add(attrs.evolve(NET, consumers=(pod("next"),)))

    record = await node.claims.reread(NET.ref.uid)

    assert record is not None
    assert record.consumers == (pod("next"),)
    assert node.claims.of_pod("uid-of-pod-next") == (record,)
    assert node.records.stored[NET.ref.uid] == record


async def test_reread_lets_no_second_pod_in(node: Node) -> None:
    """While two pods are reserved the first one keeps the claim."""

    await node.prepare(NET)
    node.add(attrs.evolve(NET, consumers=(pod(), pod("second"))))

    record = await node.claims.reread(NET.ref.uid)

    assert record is not None
    assert record.consumers == (pod(),)


@pytest.mark.parametrize(
    ("before", "now", "users"),
    [
        (["web"], ["b", "c"], ["b", "c"]),
        (["web", "b"], ["b", "c"], ["b"]),
        (["web", "b"], ["web", "b", "c"], ["web", "b"]),
        (["web"], [], ["web"]),
    ],
)
async def test_reread_gives_a_claim_on_when_its_pods_have_ended(
    node: Node, before: list[str], now: list[str], users: list[str]
) -> None:
    """Kubelet prepares nothing anew while one pod after the other has it."""

    await node.prepare(NET)
    await node.attach(NET, sandbox_of("web"))
    await node.records.put(attrs.evolve(node.record(NET), consumers=tuple(map(pod, before))))
    node.add(attrs.evolve(NET, consumers=tuple(map(pod, now))))

    record = await node.claims.reread(NET.ref.uid)

    assert record is not None
    assert record.consumers == tuple(map(pod, users))
    assert node.records.stored[NET.ref.uid] == record


async def test_reread_leaves_a_claim_to_the_pod_that_has_its_nic_yet(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted by force, and its sandbox lives; once that has ended, the others may."""

    monkeypatch.setattr(execute, "HOME", "/proc/self/ns/uts")
    living = attrs.evolve(sandbox_of("web"), netns_path=str(NETNS), netns_inode=INODE)
    await node.prepare(NET)
    await node.attach(NET, living)
    node.add(attrs.evolve(NET, consumers=(pod("b"), pod("c"))))
    await node.claims.reread(NET.ref.uid)
    assert node.record(NET).consumers == (pod(),)

    await node.arrivals.detach(living.id)
    await node.claims.reread(NET.ref.uid)
    assert node.record(NET).consumers == (pod("b"), pod("c"))


async def test_reread_gives_nothing_on_that_the_disk_does_not_take(node: Node) -> None:
    """A restart would find the former pod's claim, and its NIC in another."""

    await node.prepare(NET)
    node.add(attrs.evolve(NET, consumers=(pod("b"), pod("c"))))
    node.disk.room = 0

    with pytest.raises(HostError):
        await node.claims.reread(NET.ref.uid)
    assert node.record(NET).consumers == (pod(),)


async def test_reread_of_what_was_allocated_anew_is_refused(node: Node) -> None:
    """A pod must not start with a NIC that is not its claim's any more."""

    await node.prepare(NET)
    node.add(attrs.evolve(NET, results=(result(OTHER),)))

    with pytest.raises(ClaimError, match="has other devices now"):
        await node.claims.reread(NET.ref.uid)
    assert await node.claims.reread("unknown") is None


async def test_reload_judges_new_claims_alone(node: Node) -> None:
    """What is prepared stays; a claim of a group that is gone is refused."""

    await node.prepare(NET)
    node.claims.reload({})

    await node.prepare(NET)
    with pytest.raises(BerthError, match="not configured any more"):
        await node.prepare(claim(result(OTHER), name="late"))


async def test_marker_finds_the_claim(node: Node) -> None:
    """A container's environment names claims without hyphens."""

    await node.prepare(NET)

    assert node.claims.by_marker([NET.ref.uid.replace("-", ""), "unknown"]) == (
        node.record(NET),
        None,
    )
