"""One writer of a claim's status, for what its record says and for who waits for its devices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.kube.status import Condition, DeviceStatus
from berth.model.readiness import Answer
from berth.nic.record import Stage
from berth.node.claims.conditions import binding_conditions
from berth.node.claims.status import ClaimStatus, Key
from berth.readiness.course import Course
from tests.unit.node.claims.waiting import DOWN, FAILED, READY, UP
from tests.unit.node.claimserver import Applied, ClaimServer, refused
from tests.unit.node.views.scenes import CLAIM, claim_record, nic_record

RECORD = claim_record(nic_record(Stage.ATTACHED))
(RESULT,) = (device.result for device in RECORD.devices)
KEY: Key = (RESULT.pool, RESULT.device, RESULT.share_id)
BOTH = {"Ready", "NetworkReady", READY, FAILED}


def conditions(answer: Answer, at: str = "then") -> Mapping[Key, tuple[Condition, ...]]:
    """What binds the pod of the claim."""
    course = Course(answer=answer, unready_s=None)
    return {KEY: binding_conditions(course, driver="berth.dev", at=at, now_s=0)}


@pytest.fixture
def server() -> ClaimServer:
    """A server that takes everything."""
    return ClaimServer()


@pytest.fixture
async def status(server: ClaimServer, nursery: trio.Nursery) -> AsyncIterator[ClaimStatus]:
    """A writer that runs."""
    made = ClaimStatus(server, driver="berth.dev", manager="berthd-node")
    await nursery.start(made.run)
    yield made
    nursery.cancel_scope.cancel()


async def test_both_are_written_as_one(status: ClaimStatus, server: ClaimServer) -> None:
    """The server takes all of a driver's entries at once, and drops what is left out."""

    status.tell_awaited(CLAIM, conditions(UP), allocation="1")
    await wait_all_tasks_blocked()
    status.tell(RECORD)
    await wait_all_tasks_blocked()

    first, second = server.applied
    assert [set(one.words) for one in (first, second)] == [{READY, FAILED}, BOTH]
    assert second.devices[0].network is not None


async def test_what_nobody_speaks_of_any_more_stays_as_it_was_told(server: ClaimServer) -> None:
    """After a start the record may come first: a second pod must not lose its condition."""

    entry = DeviceStatus(pool=RESULT.pool, device=RESULT.device, conditions=conditions(UP)[KEY])
    server.applied.append(Applied(ref=CLAIM, devices=(entry,), at=0))
    async with trio.open_nursery() as nursery:
        status = ClaimStatus(server, driver="berth.dev", manager="berthd-node", waits=lambda: True)
        await nursery.start(status.run)
        status.tell(RECORD)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert server.applied[-1].words.keys() == BOTH
    assert server.applied[-1].words[READY] == ("True", "LinkUp")


async def test_time_of_a_change_is_kept_over_a_restart(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """What an earlier life told is read once for each claim; the same again is no write."""

    entry = DeviceStatus(
        pool=RESULT.pool, device=RESULT.device, conditions=conditions(DOWN, at="long ago")[KEY]
    )
    server.applied.append(Applied(ref=CLAIM, devices=(entry,), at=0))

    status.tell_awaited(CLAIM, conditions(DOWN, at="now"), allocation="1")
    await wait_all_tasks_blocked()
    assert len(server.applied) == 1
    status.tell_awaited(CLAIM, conditions(UP, at="now"), allocation="1")
    await wait_all_tasks_blocked()

    times = {c.type: c.changed_at for c in server.applied[-1].devices[0].conditions}
    assert times == {READY: "now", FAILED: "long ago"}


async def test_another_allocation_is_told_though_it_reads_the_same(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """The server has dropped the entries of the one before."""

    status.tell_awaited(CLAIM, conditions(UP), allocation="1")
    await wait_all_tasks_blocked()
    server.applied.append(Applied(ref=CLAIM, devices=(), at=0))
    status.tell_awaited(CLAIM, conditions(UP), allocation="2")
    await wait_all_tasks_blocked()

    assert [len(one.devices) for one in server.applied] == [1, 0, 1]


async def test_claim_that_is_unprepared_and_still_waited_for_is_told_of_that_alone(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """The next pod of the claim waits again."""

    status.tell_awaited(CLAIM, conditions(UP), allocation="1")
    status.tell(RECORD)
    await wait_all_tasks_blocked()
    status.forget(CLAIM.uid)
    status.tell_awaited(CLAIM, conditions(DOWN), allocation="1")
    await wait_all_tasks_blocked()

    assert server.applied[-1].words == {READY: ("False", "NoCarrier"), FAILED: ("False", "InTime")}
    assert server.applied[-1].devices[0].network is None


async def test_record_goes_on_to_be_told_when_its_claim_is_heard_of_no_more(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """The watch may have lost it; nothing else tells that the claim is gone."""

    status.tell(RECORD)
    status.tell_awaited(CLAIM, conditions(UP), allocation="1")
    await wait_all_tasks_blocked()
    status.forget_awaited(CLAIM.uid)
    changed = attrs.evolve(nic_record(Stage.ATTACHED), carrier=False)
    status.tell(claim_record(changed))
    await wait_all_tasks_blocked()

    assert server.applied[-1].words["NetworkReady"] == ("False", "NoCarrier")
    assert server.applied[-1].words[READY] == ("True", "LinkUp")


async def test_nothing_is_told_without_the_right_to(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """Whoever waits is told so, and tries no more."""

    server.answers["apply_claim_status"] = [refused(422, field="status.devices")]
    status.tell_awaited(CLAIM, conditions(UP), allocation="1")
    await wait_all_tasks_blocked()
    assert status.able.get() is False
    status.tell_awaited(CLAIM, conditions(DOWN), allocation="1")
    await wait_all_tasks_blocked()

    assert server.applied == []
