"""What is published of devices by how they are, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.model.device import Device, Exclusion, Taint
from berth.model.inventory import Inventory
from berth.node.health.offered import Offered, judged
from berth.runtime.latest import Latest
from tests.unit.dra.shelf import nic, nics
from tests.unit.node.machine import NAMES, look
from tests.unit.node.peripherals import modem
from tests.unit.node.verdicts import DEGRADED, RULES, SICK, SILENT, UNASKED, WELL, Judge

HELD = Taint(key="berth.dev/held", value="device-plugin", effect="NoSchedule")
FAULT = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")


class Scene:
    """What is seen, how it is, and what is published of it."""

    def __init__(self, *devices: Device) -> None:
        self.seen = Latest(Inventory(devices=devices))
        self.judge = Judge()
        self.inquiry = self.judge.inquiry()
        self.offered = Offered(self.seen, self.inquiry)

    @property
    def taints(self) -> dict[str, list[str]]:
        """Values of the taints that are published, by device."""
        inventory = self.offered.inventory.get()
        assert inventory is not None
        return {one.name: [taint.value for taint in one.taints] for one in inventory.devices}


@pytest.fixture
async def scene(nursery: trio.Nursery) -> AsyncIterator[Scene]:
    """Two devices that nobody has asked yet."""
    made = Scene(*nics(2))
    await nursery.start(made.offered.run)
    await wait_all_tasks_blocked()
    yield made
    nursery.cancel_scope.cancel()


def test_taint_of_health_stands_beside_that_of_the_other_door() -> None:
    """Both say what they say, and everything else stays as it was."""

    device = attrs.evolve(nic(0), taints=(HELD,))
    judge = Judge(nic_0000=SICK, nic_0001=WELL)
    seen = Inventory(devices=(device, nic(1)), warnings=("as before",))

    told = judged(seen, judge.state.get(), RULES)

    assert told == attrs.evolve(seen, devices=(attrs.evolve(device, taints=(HELD, FAULT)), nic(1)))


async def test_nothing_is_published_before_devices_were_asked(scene: Scene) -> None:
    """A restart would else take from all of them for a moment what is known of them."""

    scene.judge.tell({"nic-0000": WELL})
    await wait_all_tasks_blocked()
    assert scene.offered.inventory.get() is None

    scene.judge.tell({"nic-0001": SICK})
    await wait_all_tasks_blocked()
    assert scene.taints == {"nic-0000": [], "nic-0001": ["xid-79"]}


class Marks:
    """Says of every device that it is claimed, once it was decided."""

    def __init__(self) -> None:
        self.decided = trio.Event()
        self.word: Latest[bool] = Latest(True)

    @property
    def news(self) -> tuple[Latest[bool], ...]:
        """What changes it."""
        return (self.word,)

    async def wait_decided(self) -> None:
        """Wait for the test."""
        await self.decided.wait()

    def mark(self, inventory: Inventory) -> Inventory:
        """Mark all."""
        devices = (attrs.evolve(one, claimed=self.word.get()) for one in inventory.devices)
        return attrs.evolve(inventory, devices=tuple(devices))


async def test_nothing_is_published_before_more_is_known_of_devices(nursery: trio.Nursery) -> None:
    """A restart would else write each slice twice; what changes later is written at once."""

    seen, judge, marks = Latest(Inventory(devices=nics(1))), Judge(nic_0000=WELL), Marks()
    offered = Offered(seen, judge.inquiry(), marks=marks)
    await nursery.start(offered.run)
    await wait_all_tasks_blocked()
    assert offered.inventory.get() is None

    marks.decided.set()
    await wait_all_tasks_blocked()
    assert _claimed(offered) == [True]
    marks.word.set(False)
    await wait_all_tasks_blocked()
    assert _claimed(offered) == [False]
    nursery.cancel_scope.cancel()


def _claimed(offered: Offered) -> list[bool]:
    inventory = offered.inventory.get()
    return [one.claimed for one in inventory.devices] if inventory is not None else []


async def test_device_that_says_nothing_holds_nobody_up_for_long(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """After five seconds it is told that nobody knows how it is."""

    scene.judge.tell({"nic-0000": WELL})
    await trio.sleep(6)

    assert scene.taints == {"nic-0000": [], "nic-0001": [UNASKED.reason]}


async def test_both_verdicts_and_devices_are_followed(scene: Scene) -> None:
    """Whichever changes, the newest of both is published, and nothing if neither means anything."""

    scene.judge.tell({"nic-0000": WELL, "nic-0001": WELL, "nic-0002": DEGRADED})
    await wait_all_tasks_blocked()
    version = scene.offered.inventory.version
    scene.judge.tell({"nic-0000": attrs.evolve(WELL, observed_s=7)})
    await wait_all_tasks_blocked()
    assert scene.offered.inventory.version == version

    scene.seen.set(Inventory(devices=nics(3)))
    await wait_all_tasks_blocked()
    assert scene.taints["nic-0002"] == ["xid-63"]
    scene.judge.tell({"nic-0002": WELL, "nic-0001": SICK})
    await wait_all_tasks_blocked()
    assert scene.taints == {"nic-0000": [], "nic-0001": ["xid-79"], "nic-0002": []}


async def test_device_that_comes_later_is_published_when_it_was_asked(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """One write tells that it is there and how it is; who says nothing waits for seconds only."""

    scene.judge.tell({"nic-0000": WELL, "nic-0001": WELL})
    await wait_all_tasks_blocked()
    version = scene.offered.inventory.version
    scene.seen.set(Inventory(devices=nics(4)))
    scene.judge.tell({"nic-0003": SILENT})
    await wait_all_tasks_blocked()
    assert scene.taints == {"nic-0000": [], "nic-0001": [], "nic-0003": [SILENT.reason]}

    scene.judge.tell({"nic-0002": SICK})
    await wait_all_tasks_blocked()
    assert (scene.taints["nic-0002"], scene.offered.inventory.version) == (["xid-79"], version + 2)

    scene.seen.set(Inventory(devices=nics(5)))
    await trio.sleep(4)
    assert "nic-0004" not in scene.taints
    await trio.sleep(2)
    assert scene.taints["nic-0004"] == [UNASKED.reason]


async def test_device_that_has_to_be_asked_anew_stays_as_it_was(
    scene: Scene, autojump_clock: MockClock
) -> None:
    """What a person has cleared is not told as well for the moment until it is asked."""

    scene.judge.tell({"nic-0000": WELL, "nic-0001": SICK})
    await wait_all_tasks_blocked()
    version = scene.offered.inventory.version
    scene.judge.tell({"nic-0000": UNASKED, "nic-0001": UNASKED})
    await trio.sleep(4)
    assert (scene.taints["nic-0001"], scene.offered.inventory.version) == (["xid-79"], version)

    scene.judge.tell({"nic-0001": WELL})
    await trio.sleep(2)
    assert scene.taints == {"nic-0000": [UNASKED.reason], "nic-0001": []}


async def test_what_is_unknown_is_told_at_once_where_nobody_gets_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """By the settings of now, which may be others than at the start."""

    scene = Scene(*nics(1))
    await nursery.start(scene.offered.run)
    scene.judge.tell({"nic-0000": WELL})
    await wait_all_tasks_blocked()
    scene.inquiry.settings.set(attrs.evolve(RULES, unknown_effect="NoSchedule"))
    scene.seen.set(Inventory(devices=nics(2)))
    scene.judge.tell({"nic-0000": UNASKED})
    await wait_all_tasks_blocked()

    assert scene.taints == {"nic-0000": [UNASKED.reason], "nic-0001": [UNASKED.reason]}
    nursery.cancel_scope.cancel()


async def test_reasons_to_end_pods_follow_the_settings(scene: Scene) -> None:
    """Though nothing has changed of any device."""

    scene.judge.tell({"nic-0000": SICK, "nic-0001": WELL})
    await wait_all_tasks_blocked()
    scene.inquiry.settings.set(attrs.evolve(RULES, evict=frozenset({"xid-79"})))
    await wait_all_tasks_blocked()

    inventory = scene.offered.inventory.get()
    assert inventory is not None
    assert [taint.effect for taint in inventory.devices[0].taints] == ["NoExecute"]


def test_fault_of_the_survey_and_of_the_verdict_are_one_taint() -> None:
    """A key stands once; what the survey says counts until a verdict says as much."""

    device = attrs.evolve(nic(0), taints=(attrs.evolve(FAULT, value="restore-failed"),))
    seen = Inventory(devices=(device,))

    for verdict, value in ((WELL, "restore-failed"), (SICK, "xid-79")):
        (told,) = judged(seen, Judge(nic_0000=verdict).state.get(), RULES).devices
        assert [(taint.key, taint.value) for taint in told.taints] == [(FAULT.key, value)]


def test_nic_that_was_not_put_back_is_nobodys() -> None:
    """Where no taint can keep others from it, it leaves the slices."""

    (name, *_) = NAMES
    inventory = look().inventory
    mine = attrs.evolve(
        inventory.nic_by_name[name],
        held_by=("team/ended",),
        exclusion=Exclusion(reason="restore-failed", detail="MTU 1500 was refused"),
    )
    seen = attrs.evolve(inventory, nics=(mine,))

    told = judged(seen, Judge(**{name.replace("-", "_"): SICK}).state.get(), RULES)

    assert not told.device_by_name[name].claimed


def test_device_that_a_claim_has_is_known_as_such() -> None:
    """The other door's has a taint of its own; of a device without a taint nothing is said."""

    mine, theirs = modem(0), modem(1)
    seen = look(
        peripherals=[attrs.evolve(one, held_by=("team/user",)) for one in (mine, theirs, modem(2))]
    ).inventory
    devices = tuple(
        attrs.evolve(one, taints=(HELD,)) if one.name == theirs.name else one
        for one in seen.devices
    )
    judge = Judge(modem_0=SICK, modem_1=SICK, modem_2=WELL, **dict.fromkeys(NAMES, WELL))

    told = judged(attrs.evolve(seen, devices=devices), judge.state.get(), RULES)

    assert {one.name: one.claimed for one in told.devices if one.taints} == {
        "modem-0": True,
        "modem-1": False,
    }
    assert [one.name for one in told.devices if one.claimed] == ["modem-0"]
