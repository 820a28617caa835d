"""Where devices lie: every set fits, and a small change moves little."""

from itertools import chain

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.dra.placement import SLICE_LIMIT, Slots, arrange, place
from berth.model.device import Device


def nic(
    number: int, *, bucket: str = "", group: str = "g", kind: str = "nic", skips: str = ""
) -> Device:
    """Give a device named by a number."""
    return Device(
        name=f"nic-{number:04d}",
        identity=f"pci:{number}",
        type=kind,
        group=group,
        attributes={},
        bucket=bucket,
        skips=(skips,) if skips else (),
    )


def nics(count: int, **facts: str) -> list[Device]:
    """Give that many devices."""
    return [nic(number, **facts) for number in range(count)]


def names(slots: tuple[tuple[Device, ...], ...]) -> Slots:
    """Give the names of a placement."""
    return tuple(tuple(device.name for device in slot) for slot in slots)


def differing(before: Slots, after: Slots) -> int:
    """Count the slices of which not all devices are the same."""
    assert len(before) == len(after)
    return sum(old != new for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (1, [1]), (64, [64]), (129, [64, 64, 1]), (300, [64] * 4 + [44])]
)
def test_place_fills_slices_when_nothing_is_known(count: int, sizes: list[int]) -> None:
    """A packing from scratch has no more slices than are needed, and at least one."""

    assert sizes == [len(slot) for slot in place((), nics(count))]


def test_place_keeps_an_emptied_slice_when_a_device_comes_and_goes() -> None:
    """The 65th device rewrites its own slice, however often it flaps."""

    full = names(place((), nics(65)))
    gone = names(place(full, nics(64)))
    back = names(place(gone, nics(65)))

    assert (*full[:1], ()) == gone
    assert full == back


def test_place_puts_a_new_device_beside_its_bucket_when_there_is_room() -> None:
    """A VF that appears joins the slice of its PF, not the last one."""

    devices = [nic(number, bucket=f"pf{number // 50}") for number in range(100)]
    before = names(place((), [device for device in devices if device.name != "nic-0040"]))
    after = names(place(before, devices))

    assert "nic-0040" not in chain.from_iterable(before)
    assert "nic-0040" in after[1]
    assert differing(before, after) == 1


def test_place_uses_the_last_slice_when_that_of_the_bucket_is_full() -> None:
    """A device too many for its neighbours goes to the end instead of moving everything."""

    devices = nics(100)
    before = names(place((), devices))
    late = nic(7000)
    after = names(place(before, [*devices[:10], late, *devices[10:]]))

    assert before[0] == after[0]
    assert late.name in after[1]


def test_place_moves_nothing_when_the_first_of_a_bucket_leaves() -> None:
    """VFs of two PFs lie between each other: the other PF's first comes before the rest now."""

    devices = [nic(number, bucket=f"pf{number % 2}") for number in range(160)]
    before = names(place((), devices))
    after = names(place(before, devices[1:]))

    assert before[0][0] == "nic-0000"
    assert (before[0][1:], *before[1:]) == after
    assert before == names(place(after, devices))


def test_place_packs_afresh_when_two_slices_change_anyway() -> None:
    """A generation that is raised anyway closes the holes."""

    before = names(place((), nics(129)))
    left = [device for device in nics(129) if device.name not in {"nic-0001", "nic-0070"}]

    assert [len(slot) for slot in place(before, left)] == [64, 63]


def test_place_packs_afresh_when_groups_are_reordered() -> None:
    """The order that an operator gives to groups is honoured across slices."""

    first, second = nics(64, group="a"), [nic(n, group="b") for n in range(100, 164)]
    before = names(place((), [*first, *second]))
    after = names(place(before, [*second, *first]))

    assert (before[1], before[0]) == after


def test_place_gives_devices_that_kubelet_skips_slices_of_their_own() -> None:
    """Kinds stay in their order, and a late device goes to the slice of those like it."""

    devices = [*nics(70), *(nic(n, group="h", skips="*") for n in (100, 101)), nic(200, group="i")]
    before = names(place((), devices))
    late = names(place(before, [*devices[:71], nic(102, group="h", skips="*"), *devices[71:]]))

    assert [len(slot) for slot in before] == [64, 6, 2, 1]
    assert [len(slot) for slot in late] == [64, 6, 3, 1]


def test_place_packs_afresh_when_a_part_of_a_slice_is_skipped() -> None:
    """A slice says it of all of its devices, so those that are asked for have to leave it."""

    before = names(place((), nics(4)))
    skipped = [nic(0), nic(1), nic(2, skips="*"), nic(3, skips="*")]

    after = names(place(before, skipped, changed={"nic-0002", "nic-0003"}))

    assert after == (("nic-0000", "nic-0001"), ("nic-0002", "nic-0003"))


def test_place_packs_afresh_when_the_past_is_impossible() -> None:
    """Slices that somebody filled twice with one device, or beyond the limit, are not kept."""

    twice = (("nic-0000",), ("nic-0000",))
    beyond = (tuple(device.name for device in nics(65)),)

    assert names(place(twice, nics(1))) == (("nic-0000",),)
    assert [len(slot) for slot in place(beyond, nics(65))] == [64, 1]


def test_arrange_gathers_buckets_where_their_first_device_is() -> None:
    """Devices of one bucket become neighbours, and the rest keeps its order."""

    devices = [nic(1, bucket="x"), nic(2), nic(3, bucket="x"), nic(4)]

    assert [d.name for d in arrange(devices)] == ["nic-0001", "nic-0003", "nic-0002", "nic-0004"]


@st.composite
def inventories(draw: st.DrawFn) -> list[Device]:
    """Draw an inventory in its order of publication: groups, each with buckets."""
    numbers = draw(st.sets(st.integers(0, 400), max_size=200))
    groups = draw(st.permutations(["a", "b", "c"]))
    skips = draw(st.tuples(*[st.sampled_from(["", "*", "NodeUnprepareResources"])] * 3))
    devices = [
        nic(
            number,
            group=groups[number % 3],
            bucket=f"pf{number % 7}" if number % 2 else "",
            skips=skips[number % 3],
        )
        for number in sorted(numbers)
    ]
    return sorted(devices, key=lambda device: groups.index(device.group))


@given(before=inventories(), after=inventories(), changed=st.sets(st.integers(0, 400), max_size=3))
def test_place_gives_a_valid_set_whatever_changes(
    before: list[Device], after: list[Device], changed: set[int]
) -> None:
    """Every device lies in one slice, no slice is too full, and the result is its own successor."""

    previous = names(place((), before))
    placed = place(previous, after, changed={f"nic-{number:04d}" for number in changed})

    assert sorted(chain.from_iterable(names(placed))) == sorted(device.name for device in after)
    assert all(len(slot) <= SLICE_LIMIT for slot in placed)
    assert all(len({device.skips for device in slot}) <= 1 for slot in placed)
    assert names(placed) == names(place(names(placed), after))


@given(devices=inventories(), data=st.data())
def test_place_rewrites_one_slice_when_one_device_leaves(
    devices: list[Device], data: st.DataObject
) -> None:
    """Whatever the inventory, a device that vanishes concerns its own slice alone."""

    if not devices:
        return
    before = names(place((), devices))
    gone = data.draw(st.sampled_from(devices))
    left = [device for device in devices if device is not gone]
    after = names(place(before, left))
    kept_order = list(dict.fromkeys((d.type, d.group) for d in arrange(left))) == list(
        dict.fromkeys(
            (d.type, d.group)
            for name in chain.from_iterable(before)
            for d in left
            if d.name == name
        )
    )

    assert not kept_order or differing(before, after) == 1


def test_place_ignores_facts_that_are_not_about_place() -> None:
    """A device whose attributes change keeps its slice."""

    before = names(place((), nics(129)))
    changed = [attrs.evolve(device, attributes={"mtu": 9000}) for device in nics(129)]

    assert before == names(place(before, changed, changed={"nic-0128"}))
