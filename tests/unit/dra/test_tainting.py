"""Taints on their way to a server: ours are put back, those of others stay, times are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from berth.dra.tainting import TAINTS_LIMIT, foreign_taints, ruled, untainted, without_notes
from berth.kube.taintrules import TaintRule
from berth.model.device import Device, Taint
from tests.unit.dra.shelf import Shelf, nic, nics

FAULT = Taint(key="berth.dev/fault", value="xid-79", effect="NoSchedule")
NOTE = Taint(key="berth.dev/degraded", value="xid-63", effect="None")
FOREIGN: Mapping[str, Any] = {
    "key": "ops.example/repair",
    "value": "tuesday",
    "effect": "NoSchedule",
    "timeAdded": "2026-01-01T00:00:00Z",
}


def sick(number: int, *taints: Taint) -> Device:
    """A device with taints."""
    return attrs.evolve(nic(number), taints=taints or (FAULT,))


def edit(shelf: Shelf, name: str, taints: Sequence[Mapping[str, Any]]) -> None:
    """Let another hand give a device these taints."""
    for key, item in shelf.slices.items():
        devices = tuple(
            {**one, "taints": list(taints)} if one["name"] == name else one for one in item.devices
        )
        shelf.slices[key] = attrs.evolve(item, devices=devices)


def taints(shelf: Shelf, name: str) -> list[Mapping[str, Any]]:
    """What the server has on a device."""
    return [
        taint
        for item in shelf.slices.values()
        for one in item.devices
        if one["name"] == name
        for taint in one.get("taints", ())
    ]


def stamp(shelf: Shelf) -> None:
    """Let the server give its time to the taints that have none."""
    for key, item in shelf.slices.items():
        devices = tuple(
            {
                **one,
                "taints": [{"timeAdded": f"of {key}", **taint} for taint in one.get("taints", ())],
            }
            for one in item.devices
        )
        shelf.slices[key] = attrs.evolve(item, devices=devices)


def test_notes_are_known_by_their_effect() -> None:
    """What keeps somebody away is told to every server."""

    both = sick(0, FAULT, NOTE)

    assert without_notes(both) == sick(0)
    assert without_notes(sick(0)) == sick(0)
    assert untainted(sick(0, NOTE)) == nic(0)


def test_device_that_no_taint_can_guard_is_offered_to_nobody_else() -> None:
    """Whoever has it keeps it; the scheduler's record of it needs the device in its slice."""

    held = attrs.evolve(sick(0), claimed=True)

    assert untainted(sick(0)) is None
    assert untainted(held) == attrs.evolve(nic(0), claimed=True)


def test_taint_of_ours_that_was_taken_away_comes_back() -> None:
    """By one write, in the same generation."""

    shelf = Shelf()
    shelf.sync((sick(0), nic(1)))
    edit(shelf, "nic-0000", [])

    (write,) = shelf.sync((sick(0), nic(1)))

    assert write.slice.generation == 1
    assert [one["key"] for one in taints(shelf, "nic-0000")] == ["berth.dev/fault"]


@pytest.mark.parametrize(
    "edited",
    [
        {"key": "berth.dev/fault", "value": "xid-79", "effect": "None"},
        {"key": "berth.dev/fault", "value": "fine", "effect": "NoSchedule"},
        {"key": "berth.dev/mine", "value": "", "effect": "NoExecute"},
    ],
)
def test_taint_of_ours_that_was_edited_is_put_back(edited: Mapping[str, str]) -> None:
    """Our domain is ours, whoever writes into it."""

    shelf = Shelf()
    shelf.sync((sick(0),))
    edit(shelf, "nic-0000", [edited])
    shelf.sync((sick(0),))

    assert taints(shelf, "nic-0000") == [
        {"key": "berth.dev/fault", "value": "xid-79", "effect": "NoSchedule"}
    ]


def test_taint_of_another_is_left_alone() -> None:
    """Nobody fights over it: no write for it, not by another process either."""

    shelf = Shelf()
    shelf.sync(nics(129))
    edit(shelf, "nic-0000", [FOREIGN])
    edit(shelf, "nic-0100", [FOREIGN])
    (_, remark) = foreign_taints(shelf.slices.values())
    assert remark == (
        "another hand keeps claims from nic-0100 by a taint in its slice: "
        "ops.example/repair=tuesday:NoSchedule"
    )

    assert shelf.sync(nics(129)) == []
    shelf.editions.clear()
    assert shelf.sync(nics(129)) == []


def test_rules_of_the_cluster_are_told_by_what_they_hit() -> None:
    """Each once, with the devices that it is for; those of others are nobody's business here."""

    shelf = Shelf()
    shelf.sync(nics(8))
    taint = {key: FOREIGN[key] for key in ("key", "value", "effect")}

    def rule(name: str, **selector: str) -> TaintRule:
        return TaintRule(name=name, taint=taint, **selector)

    told = ruled(
        (
            rule("one", driver="berth.dev", pool="worker-7/nic", device="nic-0003"),
            rule("all"),
            rule("another-driver", driver="other.dev"),
            rule("another-pool", pool="worker-8/nic", device="nic-0003"),
        ),
        shelf.slices.values(),
    )

    some = "nic-0000, nic-0001, nic-0002, nic-0003, nic-0004 and 3 more"
    assert told == tuple(
        f"DeviceTaintRule {name} taints {names}: ops.example/repair=tuesday:NoSchedule"
        for name, names in (("one", "nic-0003"), ("all", some))
    )


def test_taint_of_another_stays_when_its_device_is_written() -> None:
    """Beside ours, with the time that it had."""

    shelf = Shelf()
    shelf.sync(nics(2))
    edit(shelf, "nic-0000", [FOREIGN])

    shelf.sync((sick(0), nic(1)))
    assert [one["key"] for one in taints(shelf, "nic-0000")] == [
        "berth.dev/fault",
        "ops.example/repair",
    ]
    shelf.sync(nics(2))
    assert taints(shelf, "nic-0000") == [FOREIGN]


def test_taints_of_others_never_make_a_device_impossible() -> None:
    """Ours come first; what does not fit beside them is left out."""

    shelf = Shelf()
    shelf.sync(nics(1))
    many = [{**FOREIGN, "key": f"ops.example/{number}"} for number in range(TAINTS_LIMIT)]
    edit(shelf, "nic-0000", many)
    shelf.sync((sick(0),))

    found = taints(shelf, "nic-0000")
    assert len(found) == TAINTS_LIMIT
    assert found[0]["key"] == "berth.dev/fault"


def test_time_of_a_taint_stays_while_the_taint_does() -> None:
    """A write for another reason does not begin an eviction delay anew; another reason does."""

    shelf = Shelf()
    shelf.sync((sick(0), nic(1)))
    stamp(shelf)
    (before,) = taints(shelf, "nic-0000")

    shelf.sync((sick(0), nic(1, mtu=9000)))
    assert taints(shelf, "nic-0000") == [before]
    shelf.sync((sick(0, attrs.evolve(FAULT, value="lost")), nic(1, mtu=9000)))
    assert "timeAdded" not in taints(shelf, "nic-0000")[0]


def test_time_of_a_taint_goes_with_its_device_into_another_slice() -> None:
    """A pool that is packed afresh says nothing new of who was sick before."""

    shelf = Shelf()
    late = attrs.evolve(sick(70), name="nic-0070")
    shelf.sync((*nics(64), late))
    stamp(shelf)
    (before,) = taints(shelf, "nic-0070")

    shelf.sync((*nics(32), late))

    assert shelf.read("worker-7/nic") == (*(one.name for one in nics(32)), "nic-0070")
    assert taints(shelf, "nic-0070") == [before]
