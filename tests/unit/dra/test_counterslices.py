"""Slices with counters: where they lie, and that they obey the rules of all slices."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.dra.edition import Edition, recovered
from berth.dra.slices import Accepted, Verb, plan
from berth.model.device import CounterSet, Device
from tests.unit.dra.shelf import ORIGIN, Shelf, counter_set, nics, part

POOL = "worker-7"
PARTS = tuple(part(number, whole) for whole in range(2) for number in range(3))
SETS = (counter_set(0), counter_set(1))


def test_plan_puts_counter_sets_into_a_slice_of_their_own() -> None:
    """Behind the devices, and counted as a slice of the pool; the NICs' pool has none."""

    shelf = Shelf()
    shelf.sync((*PARTS, *nics(1)), SETS)
    devices, counters = (item for _, item in sorted(shelf.slices.items()) if item.pool == POOL)

    assert {(1, 2)} == {(item.generation, item.slice_count) for item in (devices, counters)}
    assert len(devices.devices) == 6
    assert devices.devices[0]["consumesCounters"] == [
        {"counterSet": "gpu-00-counters", "counters": {"memory": {"value": "1Gi"}}}
    ]
    assert not devices.shared_counters
    assert not counters.devices
    assert counters.shared_counters[1] == {
        "name": "gpu-01-counters",
        "counters": {"memory": {"value": "8Gi"}},
    }
    assert shelf.read_sets(f"{POOL}/nic") == ()
    assert shelf.sync((*PARTS, *nics(1)), SETS) == []


def test_plan_writes_no_counters_without_sets() -> None:
    """For a server that takes none there are none, and a later one that does gets them."""

    shelf = Shelf()
    shelf.sync(PARTS)
    (only,) = shelf.slices.values()

    assert not any("consumesCounters" in device for device in only.devices)

    writes = shelf.sync(PARTS, SETS)

    assert [write.verb for write in writes] == [Verb.UPDATE, Verb.CREATE]
    assert {2} == {item.generation for item in shelf.slices.values()}
    assert shelf.read_sets(POOL) == ("gpu-00-counters", "gpu-01-counters")

    writes = shelf.sync(PARTS)

    assert [write.verb for write in writes] == [Verb.DELETE, Verb.UPDATE]
    assert shelf.read_sets(POOL) == ()


@pytest.mark.parametrize(("count", "slices"), [(8, 2), (9, 3), (17, 4)])
def test_plan_puts_eight_sets_into_a_slice(count: int, slices: int) -> None:
    """Of sixteen GPUs each has its set."""

    shelf = Shelf()
    parts = tuple(part(0, whole) for whole in range(count))
    sets = tuple(counter_set(whole) for whole in range(count))
    shelf.sync(parts, sets)

    assert len(shelf.slices) == slices
    assert len(shelf.read_sets(POOL)) == count
    assert shelf.sync(parts, sets) == []


def test_plan_rewrites_the_counter_slice_alone_when_a_set_grows() -> None:
    """One request, and the generation stays."""

    shelf = Shelf()
    shelf.sync(PARTS, SETS)
    (write,) = shelf.sync(PARTS, (counter_set(0, memory=1), SETS[1]))

    assert (write.verb, write.index, write.slice.generation) == (Verb.UPDATE, 1, 1)


def test_plan_raises_the_generation_when_devices_and_sets_change() -> None:
    """A reader never sees parts with the counters of another layout."""

    shelf = Shelf()
    shelf.sync(PARTS, SETS)
    shelf.sync(PARTS[:3], SETS)

    assert {(2, 2)} == {(s.generation, s.slice_count) for s in shelf.slices.values()}
    assert shelf.read_sets(POOL) == ("gpu-00-counters",)


def test_plan_heals_a_counter_slice_that_was_deleted_or_edited() -> None:
    """It comes back as it was, in the same generation."""

    shelf = Shelf()
    shelf.sync(PARTS, SETS)
    name = max(shelf.slices)
    mine = shelf.slices.pop(name)
    (write,) = shelf.sync(PARTS, SETS)

    assert (write.verb, write.index, write.slice.generation) == (Verb.CREATE, 1, 1)

    name = max(shelf.slices)
    shelf.slices[name] = attrs.evolve(shelf.slices[name], shared_counters=mine.shared_counters[:1])
    (write,) = shelf.sync(PARTS, SETS)

    assert (write.verb, write.slice.name, write.slice.generation) == (Verb.UPDATE, name, 1)
    assert shelf.read_sets(POOL) == ("gpu-00-counters", "gpu-01-counters")


def test_plan_writes_nothing_when_a_new_process_finds_its_counters() -> None:
    """The edition is recovered with both sorts of slices."""

    shelf = Shelf()
    shelf.sync(PARTS, SETS)
    shelf.editions = {}

    assert shelf.sync(PARTS, SETS) == []


def test_recovered_refuses_counters_before_devices() -> None:
    """What another program laid out otherwise is no edition to build on."""

    sets = ({"name": "s"},)
    edition = Edition(
        pool="p", generation=3, slots=(({"name": "a"},),), counters=(sets,), skips=((),)
    )
    devices, counters = (
        attrs.evolve(item, name=f"{item.generate_name}aaaaa") for item in edition.slices(ORIGIN)
    )
    swapped = [
        attrs.evolve(devices, devices=(), shared_counters=sets),
        attrs.evolve(counters, devices=devices.devices, shared_counters=()),
    ]
    both = attrs.evolve(counters, devices=({"name": "b"},))

    assert recovered(ORIGIN, "p", [devices, counters]) == edition
    assert recovered(ORIGIN, "p", swapped) is None
    assert recovered(ORIGIN, "p", [devices, both]) is None
    nameless = attrs.evolve(counters, shared_counters=({},))
    assert recovered(ORIGIN, "p", [devices, nameless]) is None


def test_plan_lets_dropped_counters_be_and_adds_no_slice_at_a_restart() -> None:
    """A server that drops them keeps an empty slice; each new process tries once more in it."""

    shelf = Shelf()
    shelf.sync(PARTS, SETS)
    for _ in range(3):
        sent = {item.name: item for item in shelf.slices.values()}
        shelf.slices = {
            name: attrs.evolve(
                item,
                shared_counters=(),
                devices=tuple(
                    {key: value for key, value in device.items() if key != "consumesCounters"}
                    for device in item.devices
                ),
            )
            for name, item in sent.items()
        }
        accepted = {
            (POOL, index): Accepted(sent=sent[name], got=shelf.slices[name])
            for index, name in enumerate(sorted(sent))
        }
        (quiet,) = plan(
            ORIGIN,
            PARTS,
            shelf.slices.values(),
            editions=shelf.editions,
            accepted=accepted,
            counter_sets=SETS,
        )
        assert quiet.writes == ()

        shelf.editions = {}
        writes = shelf.sync(PARTS, SETS)
        assert [write.verb for write in writes] == [Verb.UPDATE] * 2
        assert len(shelf.slices) == 2


layouts = st.builds(
    lambda parts, amounts: (
        tuple(part(number, whole) for whole, number in sorted(parts)),
        tuple(counter_set(whole, memory) for whole, memory in sorted(amounts.items())),
    ),
    st.sets(st.tuples(st.integers(0, 19), st.integers(0, 4)), max_size=90),
    st.dictionaries(st.integers(0, 19), st.integers(1, 2), max_size=20),
)
Layout = tuple[tuple[Device, ...], tuple[CounterSet, ...]]


@settings(deadline=None)
@given(steps=st.lists(st.tuples(layouts, st.integers(0, 6), st.booleans()), min_size=1, max_size=5))
def test_plan_never_shows_counters_of_another_layout_whatever_happens(
    steps: list[tuple[Layout, int, bool]],
) -> None:
    """Rounds are cut short, the process restarts: a complete pool draws on sets that it has."""

    shelf = Shelf()
    for (devices, sets), limit, restarted in steps:
        if restarted:
            shelf.editions = {}
        writes = [write for item in shelf.plan(devices, sets) for write in item.writes]
        for write in writes[:limit]:
            shelf.apply(write)
            if shelf.read(POOL) is not None:
                shelf.read_sets(POOL)
    devices, sets = steps[-1][0]
    shelf.sync(devices, sets)

    drawn = {one.counter_set for device in devices for one in device.consumes}
    assert sorted(device.name for device in devices) == sorted(shelf.read(POOL) or ())
    assert sorted(one.name for one in sets if one.name in drawn) == sorted(shelf.read_sets(POOL))
    assert shelf.sync(devices, sets) == []


@settings(deadline=None)
@given(before=layouts, after=layouts)
def test_plan_writes_no_more_than_needed_for_counters(before: Layout, after: Layout) -> None:
    """Either one slice is rewritten, or each slice of the new generation once."""

    shelf = Shelf()
    shelf.sync(*before)
    count = len(shelf.slices)
    writes = shelf.sync(*after)
    rewritten = [write for write in writes if write.verb is not Verb.DELETE]

    assert len(rewritten) in {0, 1, len(shelf.slices)}
    assert len(writes) - len(rewritten) == max(0, count - len(shelf.slices))
