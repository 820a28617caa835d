"""What is published of devices by how they are, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.model.device import Device, Taint
from berth.model.inventory import Inventory
from berth.node.offered import Offered, judged
from berth.runtime.latest import Latest
from tests.unit.dra.shelf import nic, nics
from tests.unit.node.machine import NAMES, look
from tests.unit.node.peripherals import modem
from tests.unit.node.verdicts import DEGRADED, RULES, SICK, UNASKED, WELL, Judge

HELD = Taint(key="berth.dev/held", value="device-plugin", effect="NoSchedule")
FAULT = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")


class Scene:
    """What is seen, how it is, and what is published of it."""

    def __init__(self, *devices: Device) -> None:
        self.seen = Latest(Inventory(devices=devices))
        self.judge = Judge()
        self.offered = Offered(self.seen, self.judge.inquiry())

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
