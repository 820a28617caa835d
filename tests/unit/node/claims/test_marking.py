"""How devices are offered whose pods wait for them to be ready."""

from __future__ import annotations

import attrs

from berth.config.bind import Ungated
from berth.model.inventory import Inventory
from berth.node.claims.marking import left_out, marked
from berth.readiness.demands import Demands
from tests.unit.node.claims.waiting import DEMANDS, FAILED, LINK_UP, READY
from tests.unit.node.machine import FAST, OTHER, PARENT, look

SEEN = look().inventory
STRICT = Demands(groups={("nic", "fast"): attrs.evolve(LINK_UP, ungated=Ungated.LEAVE_OUT)})


def told(inventory: Inventory) -> dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]]:
    """What is told of each device's conditions."""
    return {one.name: (one.binding, one.failure, one.only_awaited) for one in inventory.devices}


def test_devices_of_groups_that_wait_carry_conditions() -> None:
    """Both sorts, since a server takes neither alone; others carry none."""

    found = marked(SEEN, DEMANDS, rests=(), able=True, driver="berth.dev")

    asked = ((READY,), (FAILED,), False)
    assert told(found) == {FAST: asked, OTHER: asked, PARENT: ((), (), False)}
    strict = marked(SEEN, STRICT, rests=(), able=True, driver="berth.dev")
    assert told(strict)[FAST] == ((READY,), (FAILED,), True)


def test_nothing_is_promised_that_nobody_would_keep() -> None:
    """Without a word from the daemon such a pod would never be bound."""

    assert marked(SEEN, DEMANDS, rests=(), able=False, driver="berth.dev") is SEEN


def test_device_that_must_not_be_without_is_out_at_once() -> None:
    """And not only when discovery has heard of it: it would be offered unasked until then."""

    found = marked(SEEN, STRICT, rests=(), able=False, driver="berth.dev", out={OTHER})

    assert OTHER not in {one.name for one in found.devices}
    assert len(found.devices) == len(SEEN.devices) - 1


def test_device_that_was_given_up_is_kept_from_claims() -> None:
    """By a taint of its own, whether conditions are told or not."""

    for able in (True, False):
        found = marked(SEEN, DEMANDS, rests={OTHER}, able=able, driver="berth.dev")
        assert {
            one.name: [(taint.key, taint.effect) for taint in one.taints]
            for one in found.devices
            if one.taints
        } == {OTHER: [("berth.dev/not-ready", "NoSchedule")]}
    found = marked(SEEN, Demands(), rests={OTHER}, able=True, driver="berth.dev")
    assert not any(one.taints for one in found.devices), "its group asks nothing any more"


def test_only_free_devices_are_left_out_and_only_where_it_is_wished() -> None:
    """The scheduler must not lose sight of what a claim has."""

    nics = tuple(
        attrs.evolve(nic, held_by=("default/a",)) if nic.name == OTHER else nic for nic in SEEN.nics
    )
    seen = attrs.evolve(SEEN, nics=nics)

    assert left_out(seen, DEMANDS) == {}
    assert list(left_out(seen, STRICT)) == [FAST]
