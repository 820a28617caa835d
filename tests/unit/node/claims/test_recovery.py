"""What a start makes of each record that it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from berth.errors import ClaimError, HostError, StateError
from berth.nic.record import NicRecord, SandboxRef, Stage
from berth.node.claims.recovery import Recovery, holds_of
from berth.node.holders.nicholders import NicHolder, NicHolders
from berth.node.ledger import Hold, Ledger
from berth.node.plugin.allotments import given_shelf
from berth.node.records.record import ClaimRecord
from berth.runtime.threads import Decision
from tests.unit.nic.links import SANDBOX
from tests.unit.node.claimrecords import NIC, RECORD, of_claim
from tests.unit.node.hands import Disk, MemoryRecords
from tests.unit.node.peripherals import given, modem

GONE = attrs.evolve(SANDBOX, netns_path="/nowhere/at/all")


class Told:
    """Does nothing, and remembers what it was asked for.

    Attributes:
        calls: In order, the first word the name.
        missing: What a look into a sandbox says is not there.
        refused: Claims whose attach fails.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.missing: tuple[str, ...] = ()
        self.refused: set[str] = set()

    async def stage(self, record: ClaimRecord, homes: Sequence[int]) -> ClaimRecord:
        """Is never asked for at a start."""
        raise AssertionError(record, homes)

    async def attach(
        self, uids: Iterable[str], sandbox: SandboxRef, *, limit_s: float, decision: Decision
    ) -> tuple[ClaimRecord, ...]:
        """Remember it."""
        assert limit_s > 0
        assert decision.verdict is None
        wanted = tuple(uids)
        self.calls.append(("attach", wanted, sandbox.id))
        if self.refused & set(wanted):
            raise ClaimError("nic-a", "cannot be attached")
        return ()

    async def verify(self, record: NicHolder, sandbox: SandboxRef) -> tuple[str, ...]:
        """Tell what was said to be missing."""
        assert record.devices[0].nic is not None
        assert record.devices[0].nic.sandbox == sandbox
        return self.missing

    async def give_back(self, uid: str, *, sandbox_id: str = "") -> bool:
        """Remember it."""
        self.calls.append(("give_back", uid, sandbox_id))
        return True

    def look_again(self) -> None:
        """Remember it."""
        self.calls.append(("look_again",))


class Files:
    """Files by word.

    Attributes:
        written: Claims whose files were written.
        full: Whether the disk takes none.
    """

    def __init__(self) -> None:
        self.written: list[str] = []
        self.full = False

    async def write(self, record: ClaimRecord) -> None:
        """Remember it."""
        if self.full:
            raise HostError("/var/run/cdi", "cannot write: No space left on device")
        self.written.append(record.claim.uid)

    async def claims(self) -> frozenset[str]:
        """Two claims have files."""
        return frozenset({"u1", "u7"})


class Start:
    """A start over the records given."""

    def __init__(self, tmp_path: Path, *records: ClaimRecord) -> None:
        alive = tmp_path / "netns"
        alive.touch()
        # What is no namespace may be one that is only not seen: in doubt it lives.
        self.alive = attrs.evolve(SANDBOX, netns_path=str(alive))
        self.records = MemoryRecords(Disk())
        for record in records:
            self.records._hold(self.placed(record))
        self.nics = Told()
        self.files = Files()
        self.ledger = Ledger()
        self.recovery = Recovery(
            driver="berth.dev",
            boot_id="boot",
            records=self.records,
            ledger=self.ledger,
            nics=self.nics,
            home=self.nics,
            handout=self.files,
        )

    def placed(self, record: ClaimRecord) -> ClaimRecord:
        """The record with its sandbox at a path that is there."""
        nic = record.devices[0].nic
        if nic is None or nic.sandbox != SANDBOX:
            return record
        return record.with_nic(0, attrs.evolve(nic, sandbox=self.alive))

    def nic(self, uid: str = "u1") -> NicRecord:
        """The claim's NIC as it is recorded now."""
        record = self.records.get(uid)
        assert record is not None
        nic = record.devices[0].nic
        assert nic is not None
        return nic


def at(stage: Stage, **more: Any) -> ClaimRecord:
    """The record with its NIC at a stage."""
    return RECORD.with_nic(0, attrs.evolve(NIC, stage=stage, **more))


async def test_nic_that_is_in_its_living_pod(tmp_path: Path) -> None:
    """It is left alone, whatever the pod made of it; lost files are written again."""

    start = Start(tmp_path, RECORD)
    before = start.records.all()
    await start.recovery.finish()

    assert (start.nics.calls, start.files.written) == ([], ["u1"])
    assert start.records.all() == before


async def test_nic_that_is_missing_in_its_living_pod(tmp_path: Path) -> None:
    """It is brought there, with all that the pod has."""

    start = Start(tmp_path, RECORD, of_claim("u2"), of_claim("u3", consumers=()))
    start.nics.missing = ("nic-a",)
    await start.recovery.finish()

    assert start.nics.calls[0] == ("attach", ("u1", "u2"), "sandbox")


async def test_attach_that_was_interrupted(tmp_path: Path) -> None:
    """It is finished if the sandbox lives."""

    start = Start(tmp_path, at(Stage.ATTACHING))
    await start.recovery.finish()

    assert start.nics.calls == [("attach", ("u1",), "sandbox")]


async def test_return_that_was_interrupted(tmp_path: Path) -> None:
    """It is finished too, even if the sandbox lives: somebody had ended it."""

    start = Start(tmp_path, at(Stage.RETURNING))
    await start.recovery.finish()

    assert start.nics.calls == [("give_back", "u1", "")]


@pytest.mark.parametrize("stage", [Stage.ATTACHING, Stage.ATTACHED])
async def test_sandbox_that_ended_meanwhile(tmp_path: Path, stage: Stage) -> None:
    """Its NIC comes home; the claim stays prepared for the next sandbox."""

    start = Start(tmp_path, at(stage, sandbox=GONE))
    await start.recovery.finish()

    assert start.nics.calls == [("give_back", "u1", "sandbox")]
    assert start.files.written == ["u1"]


@pytest.mark.parametrize("stage", [Stage.STAGED, Stage.HOME])
async def test_claim_that_waits_for_its_pod(tmp_path: Path, stage: Stage) -> None:
    """Nothing is due but its files."""

    start = Start(tmp_path, at(stage, sandbox=None))
    await start.recovery.finish()

    assert (start.nics.calls, start.files.written) == ([], ["u1"])


@pytest.mark.parametrize("more", [{"prepared": False}, {"revoked": True}])
async def test_claim_that_is_not_wanted(tmp_path: Path, more: dict[str, Any]) -> None:
    """A prepare that did not come to its end is undone as an unprepare is."""

    start = Start(tmp_path, attrs.evolve(RECORD, **more))
    await start.recovery.finish()

    assert start.nics.calls == [("give_back", "u1", "")]
    assert start.files.written == []
    assert start.records.stored["u1"].revoked


async def test_claim_of_another_boot(tmp_path: Path) -> None:
    """All is at home by nature; the claim stays until kubelet prepares it anew or undoes it."""

    record = at(Stage.ATTACHED, home_name="berth3", fault="x")
    start = Start(tmp_path, attrs.evolve(record, boot_id="boot-before"))
    await start.recovery.finish()
    nic = start.nic()

    assert (start.nics.calls, start.files.written) == ([], [])
    assert (nic.stage, nic.sandbox, nic.network, nic.pod_index) == (Stage.HOME, None, None, 0)
    assert (nic.home_name, nic.fault, nic.duplicates) == ("", "", ())
    assert start.records.stored["u1"].prepared


async def test_claim_of_another_boot_that_was_being_undone(tmp_path: Path) -> None:
    """Its end goes on."""

    start = Start(tmp_path, attrs.evolve(RECORD, boot_id="boot-before", revoked=True))
    await start.recovery.finish()

    assert start.nics.calls == [("give_back", "u1", "")]
    assert start.nic().stage is Stage.HOME


async def test_claim_that_fails_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told and tried again; the others are settled."""

    start = Start(
        tmp_path,
        at(Stage.ATTACHING),
        of_claim("u2", consumers=(), devices=at(Stage.RETURNING).devices),
    )
    start.nics.refused = {"u1"}
    await start.recovery.finish()

    assert start.nics.calls == [
        ("attach", ("u1",), "sandbox"),
        ("look_again",),
        ("give_back", "u2", ""),
    ]
    assert "not recovered yet, trying again" in caplog.text


async def test_links_are_settled_though_the_disk_takes_no_file(tmp_path: Path) -> None:
    """A full disk keeps no NIC out of its pod."""

    start = Start(tmp_path, at(Stage.ATTACHING))
    start.files.full = True
    await start.recovery.finish()

    assert start.nics.calls == [("attach", ("u1",), "sandbox"), ("look_again",)]


async def test_orphans_are_claims_with_files_and_no_record(tmp_path: Path) -> None:
    """Their devices count as held: a file of ours says that somebody has them."""

    start = Start(tmp_path, RECORD)
    orphans = await start.recovery.orphans()

    assert [(ref.namespace, ref.uid) for ref in orphans] == [("?", "u7")]


class Loaded(MemoryRecords):
    """Records that were read from a disk with a bad file on it."""

    async def load(self) -> tuple[str, ...]:
        """Tell of the bad file."""
        self._hold(RECORD)
        return ("/state/claims/bad.json: is no JSON; kept as /state/claims/bad.json.bad-1",)


async def test_load_enters_holds_and_tells_bad_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a record stands for is held before anything is offered."""

    start = Start(tmp_path)
    start.recovery._records = Loaded(Disk())
    await start.recovery.load()

    assert start.ledger.holds() == holds_of(RECORD)
    assert "record set aside" in caplog.text
    start.recovery._driver = "other.dev"
    with pytest.raises(StateError) as caught:
        await start.recovery.load()
    assert str(caught.value) == (
        "[dra] driver: is other.dev, claim team/claim has devices under berth.dev: "
        "the name cannot change while claims have devices; "
        'set it back to "berth.dev" until they are gone'
    )


def test_holds_of_a_record() -> None:
    """One per NIC by its key of now; a child's by its share; admin access holds nothing."""

    moved = RECORD.with_nic(0, attrs.evolve(NIC, identity="link:boot:9"))
    shared = attrs.evolve(
        RECORD.devices[0],
        result=attrs.evolve(RECORD.devices[0].result, share_id="share-1"),
        nic=attrs.evolve(NIC, parent_index=3),
        slots=2,
        slot_limit=8,
    )

    assert holds_of(moved) == (Hold(key="link:boot:9", device="nic-a", holder=RECORD.claim),)
    assert holds_of(attrs.evolve(RECORD, devices=(shared,))) == (
        Hold(
            key="link:boot:3",
            device="nic-a",
            holder=RECORD.claim,
            share="share-1",
            slots=2,
            limit=8,
        ),
    )


async def test_lent_and_planned_nics_in_another_boot(tmp_path: Path) -> None:
    """What berth moves has to be planned anew; what a CNI plugin moves stays lent."""

    shelf = given_shelf(tmp_path / "ledger")
    await shelf.load()
    for number, stage in enumerate((Stage.ATTACHED, Stage.LENT)):
        one = given(modem(number), uid=f"g{number}")
        nic = attrs.evolve(NIC, identity=modem(number).identity, stage=stage, boot_id="before")
        await shelf.put(one.with_nic(0, nic))
    start = Start(tmp_path)
    recovery = Recovery(
        driver="berth.dev",
        boot_id="boot",
        records=start.records,
        ledger=start.ledger,
        nics=start.nics,
        home=start.nics,
        handout=start.files,
        holders=NicHolders(start.records, shelf),
    )
    await recovery.finish()

    planned, lent = (one.nics[0] for one in shelf.all())
    assert planned is not None
    assert lent is not None
    assert (planned.stage, planned.originals, planned.boot_id) == (Stage.RESERVED, None, "boot")
    assert (lent.stage, lent.originals, lent.boot_id) == (Stage.LENT, None, "boot")
    assert start.nics.calls == []
