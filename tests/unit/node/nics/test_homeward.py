"""When a NIC that is not home is tried again: by events where they help, else with pauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from berth.errors import HostError
from berth.nic import homecoming
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord, Stage
from berth.node.holders.nicholders import NicHolders
from berth.node.nics import homeward
from berth.node.nics.homenames import HomeNames
from berth.node.nics.homeward import SWEEP_S, Homeward
from berth.node.records.record import ClaimRecord
from tests.unit.node.claimrecords import NIC, RECORD, of_claim
from tests.unit.node.hands import Disk, MemoryRecords

REVOKED = attrs.evolve(RECORD, revoked=True)


class Scene:
    """A node on which nothing moves but by word.

    Attributes:
        tries: When each NIC was tried to be brought home, on the clock.
        fault: What keeps NICs from being home; empty lets them come.
        seen: Whether their links are seen at all.
        ended: Devices whose pod has ended.
        looks: When it was looked which pods have ended.
        gone: Whether the device is not in the machine any more.
        blind: Whether that cannot be told.
    """

    def __init__(self) -> None:
        self.records = MemoryRecords(Disk())
        self.tries: list[float] = []
        self.fault = ""
        self.seen = True
        self.ended: set[str] = set()
        self.looks: list[float] = []
        self.gone = False
        self.blind = False
        self.renumbered: list[tuple[str, str, str]] = []
        self.identity = NIC.identity
        self.holders = NicHolders(self.records)
        self.homeward = Homeward(
            self.holders,
            HomeNames(self.holders),
            exists=self.exists,
            renumbered=lambda *words: self.renumbered.append(words),
        )

    def exists(self, _identity: str) -> bool:
        """Stand in for the look at the machine."""
        if self.blind:
            raise HostError("/sys/bus/pci", "cannot be read")
        return not self.gone

    def bring_home(self, nic: NicRecord, **_more: Any) -> Homecoming:
        """Stand in for the move."""
        self.tries.append(trio.current_time())
        if self.fault:
            back = attrs.evolve(nic, stage=Stage.RETURNING, fault=self.fault)
            return Homecoming(record=back, seen=self.seen)
        back = attrs.evolve(nic, stage=Stage.HOME, sandbox=None, identity=self.identity)
        return Homecoming(record=back)

    def find_ended(self, nics: Sequence[NicRecord], **_more: Any) -> tuple[bool, ...]:
        """Stand in for the look at pods."""
        self.looks.append(trio.current_time())
        return tuple(nic.device in self.ended for nic in nics)

    def stage(self, uid: str = "u1") -> Stage:
        """Where the claim's NIC is."""
        record = self.records.get(uid)
        assert record is not None
        nic = record.devices[0].nic
        assert nic is not None
        return nic.stage


@pytest.fixture(name="scene")
async def _scene(monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery) -> Scene:
    """A node whose return task runs, and does nothing in threads, for which no clock jumps."""
    scene = Scene()

    async def inline(_kind: str, work: Callable[..., Any], *args: Any, **more: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return work(*args, **more)

    monkeypatch.setattr(homeward, "run_in_thread", inline)
    monkeypatch.setattr(homecoming, "bring_home", scene.bring_home)
    monkeypatch.setattr(homecoming, "find_ended", scene.find_ended)
    await nursery.start(scene.homeward.run)
    return scene


async def put(scene: Scene, record: ClaimRecord) -> None:
    """Hold a record, and say that something happened."""
    await scene.records.put(record)
    scene.homeward.look_again()


async def test_refused_return_is_tried_with_growing_pauses(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Events make no difference to a NIC that is there and does not let itself be put back."""

    scene.fault = "mtu is not restored"
    await put(scene, REVOKED)
    for _ in range(100):
        await trio.sleep(1.0)
        scene.homeward.look_again()
    pauses = [b - a for a, b in zip(scene.tries, scene.tries[1:], strict=False)]

    assert [round(pause, 1) for pause in pauses] == [0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    scene.fault = ""
    await trio.sleep(40.0)
    assert scene.stage() is Stage.HOME
    assert scene.homeward._retries == {}


async def test_link_that_is_not_seen_is_looked_for_at_each_event(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """Its arrival is an event; between events it is looked for with pauses."""

    scene.fault, scene.seen = "its link is not seen at home yet", False
    await put(scene, REVOKED)
    await trio.sleep(0.1)
    assert len(scene.tries) == 1
    for count in range(2, 6):
        scene.homeward.look_again()
        await trio.sleep(0.02)
        assert len(scene.tries) == count
    await trio.sleep(100.0)
    assert len(scene.tries) < 12
    scene.fault = ""
    scene.homeward.look_again()
    await trio.sleep(0.1)

    assert scene.stage() is Stage.HOME


async def test_device_that_is_gone_for_good(
    scene: Scene, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its record is closed as lost, with one warning, and nobody looks for it any more."""

    scene.fault, scene.seen, scene.gone = "its link is not seen at home yet", False, True
    await put(scene, REVOKED)
    await trio.sleep(1000.0)

    assert scene.stage() is Stage.LOST
    assert len(scene.tries) == 1
    assert caplog.text.count("NIC lost") == 1


async def test_device_of_which_nothing_can_be_told(scene: Scene, autojump_clock: MockClock) -> None:
    """A machine that cannot be read is no reason to give a device up."""

    scene.fault, scene.blind = "its link is not seen at home yet", True
    await put(scene, REVOKED)
    await trio.sleep(10.0)
    assert scene.stage() is Stage.RETURNING
    scene.fault = ""
    await trio.sleep(30.0)

    assert scene.stage() is Stage.HOME


async def test_same_fault_is_told_once(
    scene: Scene, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A line when the reason changes, not one for each try."""

    scene.fault = "mtu is not restored"
    await put(scene, REVOKED)
    await trio.sleep(100.0)
    scene.fault = "name is not restored"
    await trio.sleep(100.0)

    assert caplog.text.count("NIC not home yet, trying again") == 2


async def test_nothing_away_means_no_wake_up(scene: Scene, autojump_clock: MockClock) -> None:
    """Without NICs in pods there is no sweep."""

    await put(scene, RECORD.with_nic(0, attrs.evolve(NIC, stage=Stage.STAGED)))
    await trio.sleep(1.0)
    looks = len(scene.looks)
    await trio.sleep(10_000.0)

    assert len(scene.looks) == looks


async def test_sweep_while_something_is_away(scene: Scene, autojump_clock: MockClock) -> None:
    """Once a minute it is looked whether the pods live, from the moment that one is there."""

    await trio.sleep(1000.0)
    await scene.records.put(RECORD)
    scene.homeward.mind()
    await trio.sleep(10 * SWEEP_S + 1.0)
    assert 10 <= len(scene.looks) <= 12
    assert scene.stage() is Stage.ATTACHED
    scene.ended = {NIC.device}
    await trio.sleep(SWEEP_S)

    assert scene.stage() is Stage.HOME


async def test_claim_in_work_holds_up_no_other(scene: Scene, autojump_clock: MockClock) -> None:
    """It is passed over, and looked at again each second until its lock is free."""

    await scene.records.put(attrs.evolve(of_claim("u2"), revoked=True))
    async with scene.records.lock("u1"):
        await put(scene, REVOKED)
        await trio.sleep(10.0)
        assert (scene.stage("u1"), scene.stage("u2")) == (Stage.ATTACHED, Stage.HOME)
        assert len(scene.looks) < 30
    await trio.sleep(1.1)

    assert scene.stage("u1") is Stage.HOME


async def test_what_is_true_under_the_lock_counts(scene: Scene, autojump_clock: MockClock) -> None:
    """A claim that was prepared anew while the task waited keeps its NIC."""

    async with scene.records.lock("u1"):
        await put(scene, REVOKED)
        await trio.sleep(0.1)
        await scene.records.put(RECORD)
    await trio.sleep(100.0)

    assert (scene.stage(), scene.tries) == (Stage.ATTACHED, [])


async def test_pods_that_cannot_be_looked_at(
    scene: Scene,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A host whose links cannot be read is no reason to take anything away, nor to stop."""

    def refuse(_nics: Sequence[NicRecord], **_more: Any) -> tuple[bool, ...]:
        raise HostError("host", "Too many open files")

    monkeypatch.setattr(homecoming, "find_ended", refuse)
    await put(scene, RECORD)
    await trio.sleep(2 * SWEEP_S)
    assert scene.stage() is Stage.ATTACHED
    assert "NICs in pods not looked after, trying again" in caplog.text
    monkeypatch.setattr(homecoming, "find_ended", lambda nics, **_: [True] * len(nics))
    await trio.sleep(2 * SWEEP_S)

    assert scene.stage() is Stage.HOME


@pytest.mark.parametrize(
    ("stage", "belongs"),
    [
        (Stage.RESERVED, False),
        (Stage.STAGED, False),
        (Stage.ATTACHING, False),
        (Stage.ATTACHED, False),
        (Stage.RETURNING, True),
        (Stage.HOME, False),
        (Stage.LOST, False),
    ],
)
async def test_what_belongs_home(
    scene: Scene, autojump_clock: MockClock, stage: Stage, *, belongs: bool
) -> None:
    """Of a wanted claim only what is on its way; of one that nobody wants whatever was touched."""

    record = RECORD.with_nic(0, attrs.evolve(NIC, stage=stage))
    await put(scene, record)
    await trio.sleep(0.1)
    assert bool(scene.tries) is belongs
    for unwanted in (attrs.evolve(record, revoked=True), attrs.evolve(record, prepared=False)):
        scene.tries.clear()
        await put(scene, unwanted)
        await trio.sleep(0.1)
        assert bool(scene.tries) is (stage not in {Stage.HOME, Stage.LOST})


async def test_home_under_another_index(scene: Scene, autojump_clock: MockClock) -> None:
    """The ledger is told before the record says so."""

    scene.identity = "link:boot:9"
    await put(scene, REVOKED)
    await trio.sleep(0.1)
    record = scene.records.get("u1")

    assert scene.renumbered == [("u1", NIC.identity, "link:boot:9")]
    assert record is not None
    assert record.devices[0].identity == "link:boot:9"
