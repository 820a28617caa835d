"""What else than its own word decides whether a device that is waited for is ready."""

from __future__ import annotations

import attrs
import pytest

from berth.model.allocation import AllocatedDevice
from berth.model.inventory import Inventory
from berth.model.readiness import UNASKED
from berth.node.claims.standing import standing
from tests.unit.node.claims.waiting import DOWN, UP
from tests.unit.node.machine import FAST, PARENT, look
from tests.unit.node.peripherals import kvm, modem
from tests.unit.node.verdicts import SICK, Judge

DEVICE = AllocatedDevice(request="nic", pool="node/nic", device=FAST)


def held(inventory: Inventory) -> Inventory:
    """The same when somebody has every NIC."""
    nics = tuple(attrs.evolve(nic, held_by=("default/old",)) for nic in inventory.nics)
    return attrs.evolve(inventory, nics=nics)


def reasons(device: AllocatedDevice, inventory: Inventory, **verdicts: object) -> tuple[str, str]:
    """Why it is not ready, and why nobody gets it; empty for nothing."""
    judge = Judge()
    judge.tell({FAST: SICK} if verdicts else {})
    found = standing(device, UP, inventory=inventory, health=judge.state.get(), driver="berth.dev")
    return (
        "" if found.answer.ready else found.answer.reason,
        found.obstacle.reason if found.obstacle is not None else "",
    )


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (look().inventory, ("", "")),
        (look(names=()).inventory, ("", "Gone")),
        (look(excluded={FAST: "uplink"}).inventory, ("", "NotOffered")),
        (look(excluded={FAST: "not-connected"}).inventory, ("NotOffered", "")),
        (look(excluded={FAST: "returning"}).inventory, ("NotOffered", "")),
        (held(look().inventory), ("Held", "")),
    ],
)
def test_nic_by_what_is_seen_of_it(inventory: Inventory, expected: tuple[str, str]) -> None:
    """What may be over in a moment is waited for."""

    assert reasons(DEVICE, inventory) == expected


def test_device_that_several_may_hold_is_not_in_the_way_of_itself() -> None:
    """A parent, and a node with a count, are ready whoever else has a share."""

    both = look(peripherals=(attrs.evolve(kvm(), held_by=("default/old",)),)).inventory
    for name in (PARENT, "kvm-dev-kvm"):
        assert reasons(attrs.evolve(DEVICE, device=name), held(both)) == ("", "")
    alone = look(peripherals=(attrs.evolve(modem(), held_by=("default/old",)),)).inventory
    assert reasons(attrs.evolve(DEVICE, device="modem-0"), alone) == ("Held", "")


def test_sick_device_is_for_those_who_tolerate_it() -> None:
    """Its own reason is told to the others."""

    seen = look().inventory

    assert reasons(DEVICE, seen, sick=True) == ("", "Xid79")
    for key in ("berth.dev/fault", ""):
        tolerant = attrs.evolve(DEVICE, tolerations=(key,))
        assert reasons(tolerant, seen, sick=True) == ("", "")


def test_onlooker_minds_nothing() -> None:
    """Whoever only looks at a device gets it beside its holder."""

    looking = attrs.evolve(DEVICE, admin_access=True)

    assert reasons(looking, held(look().inventory), sick=True) == ("", "")


def test_device_that_was_not_asked_is_not_ready() -> None:
    """Nobody knows."""

    seen, judge = look().inventory, Judge()

    found = standing(DEVICE, None, inventory=seen, health=judge.state.get(), driver="berth.dev")
    assert found.answer == UNASKED
    said = standing(DEVICE, DOWN, inventory=seen, health=judge.state.get(), driver="berth.dev")
    assert said.answer == DOWN
