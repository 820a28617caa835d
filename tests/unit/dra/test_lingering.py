"""Devices that stay in the slices while they come home."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth.dra.lingering import LINGER_S, Lingering
from berth.model.device import Device

NAMES = ("a", "b", "c", "d")


def device(name: str, **more: Any) -> Device:
    """A NIC."""
    return Device(
        name=name, identity=name, type="nic", group="g", attributes={"type": "nic"}, **more
    )


ALL = tuple(map(device, NAMES))


def names(lingering: Lingering) -> str:
    """What is published."""
    return "".join(one.name for one in lingering.devices)


def test_device_on_its_way_home_stays_where_it_was() -> None:
    """For a moment; then it leaves, if it is not home by then."""

    first = Lingering().after(ALL, (), 0.0)
    there = first.after((ALL[0], ALL[3]), {"b", "c"}, 10.0)
    assert (names(there), there.due_s()) == ("abcd", 10.0 + LINGER_S)
    still = there.after((ALL[0], ALL[3]), {"b", "c"}, 10.0 + LINGER_S / 2)
    assert (names(still), still.due_s()) == ("abcd", 10.0 + LINGER_S)

    late = still.after((ALL[0], ALL[3]), {"b", "c"}, 10.0 + LINGER_S)

    assert (names(late), late.due_s()) == ("ad", math.inf)
    assert names(late.after((ALL[0], ALL[3]), {"b", "c"}, 99.0)) == "ad"


def test_device_that_is_home_is_what_the_inventory_says() -> None:
    """Its newest attributes, and its time begins anew with its next return."""

    there = Lingering().after(ALL, (), 0.0).after(ALL[1:], {"a"}, 1.0)
    home = there.after((device("a", shared=True), *ALL[1:]), (), 1.5)
    again = home.after(ALL[1:], {"a"}, 50.0)

    assert home.devices[0].shared
    assert (names(again), again.due_s()) == ("abcd", 50.0 + LINGER_S)


def test_device_that_left_for_another_reason_leaves_at_once() -> None:
    """An uplink, one that was unplugged, one whose return failed."""

    assert names(Lingering().after(ALL, (), 0.0).after(ALL[1:], (), 1.0)) == "bcd"


def test_nothing_lingers_that_was_not_there() -> None:
    """After a restart nothing is known of before."""

    assert names(Lingering().after(ALL[1:], {"a"}, 0.0)) == "bcd"


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.floats(0, 3))
    )
)
def test_order_and_membership_over_any_history(
    history: list[tuple[set[str], set[str], float]],
) -> None:
    """Every offered device is there once, in order; nothing but returning ones beside them."""

    state, now_s = Lingering(), 0.0
    for there, returning, pause_s in history:
        now_s += pause_s
        before = names(state)
        state = state.after([one for one in ALL if one.name in there], returning, now_s)
        published = names(state)
        assert sorted(published) == list(dict.fromkeys(sorted(published)))
        assert there <= set(published)
        assert set(published) - there <= returning & set(before)
        assert [name for name in published if name in there] == sorted(there)
