"""Whether a claim may have its devices now, must wait, or is refused."""

from __future__ import annotations

import re

import attrs
import pytest

from berth.errors import ClaimError
from berth.node.claims.admission import CLOSED, Admitted, Waiting, admit
from berth.node.ledger import Hold, Ledger
from tests.unit.node.machine import (
    FAST,
    OTHER,
    PARENT,
    SLOTS,
    claim,
    identity_of,
    look,
    pod,
    result,
    share,
)


def held(by: str, *, device: str = FAST, number: int | None = None, slots: int = 1) -> Ledger:
    """A ledger in which a claim has a device, or a share of it."""
    ledger = Ledger()
    ledger.take(
        [
            Hold(
                key=identity_of(device),
                device=device,
                holder=claim(name=by).ref,
                share=share(number).share_id if number is not None else None,
                slots=slots,
                limit=SLOTS,
            )
        ]
    )
    return ledger


def test_free_devices_are_admitted_with_facts_and_holds() -> None:
    """Whoever may have everything gets facts in the order of the results, and what to take."""

    wanted = claim(result(OTHER, "b"), result(FAST, "a"), share(1))

    admitted = admit(wanted, look(), Ledger())

    assert isinstance(admitted, Admitted)
    assert [target.result for target in admitted.targets] == list(wanted.results)
    assert [target.facts.identity for target in admitted.targets] == [
        identity_of(name) for name in (OTHER, FAST, PARENT)
    ]
    assert [(hold.device, hold.share, hold.slots, hold.limit) for hold in admitted.holds] == [
        (OTHER, None, 1, 1),
        (FAST, None, 1, 1),
        (PARENT, share(1).share_id, 1, SLOTS),
    ]


def test_observer_needs_nothing_but_the_device() -> None:
    """Admin access neither holds the device nor minds who does."""

    wanted = claim(result(FAST, admin_access=True))

    assert admit(wanted, look(), held("owner")) == Admitted(targets=(), holds=())
    assert isinstance(admit(wanted, look(names=[]), Ledger()), Waiting)


@pytest.mark.parametrize("reason", [CLOSED, "restore-failed", "link-elsewhere"])
def test_passing_exclusion_is_waited_for(reason: str) -> None:
    """What may be gone in a moment is no reason to fail."""

    waiting = admit(claim(), look(excluded={FAST: reason}), Ledger())

    assert isinstance(waiting, Waiting)
    assert waiting.reason == f"{FAST} is not offered now ({reason}: as the test says)"
    assert waiting.holders == ()


@pytest.mark.parametrize("reason", ["uplink", "enslaved", "has-vfs"])
def test_lasting_exclusion_is_refused(reason: str) -> None:
    """A device that became the node's own way out needs a human, and is named with the reason."""

    with pytest.raises(ClaimError, match=rf"{FAST}: is not offered any more: {reason}"):
        admit(claim(), look(excluded={FAST: reason}), Ledger())


def test_device_or_link_that_is_not_seen_is_waited_for() -> None:
    """A device may be plugged in, and a driver may be bound, in a moment."""

    absent = admit(claim(), look(names=[OTHER]), Ledger())
    bare = admit(claim(), look(without_link=[FAST]), Ledger())

    assert isinstance(absent, Waiting)
    assert absent.reason == f"{FAST} is not seen on this node"
    assert "delete the pod and its claim" in absent.mend
    assert bare == Waiting(reason=f"the link of {FAST} is not seen")


def test_held_device_is_waited_for_with_its_holders() -> None:
    """Who holds it decides whether waiting makes sense; its state does not matter then."""

    ledger = held("owner")

    waiting = admit(claim(), look(excluded={FAST: "uplink"}), ledger)

    assert isinstance(waiting, Waiting)
    assert waiting.reason == f"{FAST} is held by claim default/owner (uid-of-owner)"
    assert waiting.holders == ledger.holds()


def test_own_hold_is_no_conflict() -> None:
    """What the claim took already does not stand against it."""

    assert isinstance(admit(claim(name="owner"), look(), held("owner")), Admitted)


def test_second_pod_of_a_claim_is_refused() -> None:
    """A NIC can be in one pod; both are named, and the way out."""

    wanted = claim(consumers=[pod("b"), pod("a")])

    with pytest.raises(ClaimError, match=r"is reserved for 2 pods: a, b.*ResourceClaimTemplate"):
        admit(wanted, look(), Ledger())


def test_second_pod_of_an_observing_claim_is_admitted() -> None:
    """To look takes nothing from anybody."""

    wanted = claim(result(FAST, admin_access=True), consumers=[pod("b"), pod("a")])

    assert isinstance(admit(wanted, look(), Ledger()), Admitted)


def test_parent_without_a_share_is_refused() -> None:
    """An API server that knows no shares gave the parent as a whole."""

    with pytest.raises(ClaimError, match=re.escape(f"{PARENT}: was allocated as a whole")):
        admit(claim(result(PARENT)), look(), Ledger())


@pytest.mark.parametrize(("taken", "wanted", "fits"), [(1, 3, True), (2, 3, False), (4, 1, False)])
def test_slots_of_a_parent(taken: int, wanted: int, *, fits: bool) -> None:
    """Shares fit as long as their slots do."""

    ledger = held("owner", device=PARENT, number=1, slots=taken)

    admission = admit(claim(share(2, slots=wanted)), look(), ledger)

    assert isinstance(admission, Admitted if fits else Waiting)
    if isinstance(admission, Admitted):
        assert [hold.slots for hold in admission.holds] == [wanted]


def test_same_share_of_another_claim_is_waited_for() -> None:
    """A share is one claim's."""

    ledger = held("owner", device=PARENT, number=1)

    assert isinstance(admit(claim(share(1)), look(), ledger), Waiting)


def test_share_without_an_amount_takes_one_slot() -> None:
    """Consumed capacity of other names is not ours to count."""

    wanted = claim(attrs.evolve(share(1), consumed={"berth.dev/bandwidth": "1G"}))

    admission = admit(wanted, look(), Ledger())

    assert isinstance(admission, Admitted)
    assert [hold.slots for hold in admission.holds] == [1]


@pytest.mark.parametrize(
    ("amount", "slots"), [("500m", 1), ("1500m", 2), ("-1", SLOTS), ("many", SLOTS), ("", SLOTS)]
)
def test_amount_that_is_none_gives_room_to_nobody(amount: str, slots: int) -> None:
    """A part of a slot is a slot; where nobody can say how many, they are all taken."""

    wanted = claim(attrs.evolve(share(1), consumed={"berth.dev/slots": amount}))

    admission = admit(wanted, look(), Ledger())

    assert isinstance(admission, Admitted)
    assert [hold.slots for hold in admission.holds] == [slots]


def test_parent_that_is_not_published_offers_one_slot() -> None:
    """Nothing is known of its slots, so nobody shares it."""

    seen = look()
    bare = attrs.evolve(seen, inventory=attrs.evolve(seen.inventory, devices=()))

    admission = admit(claim(share(1)), bare, Ledger())

    assert isinstance(admission, Admitted)
    assert [hold.limit for hold in admission.holds] == [1]
