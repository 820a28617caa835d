"""What a claim's status says of how its devices are, and how seldom it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.health.verdict import Verdict
from berth.kube.status import Condition, ConditionStatus
from berth.nic.record import Stage
from berth.node.claims.conditions import device_status
from berth.node.claims.status import ClaimStatus
from berth.node.records.record import ClaimRecord
from tests.unit.node.claimserver import ClaimServer, refused
from tests.unit.node.hands import Disk, MemoryRecords
from tests.unit.node.peripherals import modem
from tests.unit.node.verdicts import DEGRADED, SICK, SILENT, UNASKED, WELL, Judge
from tests.unit.node.views.scenes import DEVICE, claim_record, nic_record

NET = claim_record(nic_record(Stage.ATTACHED))
SERIAL = attrs.evolve(
    claim_record(nic_record()),
    devices=tuple(attrs.evolve(device, nic=None, peripheral=modem()) for device in NET.devices),
)


class Scene:
    """A server, the records of a node, and who judges its devices."""

    def __init__(self, *records: ClaimRecord) -> None:
        self.server = ClaimServer()
        self.records = MemoryRecords(Disk())
        self.judge = Judge(**{DEVICE: WELL})
        self.first = records

    async def begin(self, nursery: trio.Nursery) -> ClaimStatus:
        """A life of the daemon."""
        made = ClaimStatus(
            self.server,
            driver="berth.dev",
            manager="berthd-node",
            records=self.records,
            inquiry=self.judge.inquiry(),
        )
        await nursery.start(made.run)
        await wait_all_tasks_blocked()
        return made

    async def prepare(self, status: ClaimStatus, record: ClaimRecord) -> None:
        """Have a claim prepared, and told."""
        await self.records.put(record)
        status.tell(record)
        await wait_all_tasks_blocked()

    async def judge_it(self, verdict: Verdict) -> None:
        """Let the device be like this."""
        self.judge.tell({DEVICE: verdict})
        await wait_all_tasks_blocked()

    @property
    def told(self) -> list[tuple[str, str]]:
        """Status and reason of ``Healthy``, in each write."""
        return [one.words["Healthy"] for one in self.server.applied]


@pytest.fixture
def scene() -> Scene:
    """Nothing has been told yet."""
    return Scene()


@pytest.fixture
async def status(scene: Scene, nursery: trio.Nursery) -> AsyncIterator[ClaimStatus]:
    """A writer that runs."""
    yield await scene.begin(nursery)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (WELL, ("True", "Healthy", "")),
        (DEGRADED, ("True", "Degraded", "xid-63: a row was remapped")),
        (SICK, ("False", "Xid79", "it fell off the bus; reboot")),
        (attrs.evolve(SICK, reason="no-answer"), ("False", "NoAnswer", SICK.message)),
        (attrs.evolve(SICK, reason="9-lives"), ("False", "Unhealthy", SICK.message)),
        (SILENT, ("Unknown", "CannotAsk", "it cannot be asked: off")),
    ],
)
@pytest.mark.parametrize("record", [NET, SERIAL, claim_record(None)])
def test_condition_by_verdict(
    record: ClaimRecord, verdict: Verdict, told: tuple[str, str, str]
) -> None:
    """One of each device, whatever it is and however its claim has it."""

    conditions = device_status(record.devices[0], at="now", verdict=verdict).conditions

    (healthy,) = [one for one in conditions if one.type == "Healthy"]
    assert (healthy.status.value, healthy.reason, healthy.message) == told
    assert len({one.type for one in conditions}) == len(conditions)


def test_device_that_stays_is_ready_when_it_is_prepared() -> None:
    """Where somebody judges devices, ``Ready`` is told with how they are."""

    (ready, _) = device_status(SERIAL.devices[0], at="now", verdict=WELL).conditions

    assert ready == Condition(
        type="Ready", status=ConditionStatus.TRUE, reason="Prepared", message="", changed_at="now"
    )
    assert device_status(SERIAL.devices[0], at="now").conditions == ()


async def test_claim_is_written_once_and_then_when_the_verdict_changes(
    scene: Scene, status: ClaimStatus, autojump_clock: MockClock
) -> None:
    """With ``Ready`` at prepare; that a device was asked again is no news."""

    await scene.prepare(status, SERIAL)
    for second in range(100):
        await scene.judge_it(attrs.evolve(WELL, observed_s=second))
    assert scene.told == [("True", "Healthy")]
    assert scene.server.applied[0].words["Ready"] == ("True", "Prepared")

    await scene.judge_it(SICK)
    await scene.judge_it(attrs.evolve(SICK, observed_s=7, message="it has been away for 7 s"))
    await scene.judge_it(WELL)
    assert scene.told == [("True", "Healthy"), ("False", "Xid79"), ("True", "Healthy")]
    assert scene.server.asked == []


async def test_time_of_a_condition_is_that_of_its_status(
    scene: Scene, status: ClaimStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reason is told with the old time; other conditions keep theirs."""

    times = iter([f"t{number}" for number in range(9)])
    monkeypatch.setattr("berth.node.claims.status.now_text", lambda: next(times))
    await scene.prepare(status, NET)
    for verdict in (DEGRADED, SICK, attrs.evolve(SICK, reason="lost", message="it is gone")):
        await scene.judge_it(verdict)

    changed = [
        {c.type: c.changed_at for c in one.devices[0].conditions} for one in scene.server.applied
    ]
    assert [one["Healthy"] for one in changed] == ["t0", "t0", "t2", "t2"]
    assert {one["Ready"] for one in changed} == {"t0"}


async def test_only_prepared_claims_are_told(scene: Scene, status: ClaimStatus) -> None:
    """Of a claim that is undone nobody reads how its devices are."""

    await scene.records.put(attrs.evolve(SERIAL, prepared=False))
    await scene.judge_it(SICK)
    await scene.records.put(attrs.evolve(SERIAL, revoked=True))
    await scene.judge_it(WELL)

    assert scene.told == []


async def test_restart_writes_nothing_that_was_told_before(
    scene: Scene, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told is read once, and a condition keeps its time; news are told."""

    times = iter([f"t{number}" for number in range(99)])
    monkeypatch.setattr("berth.node.claims.status.now_text", lambda: next(times))
    async with trio.open_nursery() as nursery:
        await scene.prepare(await scene.begin(nursery), SERIAL)
        nursery.cancel_scope.cancel()
    # What the next life knows at first.
    scene.judge.tell({DEVICE: UNASKED})
    async with trio.open_nursery() as nursery:
        status = await scene.begin(nursery)
        status.tell(SERIAL)
        await trio.sleep(1)
        assert scene.server.asked == []
        for second in range(5):
            await scene.judge_it(attrs.evolve(WELL, observed_s=second))
        assert (len(scene.told), len(scene.server.asked)) == (1, 1)
        await scene.judge_it(SICK)
        nursery.cancel_scope.cancel()

    assert scene.told == [("True", "Healthy"), ("False", "Xid79")]
    assert {c.type: c.changed_at for c in scene.server.applied[1].devices[0].conditions}[
        "Ready"
    ] == "t0"


async def test_device_that_nobody_asks_after_a_restart_is_told_as_unknown(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Once time is up; not in the moment in which devices are asked for the first time."""

    async with trio.open_nursery() as nursery:
        await scene.prepare(await scene.begin(nursery), SERIAL)
        nursery.cancel_scope.cancel()
    scene.judge.tell({DEVICE: UNASKED})
    async with trio.open_nursery() as nursery:
        await scene.begin(nursery)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert scene.told == [("True", "Healthy"), ("Unknown", "Unasked")]


async def test_server_that_fails_is_tried_again_with_the_newest(
    scene: Scene, status: ClaimStatus, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Pauses grow, what was in between is not told."""

    await scene.prepare(status, SERIAL)
    scene.server.answers["apply_claim_status"] = [refused(503)] * 3
    await scene.judge_it(SICK)
    await scene.judge_it(DEGRADED)
    began = trio.current_time()
    await trio.sleep(60)

    assert scene.told == [("True", "Healthy"), ("True", "Degraded")]
    assert scene.server.applied[-1].at - began == pytest.approx(7, abs=0.1)


async def test_missing_rights_are_told_once(
    scene: Scene, status: ClaimStatus, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """And the server is left in peace, whatever becomes of the device."""

    scene.server.answers["apply_claim_status"] = [refused(403)]
    await scene.prepare(status, SERIAL)
    await scene.judge_it(SICK)
    await trio.sleep(3600)

    assert scene.told == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("status_code", [404, 409])
async def test_claim_that_is_gone_is_asked_about_once(
    scene: Scene, status: ClaimStatus, status_code: int
) -> None:
    """Its record may stay for long, and its device may change: there is nobody to tell."""

    scene.server.answers["apply_claim_status"] = [refused(status_code)]
    await scene.prepare(status, SERIAL)
    asked = len(scene.server.asked)
    for verdict in (SICK, WELL, SICK):
        await scene.judge_it(verdict)

    assert (scene.told, len(scene.server.asked)) == ([], asked)
