"""What the API server is told of claims, when, and when not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.model.claim import Claim, ClaimRef
from berth.nic.record import Stage
from berth.node.claims.conditions import device_status
from berth.node.claims.status import ClaimStatus, now_text
from berth.node.records.record import ClaimRecord
from tests.unit.node.claimserver import ClaimServer, refused
from tests.unit.node.hands import ORIGINALS
from tests.unit.node.peripherals import modem
from tests.unit.node.views.scenes import CLAIM, claim_record, nic_record

OTHER = ClaimRef(namespace="default", name="other", uid="22222222")
STAGED = claim_record(nic_record(Stage.STAGED))
ATTACHED = claim_record(nic_record(Stage.ATTACHED))


def other(record: ClaimRecord) -> ClaimRecord:
    """The same state of another claim."""
    return attrs.evolve(record, claim=OTHER)


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


@pytest.mark.parametrize(
    ("changes", "ready", "network"),
    [
        ({"stage": Stage.STAGED}, ("False", "AwaitingSandbox"), ("False", "AwaitingSandbox")),
        (
            {"stage": Stage.HOME, "fault": "busy"},
            ("False", "AttachFailed"),
            ("False", "AttachFailed"),
        ),
        ({"stage": Stage.ATTACHED}, ("True", "Attached"), ("True", "Usable")),
        ({"stage": Stage.ATTACHED, "carrier": False}, ("True", "Attached"), ("False", "NoCarrier")),
        (
            {"stage": Stage.ATTACHED, "duplicates": ("192.0.2.7",)},
            ("True", "Attached"),
            ("False", "DuplicateAddress"),
        ),
    ],
)
def test_conditions_by_stage(
    changes: dict[str, Any], ready: tuple[str, str], network: tuple[str, str]
) -> None:
    """A NIC is ready once it is in its pod, and its network once somebody may use it."""

    record = claim_record(nic_record(**changes))

    told = device_status(record.devices[0], at="now")

    words = {c.type: (c.status.value, c.reason) for c in told.conditions}
    assert words == {"Ready": ready, "NetworkReady": network}
    assert {c.changed_at for c in told.conditions} == {"now"}


def test_data_holds_the_way_home_when_originals_are_known() -> None:
    """What would help to bring the NIC home is in the entry; an observer's entry is bare."""

    looking = device_status(claim_record(None).devices[0], at="now")
    known = claim_record(nic_record(Stage.ATTACHED, originals=ORIGINALS))
    attached = device_status(known.devices[0], at="now")

    assert (looking.conditions, looking.network, looking.data) == ((), None, None)
    assert attached.data == {
        "identity": "pci:0000:41:00.0",
        "home": {"name": "ens1", "mac": "02:00:00:00:00:01", "mtu": 1500},
        "sandbox": "sandbox-1",
    }


def test_now_text_is_rfc_3339() -> None:
    """Whole seconds in UTC."""

    assert now_text(lambda: 1_700_000_000.9) == "2023-11-14T22:13:20Z"


async def test_newest_state_wins_when_writing_takes_long(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """What changed while a write was under way is written next; what lay between never is."""

    server.gate = trio.Event()
    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.tell(claim_record(nic_record(Stage.HOME, fault="busy")))
    status.tell(ATTACHED)
    server.gate.set()
    await wait_all_tasks_blocked()

    told = [applied.words["Ready"][1] for applied in server.applied]
    assert told == ["AwaitingSandbox", "Attached"]


async def test_nothing_is_written_when_nothing_changed(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """The same state at a later time is no news."""

    status.tell(ATTACHED)
    await wait_all_tasks_blocked()
    status.tell(ATTACHED)
    await trio.sleep(3600)

    assert len(server.applied) == 1


async def test_nothing_is_written_of_what_is_not_moved(
    server: ClaimServer, status: ClaimStatus, autojump_clock: MockClock
) -> None:
    """The allocation says all that there is to say of a serial adapter."""

    record = claim_record(nic_record())
    devices = tuple(attrs.evolve(device, nic=None, peripheral=modem()) for device in record.devices)
    status.tell(attrs.evolve(record, devices=devices))
    await trio.sleep(10)

    assert server.applied == []


async def test_time_of_a_condition_stays_until_its_status_changes(
    status: ClaimStatus, server: ClaimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reason of the same status is told with the time at which the status came."""

    times = iter(["t0", "t1", "t2"])
    monkeypatch.setattr("berth.node.claims.status.now_text", lambda: next(times))
    for record in (STAGED, claim_record(nic_record(Stage.HOME, fault="busy")), ATTACHED):
        status.tell(record)
        await wait_all_tasks_blocked()

    ready = [
        (c.reason, c.changed_at)
        for applied in server.applied
        for c in applied.devices[0].conditions
        if c.type == "Ready"
    ]
    assert ready == [("AwaitingSandbox", "t0"), ("AttachFailed", "t0"), ("Attached", "t2")]


async def test_forbidden_once_then_nothing_is_written(
    status: ClaimStatus,
    server: ClaimServer,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """Without the right for it one warning is told, and the server is left in peace."""

    server.answers["apply_claim_status"] = [refused(403)]
    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.tell(ATTACHED)
    status.tell(other(ATTACHED))
    await trio.sleep(3600)

    assert server.applied == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "credentials" in caplog.text


async def test_missing_right_to_our_entries_reads_as_422(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """A token that is bound to no node is refused with 422 of the whole field."""

    server.answers["apply_claim_status"] = [refused(422, field="status.devices")]
    status.tell(STAGED)
    status.tell(other(STAGED))
    await trio.sleep(3600)

    assert server.applied == []


@pytest.mark.parametrize("field", ["status.allocation", "status.devices[0].data"])
async def test_claim_that_is_not_taken_leaves_others_alone(
    status: ClaimStatus,
    server: ClaimServer,
    caplog: pytest.LogCaptureFixture,
    field: str,
    autojump_clock: MockClock,
) -> None:
    """What one tenant wrote into a claim must not silence what is told of others."""

    server.answers["apply_claim_status"] = [refused(422, field=field)]
    status.tell(STAGED)
    status.tell(other(STAGED))
    await wait_all_tasks_blocked()
    status.tell(ATTACHED)
    await trio.sleep(3600)

    assert [applied.ref for applied in server.applied] == [OTHER]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_refused_claim_is_told_again_in_its_next_life(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """After unprepare the claim may be another one under the same UID, and is tried anew."""

    server.answers["apply_claim_status"] = [refused(422, field="status.allocation")]
    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.forget(CLAIM.uid)
    status.tell(STAGED)
    await wait_all_tasks_blocked()

    assert len(server.applied) == 1


@pytest.mark.parametrize("status_code", [404, 409])
async def test_claim_that_is_gone_is_dropped(
    status: ClaimStatus, server: ClaimServer, status_code: int, autojump_clock: MockClock
) -> None:
    """Nobody reads the status of a claim that is gone or replaced; it is not tried again."""

    server.answers["apply_claim_status"] = [refused(status_code)]
    status.tell(STAGED)
    await trio.sleep(3600)

    assert server.applied == []


async def test_conflict_of_a_living_claim_is_tried_again(
    status: ClaimStatus, server: ClaimServer, live_claim: None, autojump_clock: MockClock
) -> None:
    """Somebody else changed the claim in the same moment; its status is still due."""

    server.answers["apply_claim_status"] = [refused(409)]
    status.tell(STAGED)
    await trio.sleep(10)

    assert [applied.ref for applied in server.applied] == [CLAIM]


@pytest.fixture
def live_claim(server: ClaimServer) -> None:
    """The claim of the scenes is on the server."""
    server.claims[CLAIM.uid] = Claim(ref=CLAIM, results=())


async def test_silent_server_is_asked_less_and_less(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """Pauses double up to half a minute; the newest state is written when it answers again."""

    server.answers["apply_claim_status"] = [refused(0)] * 7
    status.tell(STAGED)
    await trio.sleep(5)
    status.tell(ATTACHED)
    began = trio.current_time() - 5
    await trio.sleep(600)

    assert [applied.at - began for applied in server.applied] == [
        pytest.approx(1 + 2 + 4 + 8 + 16 + 30 + 30, abs=0.1)
    ]
    assert server.applied[0].words["Ready"] == ("True", "Attached")


async def test_failing_claim_does_not_hold_up_another(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """The server fails over one claim again and again; the next one is written in between."""

    server.answers["apply_claim_status"] = [refused(500), None, refused(500), None]
    began = trio.current_time()
    status.tell(STAGED)
    status.tell(other(STAGED))
    await trio.sleep(60)

    times = [(applied.ref, applied.at - began) for applied in server.applied]
    # One that works in between makes good for one that does not.
    assert times == [(OTHER, 1), (CLAIM, 2)]


async def test_forgotten_while_written_is_told_anew(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """A claim that was undone during its write and prepared again has its own first status."""

    server.gate = trio.Event()
    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.forget(CLAIM.uid)
    server.gate.set()
    await wait_all_tasks_blocked()
    status.tell(STAGED)
    await wait_all_tasks_blocked()

    assert len(server.applied) == 2


async def test_next_life_of_a_claim_is_told_from_the_beginning(
    status: ClaimStatus, server: ClaimServer
) -> None:
    """The server took the entries away with the allocation, so that the same state is news."""

    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.forget(CLAIM.uid)
    status.tell(STAGED)
    await wait_all_tasks_blocked()

    assert len(server.applied) == 2


async def test_forgotten_before_the_write_is_not_told(
    status: ClaimStatus, server: ClaimServer, autojump_clock: MockClock
) -> None:
    """What was not told yet of an undone claim is dropped, and a failure of it not tried again."""

    server.answers["apply_claim_status"] = [refused(0)]
    status.tell(STAGED)
    await wait_all_tasks_blocked()
    status.forget(CLAIM.uid)
    await trio.sleep(3600)

    assert server.applied == []


async def test_claim_without_devices_is_not_told(status: ClaimStatus, server: ClaimServer) -> None:
    """There is no entry to write."""

    status.tell(attrs.evolve(STAGED, devices=()))
    await wait_all_tasks_blocked()

    assert server.applied == []
