"""Who has a device, from the records of claims."""

from __future__ import annotations

from berth.node.holders.holding import holdings
from tests.unit.node.holds import ORIGINALS, child, held, record, seen_only

NIC = "pci:0000:41:00.0"


def test_nobody_holds_what_no_record_names() -> None:
    """Without records, nothing is held."""

    assert holdings([]) == {}


def test_claim_holds_a_nic_alone() -> None:
    """Name, group and originals are those of its record."""

    holding = holdings([record("a", held(NIC, "nic-0000-41-00-0"))])[NIC]

    assert (holding.name, holding.group) == ("nic-0000-41-00-0", "fast")
    assert (holding.is_parent, holding.is_living) == (False, True)
    assert (holding.holders, holding.originals, holding.fault) == (("team/a",), ORIGINALS, "")


def test_claims_share_a_parent() -> None:
    """Each with its slots; one that is undone gives none out any more."""

    records = [
        record("a", child(NIC, "parent-0000-41-00-0")),
        record("b", child(NIC, "parent-0000-41-00-0"), child(NIC, "parent-0000-41-00-0")),
        record("c", child(NIC, "parent-0000-41-00-0"), revoked=True),
    ]
    holding = holdings(records)[NIC]

    assert (holding.is_parent, holding.is_living, holding.slots) == (True, True, 3)
    assert holding.holders == ("team/a", "team/b", "team/b", "team/c")


def test_living_claim_comes_before_one_that_is_undone() -> None:
    """Its record says what the device is called now."""

    old = record("old", held(NIC, "nic-old", group="old"), revoked=True)
    new = record("new", held(NIC, "nic-new", group="new"))

    assert holdings([old, new])[NIC].name == "nic-new"
    assert holdings([old, new])[NIC].is_living


def test_revoked_claim_still_has_its_device() -> None:
    """Until it is home; why it is not, is told."""

    fault = "MTU 1500 was refused"
    revoked = record("a", held(NIC, "nic-0000-41-00-0", fault=fault), revoked=True)
    holding = holdings([revoked])[NIC]

    assert not holding.is_living
    assert holding.fault == fault


def test_admin_access_holds_nothing() -> None:
    """It only looks."""

    assert holdings([record("a", seen_only(NIC, "nic-0000-41-00-0"))]) == {}
