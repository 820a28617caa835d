"""Devices of claims whose pods are not bound yet: asked, told of, and given up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.model.readiness import UNASKED
from berth.nic.record import Stage
from berth.node.claims.waits import DECIDE_S, WHO
from berth.readiness.course import AHEAD_S
from berth.readiness.demands import Demands
from tests.unit.node.claims.waiting import DOWN, FAILED, READY, UP, Scene, awaited
from tests.unit.node.claimserver import refused
from tests.unit.node.machine import FAST, OTHER, look
from tests.unit.node.verdicts import SICK
from tests.unit.node.views.scenes import claim_record, nic_record

WAITING = {READY: ("False", "NoCarrier"), FAILED: ("False", "InTime")}
BOUND = {READY: ("True", "LinkUp"), FAILED: ("False", "InTime")}


@pytest.fixture
async def scene(nursery: trio.Nursery) -> AsyncIterator[Scene]:
    """A node that hears of no claim yet."""
    made = Scene()
    await nursery.start(made.status.run)
    await nursery.start(made.waits.run)
    await wait_all_tasks_blocked()
    yield made
    nursery.cancel_scope.cancel()


async def test_conditions_follow_the_device(scene: Scene, autojump_clock: MockClock) -> None:
    """It is asked from the allocation on, and the claim's status says what it says."""

    scene.hear(awaited())
    await wait_all_tasks_blocked()
    assert scene.asks.wanted[WHO] == {FAST}
    assert scene.told()[FAST][READY] == ("Unknown", UNASKED.reason)

    scene.asks.tell(nic_fast_0=DOWN)
    await wait_all_tasks_blocked()
    assert scene.told() == {FAST: WAITING}
    assert scene.trouble == (
        f"its pod is bound when its devices are ready: {FAST} is not ready: ens1 has no carrier"
    )

    scene.asks.tell(nic_fast_0=UP)
    await wait_all_tasks_blocked()
    assert scene.told() == {FAST: BOUND}
    assert scene.trouble == ""


async def test_every_device_is_told_of_at_once(scene: Scene, autojump_clock: MockClock) -> None:
    """One write holds all of our entries, since the server drops what is left out."""

    scene.hear(awaited("a", FAST, OTHER))
    await wait_all_tasks_blocked()
    before = len(scene.server.applied)
    scene.asks.tell(nic_fast_0=UP, nic_fast_1=DOWN)
    await wait_all_tasks_blocked()

    assert scene.told() == {FAST: BOUND, OTHER: WAITING}
    assert len(scene.server.applied) == before + 1


async def test_claim_that_waits_for_nothing_is_left_alone(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Its pod was bound at once; whoever prepares it tells of it."""

    plain = awaited()
    (one,) = plain.devices
    scene.hear(attrs.evolve(plain, devices=(attrs.evolve(one, binding_conditions=()),)))
    await wait_all_tasks_blocked()

    assert (scene.server.applied, scene.asks.wanted[WHO]) == ([], frozenset())


async def test_device_is_given_up_when_its_time_is_over(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Others are kept from it before the scheduler hears of it, until it is ready or has rested."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(59)
    assert scene.waits.rests.get() == frozenset()

    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {FAST}
    assert scene.told()[FAST][FAILED] == ("False", "InTime")
    await trio.sleep(AHEAD_S)
    await wait_all_tasks_blocked()
    assert scene.told()[FAST] == {
        READY: ("False", "NotReadyInTime"),
        FAILED: ("True", "NotReadyInTime"),
    }

    scene.hear()
    await trio.sleep(200)
    assert scene.waits.rests.get() == scene.asks.wanted[WHO] == {FAST}
    assert [remark.partition(",")[0] for remark in scene.waits.remarks()] == [
        f"{FAST} was given up by a claim"
    ]
    await trio.sleep(100)
    await wait_all_tasks_blocked()
    assert (scene.waits.rests.get(), scene.asks.wanted[WHO]) == (frozenset(), frozenset())


async def test_device_that_rests_is_offered_as_soon_as_it_is_ready(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """It goes on to be asked meanwhile."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(62)
    scene.hear()
    await wait_all_tasks_blocked()
    scene.asks.tell(nic_fast_0=UP)
    await wait_all_tasks_blocked()

    assert scene.waits.rests.get() == frozenset()


async def test_sick_device_is_given_up_at_once(scene: Scene, autojump_clock: MockClock) -> None:
    """By its verdict, though its link is up."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=UP)
    await wait_all_tasks_blocked()
    scene.judge.tell({FAST: SICK})
    await trio.sleep(AHEAD_S)
    await wait_all_tasks_blocked()

    assert scene.told()[FAST] == {READY: ("False", "Xid79"), FAILED: ("True", "Xid79")}


async def test_device_that_is_gone_is_given_up_at_once(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Nobody is kept waiting for what was unplugged."""

    scene.hear(awaited())
    await wait_all_tasks_blocked()
    scene.inventory.set(look(names=(OTHER,)).inventory)
    await trio.sleep(AHEAD_S)
    await wait_all_tasks_blocked()

    assert scene.told()[FAST][FAILED] == ("True", "Gone")


async def test_second_allocation_of_a_claim_begins_anew(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """The server has dropped what was told of the first one, though it is the same device."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(62)
    await wait_all_tasks_blocked()
    assert scene.told()[FAST][FAILED] == ("True", "NotReadyInTime")

    scene.hear(awaited(allocated_at="2023-11-14T22:14:30Z"))
    await wait_all_tasks_blocked()
    assert scene.told()[FAST] == WAITING


async def test_device_rests_on_over_a_restart(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its taint goes neither with the process nor with a server that is not there at once."""

    before = Scene()
    await nursery.start(before.waits.run)
    before.hear(awaited())
    before.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(61)
    assert before.kept.value == {FAST: before.now_s() + 299}

    scene = Scene(rests=before.kept.value)
    await scene.waits.load()
    assert scene.waits.rests.get() == {FAST}
    (marked,) = (one for one in scene.waits.mark(scene.inventory.get()).devices if one.taints)
    assert (marked.name, marked.taints[0].key) == (FAST, "berth.dev/not-ready")

    await nursery.start(scene.waits.run)
    scene.hear()
    await wait_all_tasks_blocked()
    assert scene.asks.wanted[WHO] == scene.waits.rests.get() == {FAST}
    scene.asks.tell(nic_fast_0=UP)
    await wait_all_tasks_blocked()
    assert (scene.waits.rests.get(), scene.kept.value) == (frozenset(), {})
    nursery.cancel_scope.cancel()


async def test_claim_that_was_given_its_device_long_ago_has_not_its_whole_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A restart of the daemon gives a device no second minute."""

    scene = Scene()
    scene.hear(awaited(allocated_at="2023-11-14T22:12:40Z"))
    scene.asks.tell(nic_fast_0=DOWN)
    await nursery.start(scene.status.run)
    await nursery.start(scene.waits.run)
    await trio.sleep(19)
    assert scene.waits.rests.get() == frozenset()
    await trio.sleep(1.5)
    assert scene.waits.rests.get() == {FAST}
    nursery.cancel_scope.cancel()


async def test_claim_that_is_new_has_its_whole_time_by_the_nodes_clock(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """The scheduler's clock may be minutes behind."""

    scene.hear()
    await wait_all_tasks_blocked()
    scene.hear(awaited(allocated_at="2023-11-14T22:00:00Z"))
    scene.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(59)

    assert scene.waits.rests.get() == frozenset()


async def test_prepared_claim_stays_ready(scene: Scene, autojump_clock: MockClock) -> None:
    """Its link goes into the pod, and a second pod of the claim must not wait for ever."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=UP)
    await wait_all_tasks_blocked()
    record = claim_record(nic_record(Stage.ATTACHED))
    record = attrs.evolve(record, claim=awaited().ref)
    await scene.records.put(record)
    scene.asks.tell(nic_fast_0=DOWN)
    await trio.sleep(120)

    assert scene.told()[FAST] == {READY: ("True", "Prepared"), FAILED: ("False", "InTime")}
    assert (scene.waits.rests.get(), scene.asks.wanted[WHO]) == (frozenset(), frozenset())


async def test_words_that_count_the_seconds_are_not_told_each_time(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """A command may print another number at each run."""

    scene.hear(awaited())
    await wait_all_tasks_blocked()
    for percent in range(0, 100, 10):
        scene.asks.tell(nic_fast_0=attrs.evolve(DOWN, message=f"{percent} % attached"))
        await wait_all_tasks_blocked()

    assert len(scene.server.applied) == 2


async def test_status_is_written_when_the_server_is_back(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """What was said meanwhile is told once, as it is then."""

    scene.server.answers["apply_claim_status"] = [refused(503)] * 3
    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await wait_all_tasks_blocked()
    scene.asks.tell(nic_fast_0=UP)
    await trio.sleep(30)

    assert [one.words for one in scene.server.applied] == [BOUND]


async def test_claim_that_is_gone_is_told_nothing(scene: Scene, autojump_clock: MockClock) -> None:
    """Neither is why its pod waits."""

    scene.server.answers["apply_claim_status"] = [refused(404)]
    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await wait_all_tasks_blocked()
    scene.hear()
    await wait_all_tasks_blocked()

    assert (scene.server.applied, scene.trouble) == ([], "")
    assert scene.waits.able.get() is True


async def test_conditions_are_given_up_with_the_right_to_write_them(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Nobody would ever bind a pod for them; who asks is told so."""

    scene.server.answers["apply_claim_status"] = [refused(403)]
    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await wait_all_tasks_blocked()

    assert scene.waits.able.get() is False
    assert "the scheduler is not told" in scene.trouble


async def test_claims_that_are_not_heard_of_are_not_waited_for_long(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """From the moment that somebody would publish; a list that comes later is taken."""

    await trio.sleep(2 * DECIDE_S)
    assert scene.waits.able.get() is None
    with trio.fail_after(DECIDE_S + 1):
        await scene.waits.wait_decided()
    assert scene.waits.able.get() is False
    scene.hear()
    await wait_all_tasks_blocked()
    assert scene.waits.able.get() is True


async def test_claims_that_may_not_be_seen_are_not_waited_for(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Kubelet's own credentials may not list them: devices are offered without conditions."""

    scene.allocations.denied.set(True)
    with trio.fail_after(1):
        await scene.waits.wait_decided()

    assert scene.waits.able.get() is False
    scene.allocations.denied.set(False)
    scene.hear()
    await wait_all_tasks_blocked()
    assert scene.waits.able.get() is True
    scene.allocations.denied.set(True)
    await wait_all_tasks_blocked()
    assert scene.waits.able.get() is False


async def test_nothing_is_decided_or_watched_where_no_group_waits(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The watch of all claims of a cluster is for those who want it."""

    scene = Scene(Demands())
    await nursery.start(scene.waits.run)
    with trio.fail_after(1):
        await scene.waits.wait_decided()
    await trio.sleep(60)

    assert (scene.allocations.is_wanted, scene.waits.able.get()) == (False, None)
    nursery.cancel_scope.cancel()


async def test_group_that_waits_no_more_lets_its_pods_go(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """After a reload the claims that were given conditions are still served."""

    scene.hear(awaited())
    scene.asks.tell(nic_fast_0=DOWN)
    await wait_all_tasks_blocked()
    scene.demands.set(Demands())
    await wait_all_tasks_blocked()

    assert scene.told()[FAST][READY] == ("True", "NothingAwaited")
    assert scene.allocations.is_wanted
