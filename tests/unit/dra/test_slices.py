"""Slices: what is due, and that a reader never sees a wrong pool on the way."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.edition import Edition, recovered
from berth.dra.slices import Accepted, Verb, plan
from berth.kube.slices import Owner, Slice, spec_json
from berth.model.device import Device
from tests.unit.dra.shelf import ORIGIN, Shelf, nic, nics

NIC_POOL = "worker-7/nic"


def verbs(writes: list) -> list[Verb]:  # type: ignore[type-arg] # only the verbs matter
    """Give the verbs of writes."""
    return [write.verb for write in writes]


@pytest.mark.parametrize(("count", "slices"), [(1, 1), (64, 1), (129, 3), (300, 5)])
def test_plan_creates_a_complete_pool_when_nothing_exists(count: int, slices: int) -> None:
    """The first round makes all slices of one generation, and the next one makes none."""

    shelf = Shelf()
    writes = shelf.sync(nics(count))

    assert [Verb.CREATE] * slices == verbs(writes)
    assert {(1, slices)} == {(s.generation, s.slice_count) for s in shelf.slices.values()}
    assert tuple(device.name for device in nics(count)) == shelf.read(NIC_POOL)
    assert shelf.sync(nics(count)) == []


def test_plan_publishes_only_pools_that_the_node_uses() -> None:
    """A node without devices gets no slice; one that lost its devices keeps an empty one."""

    shelf = Shelf()

    assert shelf.sync(()) == []

    shelf.sync(nics(2))
    shelf.sync(())

    assert shelf.read(NIC_POOL) == ()
    assert len(shelf.slices) == 1


def test_plan_writes_a_value_that_is_another_kind_only() -> None:
    """What Python takes for the same is not, in a slice."""

    shelf = Shelf()
    shelf.sync((nic(0, ready=1),))
    writes = shelf.sync((nic(0, ready=True),))

    assert verbs(writes) == [Verb.UPDATE]
    assert writes[0].slice.devices[0]["attributes"]["ready"] == {"bool": True}


def test_plan_separates_nics_from_other_devices() -> None:
    """NICs of every kind lie in their own pool, so that their churn never touches GPUs."""

    devices = tuple(
        attrs.evolve(nic(n), type=kind)
        for n, kind in enumerate(["gpu", "nic", "nic-shared", "nic-vfio", "rdma", "tty"])
    )
    shelf = Shelf()
    shelf.sync(devices)

    assert shelf.read("worker-7") == ("nic-0000", "nic-0005")
    assert shelf.read(NIC_POOL) == ("nic-0001", "nic-0002", "nic-0003", "nic-0004")


def test_plan_names_slices_so_that_they_sort_and_belong_to_the_node() -> None:
    """Names begin with the index, and the garbage collector knows the node."""

    (first, *_) = Edition(pool="p", generation=1, slots=((), ())).slices(ORIGIN)

    assert first.generate_name == "00000-berth.dev-worker-7-"
    assert Owner(name="worker-7", uid="node-uid") == first.owner


def test_plan_says_once_in_each_slice_what_kubelet_skips() -> None:
    """A group that is skipped from now on is one write, and a new process finds it done."""

    shelf = Shelf()
    shelf.sync((*nics(64), nic(64)))
    skipped = (*nics(64), attrs.evolve(nic(64), skips=("*",)))

    (write,) = shelf.sync(skipped)

    assert (write.verb, write.slice.skips, write.slice.generation) == (Verb.UPDATE, ("*",), 1)
    shelf.editions = {}
    assert shelf.sync(skipped) == []
    assert [spec_json(one).get("skipNodeOperations") for one in shelf.slices.values()] == [
        None,
        ["*"],
    ]


def test_index_of_knows_names_that_the_server_cut() -> None:
    """A long node name is cut by the server, and the slice is recognised all the same."""

    long = attrs.evolve(ORIGIN, owner=Owner(name="n" * 80, uid="u"))
    stored = long.generate_name(31)[:58] + "x7k2p"

    assert long.index_of(stored) == 31
    assert long.index_of("0001f-other.dev-" + "n" * 40) is None
    assert ORIGIN.index_of("worker-7-berth.dev-abcde") is None
    assert ORIGIN.index_of("1f-berth.dev-worker-7-abcde") is None


def test_plan_rewrites_one_slice_when_one_device_changes() -> None:
    """One of 129 devices changes: one request, and the generation stays."""

    shelf = Shelf()
    shelf.sync(nics(129))
    writes = shelf.sync((*nics(128), nic(128, mtu=9000)))

    assert verbs(writes) == [Verb.UPDATE]
    assert writes[0].slice.generation == 1
    assert writes[0].index == 2


def test_plan_raises_the_generation_when_two_slices_change() -> None:
    """Two changed slices make a new generation of the whole pool."""

    shelf = Shelf()
    shelf.sync(nics(129))
    writes = shelf.sync((nic(0, mtu=9000), *nics(129)[1:128], nic(128, mtu=9000)))

    assert verbs(writes) == [Verb.UPDATE] * 3
    assert {2} == {item.generation for item in shelf.slices.values()}


def test_plan_raises_the_generation_when_the_count_changes() -> None:
    """The 65th device makes a second slice, and both say so."""

    shelf = Shelf()
    shelf.sync(nics(64))
    writes = shelf.sync(nics(65))

    assert verbs(writes) == [Verb.UPDATE, Verb.CREATE]
    assert {(2, 2)} == {(s.generation, s.slice_count) for s in shelf.slices.values()}


@pytest.mark.parametrize("lost", [1, 3])
def test_plan_puts_back_what_was_deleted_in_the_same_generation(lost: int) -> None:
    """Deleted slices come back as they were; the ones left alone are not written."""

    shelf = Shelf()
    shelf.sync(nics(129))
    before = shelf.read(NIC_POOL)
    for name in sorted(shelf.slices)[:lost]:
        del shelf.slices[name]
    writes = shelf.sync(nics(129))

    assert [Verb.CREATE] * lost == verbs(writes)
    assert before == shelf.read(NIC_POOL)
    assert {1} == {item.generation for item in shelf.slices.values()}


def test_plan_puts_back_an_edited_slice_and_deletes_a_copy() -> None:
    """A foreign edit, foreign fields and a second slice of one index are all undone."""

    shelf = Shelf()
    shelf.sync(nics(3))
    ((name, mine),) = shelf.slices.items()
    copy = attrs.evolve(mine, name=f"{name}x", uid="copy", resource_version="90")
    shelf.slices = {
        name: attrs.evolve(mine, devices=mine.devices[:1], others={"allNodes": True}),
        copy.name: copy,
    }
    writes = shelf.sync(nics(3))

    assert [(Verb.DELETE, name)] == [(write.verb, write.slice.name) for write in writes]
    assert {copy.name: copy} == shelf.slices

    shelf.slices[copy.name] = attrs.evolve(copy, devices=(), others={"allNodes": True})
    (write,) = shelf.sync(nics(3))

    assert (Verb.UPDATE, copy.name, "copy", "90") == (
        write.verb,
        write.slice.name,
        write.slice.uid,
        write.slice.resource_version,
    )
    assert shelf.read(NIC_POOL) == ("nic-0000", "nic-0001", "nic-0002")


def test_plan_outbids_a_foreign_generation() -> None:
    """A slice of a higher generation hides the pool; the next one is higher than that."""

    shelf = Shelf()
    shelf.sync(nics(65))
    name = min(shelf.slices)
    shelf.slices[name] = attrs.evolve(shelf.slices[name], generation=7)
    shelf.sync(nics(65))

    assert {8} == {item.generation for item in shelf.slices.values()}
    assert tuple(device.name for device in nics(65)) == shelf.read(NIC_POOL)


def test_plan_deletes_slices_of_other_pools_and_other_names() -> None:
    """What an older program or another hand left under our driver and node goes."""

    shelf = Shelf()
    shelf.sync(nics(1))
    (mine,) = shelf.slices.values()
    for name, pool in (("worker-7-berth.dev-abcde", NIC_POOL), (mine.name + "z", "worker-7/old")):
        shelf.slices[name] = attrs.evolve(mine, name=name, pool=pool, uid=name)
    writes = shelf.sync(nics(1))

    assert verbs(writes) == [Verb.DELETE] * 2
    assert {mine.name: mine} == shelf.slices


def test_plan_recovers_the_edition_when_the_process_is_new() -> None:
    """After a restart nothing is written, and a hole left by a flapping device is known."""

    shelf = Shelf()
    shelf.sync(nics(65))
    shelf.sync(nics(64))
    shelf.editions = {}

    assert shelf.sync(nics(64)) == []
    assert verbs(shelf.sync(nics(65))) == [Verb.UPDATE]


def test_plan_begins_a_new_generation_when_a_crash_left_half_a_pool() -> None:
    """A pool whose newest generation is not whole is written anew."""

    shelf = Shelf()
    shelf.sync(nics(64))
    (first, *_) = [write for item in shelf.plan(nics(129)) for write in item.writes]
    shelf.apply(first)
    shelf.editions = {}
    shelf.sync(nics(129))

    assert {(3, 3)} == {(s.generation, s.slice_count) for s in shelf.slices.values()}
    assert tuple(device.name for device in nics(129)) == shelf.read(NIC_POOL)


def test_recovered_refuses_slices_that_are_no_whole_pool() -> None:
    """Copies, gaps, wrong counts and devices without a name are no edition to build on."""

    one, two = Edition(pool="p", generation=3, slots=(({"name": "a"},), ())).slices(ORIGIN)
    first, second = (attrs.evolve(item, name=f"{item.generate_name}aaaaa") for item in (one, two))
    nameless = attrs.evolve(first, devices=({"name": None},))
    copy = attrs.evolve(first, name=f"{one.generate_name}bbbbb")

    assert recovered(ORIGIN, "p", [first, second]).names == (("a",), ())  # type: ignore[union-attr] # it is whole
    for slices in ([], [first], [second], [first, second, copy], [nameless, second]):
        assert recovered(ORIGIN, "p", slices) is None


def test_plan_writes_nothing_when_only_the_text_differs() -> None:
    """A server that writes quantities in another form holds what was wanted."""

    shelf = Shelf()
    shelf.sync(nics(1))
    (mine,) = shelf.slices.values()
    shelf.slices[mine.name] = attrs.evolve(mine, devices=({**mine.devices[0], "taints": []},))

    assert shelf.sync(nics(1)) == []


def test_plan_updates_the_owner_alone_without_a_new_generation() -> None:
    """A Node object that was made anew gets its slices back without a word to schedulers."""

    shelf = Shelf()
    shelf.sync(nics(129))
    renewed = attrs.evolve(ORIGIN, owner=Owner(name="worker-7", uid="second"))
    (only,) = plan(renewed, nics(129), shelf.slices.values(), editions=shelf.editions, accepted={})

    assert [write.verb for write in only.writes] == [Verb.UPDATE] * 3
    assert {1} == {write.slice.generation for write in only.writes}


def test_plan_lets_a_dropped_field_be_when_it_was_accepted_once() -> None:
    """What the server made of a write counts as that write, until either side changes."""

    shelf = Shelf()
    shelf.sync(nics(1))
    ((name, got),) = shelf.slices.items()
    shelf.slices[name] = got = attrs.evolve(got, devices=({"name": "nic-0000"},))
    sent = shelf.editions[NIC_POOL].slices(ORIGIN)[0]
    accepted = {(NIC_POOL, 0): Accepted(sent=sent, got=got)}

    def due(devices: tuple[Device, ...], found: Slice) -> int:
        (only,) = plan(ORIGIN, devices, [found], editions=shelf.editions, accepted=accepted)
        return len(only.writes)

    assert due(nics(1), got) == 0
    assert due((nic(0, mtu=1),), got) == 1
    assert due(nics(1), attrs.evolve(got, devices=())) == 1


inventories = st.builds(
    lambda numbers, mtu, skips: tuple(
        attrs.evolve(nic(number, mtu=mtu[number % 2]), skips=skips[number // 100])
        for number in sorted(numbers)
    ),
    st.sets(st.integers(0, 200), max_size=150),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.sampled_from([(), ("*",), ("NodeUnprepareResources",)])] * 3),
)


@given(
    steps=st.lists(st.tuples(inventories, st.integers(0, 6), st.booleans()), min_size=1, max_size=6)
)
def test_plan_never_shows_a_wrong_pool_whatever_happens(
    steps: list[tuple[tuple[Device, ...], int, bool]],
) -> None:
    """Rounds are cut short, the process restarts: a complete pool is always one that was meant."""

    shelf = Shelf()
    meant: list[tuple[str, ...]] = [()]
    for devices, limit, restarted in steps:
        if restarted:
            shelf.editions = {}
        writes = [write for item in shelf.plan(devices) for write in item.writes]
        meant += [
            tuple(name for slot in edition.names for name in slot)
            for edition in shelf.editions.values()
        ]
        for write in writes[:limit]:
            shelf.apply(write)
            assert shelf.read(NIC_POOL) in {None, *meant}
    shelf.sync(steps[-1][0])

    assert sorted(device.name for device in steps[-1][0]) == sorted(shelf.read(NIC_POOL) or ())
    assert shelf.sync(steps[-1][0]) == []


@given(before=inventories, after=inventories)
def test_plan_writes_no_more_than_needed_whatever_changes(
    before: tuple[Device, ...], after: tuple[Device, ...]
) -> None:
    """Either one slice is rewritten, or each slice of the new generation once."""

    shelf = Shelf()
    shelf.sync(before)
    count = len(shelf.slices)
    writes = shelf.sync(after)
    rewritten = [write for write in writes if write.verb is not Verb.DELETE]

    assert len(rewritten) in {0, 1, len(shelf.slices)}
    assert len(writes) - len(rewritten) == max(0, count - len(shelf.slices))
