"""Counters of a pool: what is kept of what devices draw, and where the sets lie."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.counters import SETS_LIMIT, counted, place_sets, slots_needed
from berth.model.device import Consumption, CounterSet
from tests.unit.dra.shelf import nic

SETS = {
    name: CounterSet(name=name, counters={"memory": 40, "slices": 8}) for name in ("a", "b", "c")
}


def draw(counter_set: str, **counters: int) -> Consumption:
    """What a device draws."""
    return Consumption(counter_set=counter_set, counters=counters)


def test_counted_keeps_sets_that_somebody_draws_on() -> None:
    """Other pools' sets, and those of GPUs that are offered to nobody, are no business of it."""

    part = attrs.evolve(nic(1), consumes=(draw("b", memory=10),))
    content = counted((nic(0), part), SETS)

    assert content.devices == (nic(0), part)
    assert content.sets == (SETS["b"],)


@pytest.mark.parametrize(
    ("consumes", "kept"),
    [
        (draw("gone", memory=1), ()),
        (draw("a", nvenc=1), ()),
        (draw("a", nvenc=1, memory=2), (draw("a", memory=2),)),
    ],
)
def test_counted_leaves_out_what_no_set_covers(
    consumes: Consumption, kept: tuple[Consumption, ...]
) -> None:
    """One device that draws on nothing known would spoil the pool for all others."""

    (device,) = counted((attrs.evolve(nic(0), consumes=(consumes,)),), SETS).devices

    assert device.consumes == kept


def test_counted_leaves_out_a_form_that_nothing_keeps_apart() -> None:
    """Without the set a scheduler would give both forms of one thing."""

    form = attrs.evolve(nic(1), consumes=(draw("a", memory=1),), only_counted=True)

    assert counted((nic(0), form), SETS).devices == (nic(0), form)
    assert counted((nic(0), form), {}).devices == (nic(0),)


names = st.lists(st.integers(0, 30).map(lambda number: f"s{number:02d}"), unique=True)


@given(before=names, after=names)
def test_place_sets_moves_nothing_while_the_number_of_slices_stays(
    before: list[str], after: list[str]
) -> None:
    """Each set lies in one slice, no slice has too many, and none is empty without need."""

    first = place_sets((), before)
    second = place_sets(first, after)

    assert sorted(after) == sorted(name for slot in second for name in slot)
    assert all(len(slot) <= SETS_LIMIT for slot in second)
    assert len(second) == slots_needed(len(after))
    assert place_sets(second, after) == second
    if len(first) == len(second):
        for old, new in zip(first, second, strict=True):
            assert set(old) & set(after) <= set(new)


@pytest.mark.parametrize("previous", [(("a", "a"),), (tuple(f"x{n}" for n in range(9)),)])
def test_place_sets_begins_anew_after_what_it_never_made(previous: tuple[tuple[str, ...]]) -> None:
    """What another hand left on the server is no layout to keep."""

    assert place_sets(previous, ["a", "b"]) == (("a", "b"),)
