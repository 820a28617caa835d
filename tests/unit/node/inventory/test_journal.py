"""What the log says of the inventory, and how often."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from trio.testing import MockClock

from berth.model.device import Device, Exclusion, Nic, NicKind
from berth.model.inventory import Inventory
from berth.node.inventory.journal import REPEAT_S, InventoryJournal

UPLINK = Exclusion(reason="uplink", detail="default route (table main) → ens1f0")
IN_USE = Exclusion(reason="in-use-by-host", detail="the host has 192.0.2.7/24 on it")
CLOSED = Exclusion(reason="not-connected", detail="no NRI")


def _nic(number: int = 1, exclusion: Exclusion | None = None) -> Nic:
    return Nic(
        identity=f"pci:0000:4{number}:00.0",
        name=f"nic-0000-4{number}-00-0",
        kind=NicKind.PCI,
        group="fast",
        ifname=f"ens{number}f0",
        exclusion=exclusion,
    )


def _inventory(*nics: Nic, warnings: tuple[str, ...] = ()) -> Inventory:
    devices = tuple(
        Device(name=nic.name, identity=nic.identity, type="nic", group="fast", attributes={})
        for nic in nics
        if nic.exclusion is None
    )
    return Inventory(nics=nics, devices=devices, warnings=warnings)


@pytest.fixture(name="said")
def _said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def _lines(said: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    lines = [(record.getMessage(), record.__dict__["berth_fields"]) for record in said.records]
    said.clear()
    return lines


async def test_reason_of_each_nic_is_said_once(said: pytest.LogCaptureFixture) -> None:
    """Case 13: with device, link and path; not again while it lasts."""

    journal = InventoryJournal()
    excluded = _inventory(_nic(1, UPLINK), _nic(2))
    journal.tell(excluded)
    first = _lines(said)
    journal.tell(excluded)

    assert first[0] == (
        "NIC not offered",
        {"device": "nic-0000-41-00-0", "link": "ens1f0", "reason": UPLINK},
    )
    assert first[1][0] == "inventory changed"
    assert _lines(said) == []


async def test_reason_that_becomes_another_is_said(said: pytest.LogCaptureFixture) -> None:
    """The default route is gone, and the address is still there."""

    journal = InventoryJournal()
    journal.tell(_inventory(_nic(1, UPLINK)))
    said.clear()
    journal.tell(_inventory(_nic(1, IN_USE)))

    assert [fields["reason"] for _, fields in _lines(said)] == [IN_USE]


@pytest.mark.parametrize("reason", ["not-selected", "returning"])
async def test_reasons_that_are_no_news_are_not_said(
    said: pytest.LogCaptureFixture, reason: str
) -> None:
    """Most NICs of a node are no business of ours, and pods end all day."""

    InventoryJournal().tell(_inventory(_nic(1, Exclusion(reason=reason))))

    assert _lines(said) == []


async def test_reason_that_holds_for_all_is_not_said_for_each(
    said: pytest.LogCaptureFixture,
) -> None:
    """With 250 VFs and a runtime that is away, one line by whoever saw that is enough."""

    journal = InventoryJournal()
    journal.tell(_inventory(_nic(1), _nic(2)))
    said.clear()
    journal.tell(_inventory(_nic(1, CLOSED), _nic(2, CLOSED)), expected=CLOSED)

    assert _lines(said) == [
        (
            "inventory changed",
            {"devices": 0, "come": "-", "gone": "nic-0000-41-00-0,nic-0000-42-00-0"},
        )
    ]


async def test_device_that_comes_is_said(said: pytest.LogCaptureFixture) -> None:
    """With the count of all."""

    journal = InventoryJournal()
    journal.tell(_inventory(_nic(1)))
    said.clear()
    journal.tell(_inventory(_nic(1), _nic(2)))

    assert _lines(said) == [
        ("inventory changed", {"devices": 2, "come": "nic-0000-42-00-0", "gone": "-"})
    ]


async def test_warning_that_lasts_is_said_once(
    said: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Case 19: however many looks find the same, for however long."""

    journal = InventoryJournal()
    warned = _inventory(warnings=("nothing is selected",))
    for _ in range(3):
        journal.tell(warned)
        autojump_clock.jump(REPEAT_S)

    assert _lines(said) == [("inventory", {"finding": "nothing is selected"})]


async def test_warning_that_comes_and_goes_is_said_once_a_minute(
    said: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """A USB NIC with a loose plug does not fill the journal."""

    journal = InventoryJournal()
    warned, well = _inventory(warnings=("nothing is selected",)), _inventory()
    for inventory in (warned, well, warned, well):
        journal.tell(inventory)
    first = _lines(said)
    autojump_clock.jump(REPEAT_S)
    journal.tell(warned)

    assert first == [("inventory", {"finding": "nothing is selected"})]
    assert _lines(said) == first


async def test_reason_that_comes_and_goes_is_said_once_a_minute(
    said: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """A default route that comes and goes each second."""

    journal = InventoryJournal()
    free, excluded = _inventory(_nic(1)), _inventory(_nic(1, UPLINK))
    for inventory in (excluded, free, excluded, free):
        journal.tell(inventory)
    reasons = [line for line in _lines(said) if line[0] == "NIC not offered"]
    autojump_clock.jump(REPEAT_S)
    journal.tell(excluded)

    assert len(reasons) == 1
    assert _lines(said)[0][0] == "NIC not offered"


async def test_other_settings_are_told_from_the_beginning(
    said: pytest.LogCaptureFixture,
) -> None:
    """NW §1.3: which overrides are in force is logged at each start, and after each reload."""

    warned = _inventory(_nic(1, UPLINK), warnings=("uplink_ok lets a NIC be offered",))
    InventoryJournal().tell(warned)
    first = _lines(said)
    InventoryJournal().tell(warned)

    assert _lines(said) == first
    assert [line[0] for line in first] == ["inventory", "NIC not offered"]
