"""VFs whose driver is bound anew on their way home: step by step, and after a death at any step."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from berth.host.driverbind import DriverCalls
from berth.nic.homecoming import Homecoming
from berth.nic.record import NicRecord, ScrubStep, Stage
from berth.node.holders.nicholders import NicHolders
from berth.node.nics import scrubs
from berth.node.nics.scrubs import Scrubs
from berth.node.records.record import ClaimRecord
from tests.unit.node.claimrecords import NIC, ORIGINALS, RECORD
from tests.unit.node.hands import Disk, MemoryRecords
from tests.vfio_tree import NIC as ADDRESS
from tests.vfio_tree import VfioMachine

DRIVER = "mlx5_core"
VF = attrs.evolve(
    NIC,
    identity=f"pci:{ADDRESS}",
    parent_device=ADDRESS,
    originals=attrs.evolve(ORIGINALS, driver=DRIVER),
    stage=Stage.RETURNING,
    scrub=True,
)
ANEW = [(ADDRESS, ""), (ADDRESS, DRIVER)]


class Scene:
    """A machine of files with one VF, and a claim that had it in a pod.

    Attributes:
        changed: Which driver it got, each time.
        tries: The VF's driver whenever its link was to be brought home.
        absent: How often more its link is not seen.
        fault: What keeps it from being home.
    """

    def __init__(self, root: Path) -> None:
        self.changed: list[tuple[str, str]] = []
        self.machine = VfioMachine(root, changed=lambda *words: self.changed.append(words))
        self.disk = Disk()
        self.records = MemoryRecords(self.disk)
        self.tries: list[str] = []
        self.absent = 0
        self.fault = ""
        self.scrubs = Scrubs(
            NicHolders(self.records),
            bring_home=self.bring_home,
            calls=DriverCalls(self.machine.drivers),
        )

    async def bring_home(self, nic: NicRecord) -> Homecoming:
        """Stand in for the move."""
        self.tries.append(self.machine.state(ADDRESS)[0])
        away = attrs.evolve(nic, stage=Stage.RETURNING, fault=self.fault or "not seen")
        if self.fault:
            return Homecoming(record=away)
        if self.absent or not self.tries[-1]:
            self.absent -= 1
            return Homecoming(record=away, seen=False)
        return Homecoming(record=attrs.evolve(nic, stage=Stage.HOME, sandbox=None, fault=""))

    async def bring(self, nic: NicRecord = VF) -> NicRecord:
        """Bring it home, as the holder of its record's lock does."""
        return (await self.scrubs.bring(holder(nic), 0, nic)).record

    def on_disk(self) -> NicRecord:
        """It as a start after a death finds it."""
        record = self.records.get("u1")
        assert record is not None
        nic = record.devices[0].nic
        assert nic is not None
        return nic


def holder(nic: NicRecord) -> ClaimRecord:
    """A claim that has it."""
    return RECORD.with_nic(0, nic)


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "machine")


async def test_vf_from_a_pod_is_bound_anew_and_put_back_again(scene: Scene) -> None:
    """Home, without its driver, with it, home: each step was written down before."""

    back = await scene.bring()

    assert (back.stage, back.scrub_step, back.fault) == (Stage.HOME, None, "")
    assert scene.changed == ANEW
    assert scene.tries == [DRIVER, DRIVER]
    assert scene.on_disk().scrub_step is ScrubStep.PROBE
    assert scene.on_disk().stage is Stage.RETURNING


@pytest.mark.parametrize(
    "nic",
    [
        attrs.evolve(VF, scrub=False),
        attrs.evolve(VF, sandbox=None),
    ],
)
async def test_nic_that_is_not_scrubbed_comes_home_as_it_is(scene: Scene, nic: NicRecord) -> None:
    """Its group does not ask for it, or no pod had it: its driver stays."""

    back = await scene.bring(nic)

    assert back.stage is Stage.HOME
    assert scene.changed == []
    assert scene.disk.writes == 0


async def test_vf_that_is_not_home_keeps_its_driver(scene: Scene) -> None:
    """First it has to be where it can be looked at."""

    scene.fault = "mtu is not restored"
    back = await scene.bring()

    assert (back.stage, back.scrub_step, scene.changed) == (Stage.RETURNING, None, [])


@pytest.mark.parametrize("room", [0, 1])
async def test_vf_when_the_disk_is_full(scene: Scene, room: int) -> None:
    """No step is done that is not written down; the next try ends it."""

    scene.disk.room = room
    back = await scene.bring()
    assert back.stage is Stage.RETURNING
    assert "No space left on device" in back.fault
    assert scene.changed == ANEW[:room]
    scene.disk.room = 100
    back = await scene.bring(back)

    assert (back.stage, back.scrub_step) == (Stage.HOME, None)
    assert scene.changed == ANEW
    assert scene.machine.state(ADDRESS)[0] == DRIVER


@pytest.mark.parametrize("step", list(ScrubStep))
@pytest.mark.parametrize("bound", [True, False])
async def test_vf_after_a_death_at_any_step(scene: Scene, step: ScrubStep, *, bound: bool) -> None:
    """Whatever was done of the step that stands in the record, the VF has its driver in the end."""

    if not bound:
        scene.machine.drivers.unbind(ADDRESS, DRIVER)
    back = await scene.bring(attrs.evolve(VF, sandbox=None, scrub_step=step))

    assert (back.stage, back.scrub_step) == (Stage.HOME, None)
    assert scene.machine.state(ADDRESS)[0] == DRIVER
    assert scene.changed == ([] if bound and step is ScrubStep.PROBE else ANEW)


async def test_vf_that_another_driver_has_is_left_to_it(scene: Scene) -> None:
    """Who bound it to another driver meanwhile wants it so."""

    scene.machine.drivers.unbind(ADDRESS, DRIVER)
    scene.machine.drivers.set_override(ADDRESS, "vfio-pci")
    scene.machine.drivers.probe(ADDRESS)
    scene.changed.clear()
    await scene.bring()

    assert scene.changed == []


async def test_link_that_comes_late_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a while; then another try is due, which binds nothing a third time."""

    monkeypatch.setattr(scrubs, "LINK_S", 0.3)
    nic = attrs.evolve(VF, sandbox=None, scrub_step=ScrubStep.PROBE)
    scene.absent = 1
    assert (await scene.bring(nic)).stage is Stage.HOME
    scene.absent = 1000
    back = await scene.bring(nic)

    assert (back.stage, back.scrub_step, back.fault) == (
        Stage.RETURNING,
        ScrubStep.PROBE,
        "not seen",
    )
    assert scene.changed == []


async def test_vf_that_is_gone_is_told(scene: Scene) -> None:
    """Its PF has no VFs any more: what is left is to close its record."""

    scene.machine.remove(ADDRESS)
    back = await scene.bring(attrs.evolve(VF, sandbox=None, scrub_step=ScrubStep.UNBIND))

    assert back.stage is Stage.RETURNING
    assert back.fault == f"{VF.device}: is not in the machine any more ({ADDRESS})"
