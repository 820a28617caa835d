"""Who holds what: exclusively or by shares, all of a claim's wishes or none."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth.model.claim import ClaimRef
from berth.node.ledger import Conflict, Hold, Ledger

PARENT = "pci:0000:42:00.0"


def hold(claim: str, key: str = "pci:0000:41:00.0", **more: Any) -> Hold:
    """A hold of a claim."""
    ref = ClaimRef(namespace="team", name=claim, uid=f"uid-{claim}")
    return Hold(key=key, device="nic-a", holder=ref, **more)


def share(claim: str, name: str, *, slots: int = 1, limit: int = 4) -> Hold:
    """A hold of some slots of a shared parent."""
    return hold(claim, PARENT, share=name, slots=slots, limit=limit)


def test_exclusive_key_has_one_holder() -> None:
    """The second claim is told who has it; the first may ask again."""

    ledger = Ledger()
    assert ledger.take([hold("a")]) is None
    assert ledger.take([hold("a")]) is None

    assert ledger.take([hold("b")]) == Conflict(wanted=hold("b"), holders=(hold("a"),))
    assert ledger.holders("pci:0000:41:00.0") == (hold("a"),)


def test_all_or_nothing() -> None:
    """A claim that cannot have one of its devices takes none of them."""

    ledger = Ledger()
    ledger.take([hold("a", "k1")])
    conflict = ledger.take([hold("b", "k2"), hold("b", "k1")])

    assert conflict == Conflict(wanted=hold("b", "k1"), holders=(hold("a", "k1"),))
    assert ledger.holds() == (hold("a", "k1"),)
    assert ledger.take([hold("c", "k2")]) is None


def test_two_wishes_of_one_claim_for_one_device() -> None:
    """One exclusive device cannot serve two requests."""

    ledger = Ledger()
    first, second = hold("a"), hold("a", slots=2)

    assert ledger.take([first, second]) == Conflict(wanted=second, holders=(first,))
    assert ledger.holds() == ()


def test_shares_up_to_the_slots() -> None:
    """Each share has one holder, and all together no more slots than there are."""

    ledger = Ledger()
    assert ledger.take([share("a", "s1", slots=2)]) is None
    assert ledger.take([share("b", "s2"), share("b", "s3")]) is None
    full = ledger.take([share("c", "s4")])

    assert full is not None
    assert {h.holder.uid for h in full.holders} == {"uid-a", "uid-b"}
    assert ledger.conflict([share("c", "s2")]) is not None
    ledger.release("uid-b")
    assert ledger.take([share("c", "s4", slots=2)]) is None


def test_shares_and_the_whole_device_exclude_each_other() -> None:
    """Who has all of it shares with nobody, and who shares lets nobody have all of it."""

    ledger = Ledger()
    ledger.take([share("a", "s1")])

    assert ledger.conflict([hold("b", PARENT)]) is not None
    ledger.release("uid-a")
    ledger.take([hold("b", PARENT)])
    assert ledger.conflict([share("a", "s1")]) is not None


def test_rekey_of_one_claim_alone() -> None:
    """A link under another index is held under another key, and free under the old one."""

    ledger = Ledger()
    ledger.take([hold("a", "link:boot:3")])
    ledger.take([hold("b", "link:boot:4")])
    version = ledger.releases.version
    ledger.rekey("uid-a", "link:boot:3", "link:boot:9")
    ledger.rekey("uid-a", "link:boot:4", "link:boot:8")

    assert ledger.holds() == (hold("b", "link:boot:4"), hold("a", "link:boot:9"))
    assert ledger.releases.version == version + 1
    ledger.release("uid-a")
    assert ledger.holds() == (hold("b", "link:boot:4"),)


def test_restore_is_not_judged() -> None:
    """What stood on disk is entered as it is, once."""

    ledger = Ledger()
    ledger.restore([hold("a"), hold("b"), hold("a")])

    assert ledger.holds() == (hold("a"), hold("b"))


def test_release_wakes_only_for_what_is_free_now() -> None:
    """Nobody looks again because a claim let go of what it did not have."""

    ledger = Ledger()
    ledger.take([hold("a", "k1"), hold("a", "k2")])
    version = ledger.releases.version
    ledger.release("uid-nobody")
    ledger.release("uid-a", "k3")
    assert ledger.releases.version == version
    ledger.release("uid-a", "k1")

    assert ledger.releases.version == version + 1
    assert ledger.holds() == (hold("a", "k2"),)


wishes = st.lists(
    st.builds(
        lambda claim, key, name: hold(claim, key, share=name, limit=3),
        st.sampled_from("abc"),
        st.sampled_from(["k1", "k2"]),
        st.none() | st.sampled_from(["s1", "s2", "s3", "s4"]),
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(st.tuples(st.booleans(), wishes), max_size=12))
def test_invariants_over_any_history(history: list[tuple[bool, list[Hold]]]) -> None:
    """Whatever is taken and released: one exclusive holder, one per share, no slot too many."""

    ledger = Ledger()
    for takes, holds in history:
        before = ledger.holds()
        if not takes:
            ledger.release(holds[0].holder.uid)
        elif ledger.take(holds) is not None:
            assert ledger.holds() == before
        for key in ("k1", "k2"):
            present = ledger.holders(key)
            others = {h.holder.uid for h in present}
            if any(h.share is None for h in present):
                assert len(others) == 1
            shares = [h.share for h in present if h.share is not None]
            assert len(shares) == len(set(shares)) or len(others) == 1
            assert sum(h.slots for h in present if h.share) <= 3
