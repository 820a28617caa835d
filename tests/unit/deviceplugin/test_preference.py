"""Which units are preferred: near ones, well ones, as many as asked for, whatever is asked."""

from __future__ import annotations

import random
import time

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.deviceplugin.preference import Wish, prefer
from berth.errors import ClaimError
from berth.model.resource import Resource, Unit

NAME = "example.com/gpu"


def gpus(count: int = 8) -> tuple[Unit, ...]:
    """Give GPUs as a server has them: half at each NUMA node, two at each PCIe root."""
    return tuple(
        Unit(
            id=f"GPU-{number}",
            device=f"gpu-{number}",
            numa=(number // 4,),
            pcie_root=f"pci0000:{number // 2}0",
        )
        for number in range(count)
    )


def shares(devices: int, slots: int, **flags: bool) -> Resource:
    """Give a resource of GPUs that are shared."""
    units = tuple(
        attrs.evolve(gpu, id=f"{gpu.id}::{share}")
        for gpu in gpus(devices)
        for share in range(slots)
    )
    return Resource(name=NAME, units=units, **flags)


def ask(resource: Resource, *available: str, must: tuple[str, ...] = (), size: int = 1) -> str:
    """Give the preferred ids as the numbers in them; everything is available unless named."""
    names = available or tuple(unit.id for unit in resource.units)
    ids = prefer(resource, Wish(available=names, must=must, size=size))
    return " ".join(name.removeprefix("GPU-") for name in ids)


def test_functions_of_one_iommu_group_are_not_given_together() -> None:
    """Whoever has one has the group, so a second of it would be refused: its pod would fail."""

    bundles = ("iommu:7", "iommu:7", "", "iommu:9")
    units = tuple(attrs.evolve(u, bundle=b) for u, b in zip(gpus(4), bundles, strict=True))
    resource = Resource(name=NAME, units=units)

    assert ask(resource, size=2) == "2 3"
    assert ask(resource, "GPU-0", "GPU-1", "GPU-2", size=2) == "0 2"
    assert ask(resource, "GPU-0", "GPU-1", "GPU-3", size=2) == "0 3"
    assert ask(resource, must=("GPU-1",), size=3) == "1 2 3"
    with pytest.raises(ClaimError, match=r"3 of the 4 available .*one function of an IOMMU group"):
        ask(resource, size=4)


@pytest.mark.parametrize(
    ("available", "must", "size", "wanted"),
    [
        ("01234567", "", 1, "0"),
        ("01234567", "", 2, "0 1"),
        ("1234567", "", 2, "2 3"),
        ("134567", "", 2, "4 5"),
        ("1357", "", 2, "1 3"),
        ("01234567", "", 4, "0 1 2 3"),
        ("0124567", "", 4, "4 5 6 7"),
        ("0124567", "", 3, "0 1 2"),
        ("01234567", "5", 2, "5 4"),
        ("0123567", "5", 2, "5 6"),
        ("01234567", "6", 4, "6 7 4 5"),
        ("0123456", "6", 5, "6 4 5 0 1"),
        ("01234567", "", 7, "0 1 2 3 4 5 6"),
    ],
)
def test_prefer_takes_what_lies_near(available: str, must: str, size: int, wanted: str) -> None:
    """One NUMA node rather than two, one PCIe root rather than two, and the tightest that fits."""

    resource = Resource(name=NAME, units=gpus())

    got = ask(
        resource,
        *(f"GPU-{number}" for number in available),
        must=tuple(f"GPU-{number}" for number in must),
        size=size,
    )

    assert wanted == got


def test_prefer_leaves_sick_and_held_units_for_the_last() -> None:
    """Case 17: seven of eight are chosen without the sick one, all eight with it."""

    sick = attrs.evolve(gpus()[2], healthy=False)
    held = attrs.evolve(gpus()[5], held=True)
    resource = Resource(name=NAME, units=(*gpus()[:2], sick, *gpus()[3:5], held, *gpus()[6:]))

    assert ask(resource, size=6) == "0 1 3 6 7 4"
    assert sorted(ask(resource, size=8).split()) == list("01234567")
    assert ask(resource, "GPU-2", "GPU-5") == "2"


def test_prefer_takes_unknown_ids_last_and_keeps_given_ones() -> None:
    """What kubelet knows from an older list is no reason to fail."""

    resource = Resource(name=NAME, units=gpus(2))

    assert ask(resource, "GPU-9", "GPU-1") == "1"
    assert ask(resource, "GPU-9", "GPU-1", size=2) == "1 9"
    assert ask(resource, "GPU-1", must=("GPU-9",), size=2) == "9 1"


def test_prefer_spreads_shares_over_devices_unless_told_to_pack() -> None:
    """Devices that are shared least come first, or those that are shared most."""

    free = ("GPU-0::1", "GPU-0::2", "GPU-1::0", "GPU-1::1", "GPU-1::2", "GPU-2::2")

    assert ask(shares(3, 3), *free) == "1::0"
    assert ask(shares(3, 3), *free, size=2) == "1::0 0::1"
    assert ask(shares(3, 3, pack=True), *free) == "2::2"


def test_prefer_gives_several_shares_of_a_device_only_where_that_is_allowed() -> None:
    """Without ``many`` each id is another device's; with it, spreading goes round, packing not."""

    with pytest.raises(ClaimError) as caught:
        ask(shares(2, 3), size=3)

    assert str(caught.value) == (
        f"{NAME}: 3 ids are wanted, 2 of the 6 available ones can be given together: a container"
        " gets one share of a device; ask for fewer, or set share.many = true in the group"
    )
    assert ask(shares(2, 3, many=True), size=3) == "0::0 1::0 0::1"
    assert ask(shares(2, 3, many=True, pack=True), size=4) == "0::0 0::1 0::2 1::0"


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (Wish(available=("GPU-0",), must=(), size=2), "1 of the 1 available ones"),
        (Wish(available=("GPU-0",), must=("GPU-0", "GPU-1"), size=1), "2 of them given"),
        (Wish(available=("GPU-0",), must=(), size=0), "0 ids are wanted"),
        (Wish(available=("GPU-0",), must=(), size=-(2**31)), "-2147483648 ids are wanted"),
        (Wish(available=(), must=(), size=2**31 - 1), "2147483647 ids are wanted"),
    ],
)
def test_prefer_says_why_it_cannot(wish: Wish, text: str) -> None:
    """A wish that cannot be met is told with its numbers."""

    with pytest.raises(ClaimError, match=text):
        prefer(Resource(name=NAME, units=gpus()), wish)


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    """Draw a resource: devices with shares, anywhere, in any state, linked or not."""
    units: list[Unit] = []
    linked = draw(st.booleans())
    counts = st.dictionaries(st.sampled_from([f"d{number}" for number in range(6)]), st.just(2))
    for number in range(draw(st.integers(0, 6))):
        numa = draw(st.sampled_from([(), (0,), (1,), (0, 1)]))
        root = draw(st.sampled_from(["", "pci0000:00", "pci0000:40"]))
        links = draw(counts) if linked else {}
        units += [
            Unit(
                id=f"d{number}::{share}",
                device=f"d{number}",
                healthy=draw(st.booleans()),
                held=draw(st.booleans()),
                numa=numa,
                pcie_root=root,
                links=links,
            )
            for share in range(draw(st.integers(1, 3)))
        ]
    return Resource(
        name=NAME, units=tuple(units), pack=draw(st.booleans()), many=draw(st.booleans())
    )


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Resource, Wish]:
    """Draw a resource and what kubelet may ask about it, unknown ids included."""
    resource = draw(resources())
    ids = [unit.id for unit in resource.units] + ["unknown-1", "unknown-2"]
    available = draw(st.lists(st.sampled_from(ids), unique=True))
    must = draw(st.lists(st.sampled_from(available), unique=True)) if available else []
    size = draw(st.integers(max(1, len(must)), len(ids)))
    return resource, Wish(available=tuple(available), must=tuple(must), size=size)


@given(wishes())
def test_preference_is_exact_or_says_why(drawn: tuple[Resource, Wish]) -> None:
    """Exactly so many different available ids, given ones first, and no failure without need."""

    resource, wish = drawn
    device = {unit.id: unit.device for unit in resource.units}
    must = {device.get(name, name) for name in wish.must}
    others = {device.get(name, name) for name in wish.available} - must
    possible = len(set(wish.available)) if resource.many else len(wish.must) + len(others)

    if possible < wish.size:
        with pytest.raises(ClaimError):
            prefer(resource, wish)
        return
    ids = prefer(resource, wish)

    assert len(ids) == len(set(ids)) == wish.size
    assert ids[: len(wish.must)] == wish.must
    assert set(ids) <= set(wish.available)
    if not resource.many:
        added = [device.get(name, name) for name in ids[len(wish.must) :]]
        assert len(added) == len(set(added))
        assert not set(added) & must


@given(wishes())
def test_preference_takes_no_sick_unit_while_a_well_one_is_left(
    drawn: tuple[Resource, Wish],
) -> None:
    """A unit that is ill, held or unknown is only added when no well one could be."""

    resource, wish = drawn
    well = {unit.id: unit.device for unit in resource.units if unit.healthy and not unit.held}
    device = {unit.id: unit.device for unit in resource.units}
    try:
        ids = prefer(resource, wish)
    except ClaimError:
        return

    if any(name not in well for name in ids[len(wish.must) :]):
        taken = {device.get(name, name) for name in ids}
        left = set(wish.available) & well.keys() - set(ids)
        assert not {name for name in left if resource.many or well[name] not in taken}


@given(wishes(), st.randoms())
def test_preference_does_not_depend_on_the_order_of_ids(
    drawn: tuple[Resource, Wish], chance: random.Random
) -> None:
    """Kubelet sends its sets in any order; the answer is the same."""

    resource, wish = drawn
    mixed = list(wish.available)
    chance.shuffle(mixed)
    try:
        ids = prefer(resource, wish)
    except ClaimError:
        return

    assert ids == prefer(resource, attrs.evolve(wish, available=tuple(mixed)))


@pytest.mark.parametrize("flags", [{}, {"many": True}, {"many": True, "pack": True}])
@pytest.mark.parametrize("slots", [1, 32, 1024])
def test_prefer_is_quick_with_a_thousand_ids(slots: int, flags: dict[str, bool]) -> None:
    """Kubelet admits no other pod meanwhile: 1024 ids, wherever they lie, take no time."""

    units = tuple(
        Unit(
            id=f"d{number}::{share}",
            device=f"d{number}",
            numa=(number % 8,),
            pcie_root=f"pci{number:04x}:00",
        )
        for number in range(1024 // slots)
        for share in range(slots)
    )
    resource = Resource(name=NAME, units=units, **flags)
    names = tuple(unit.id for unit in units)
    size = 1000 if flags or slots == 1 else 1024 // slots
    began = time.process_time()

    ids = prefer(resource, Wish(available=names, must=names[:1], size=size))

    assert len(ids) == size
    # It takes some hundredths; coverage and a slow machine may take their share.
    assert time.process_time() - began < 2


def vfs(*bearers: str) -> tuple[Unit, ...]:
    """Give virtual functions of these physical ones, all equally near."""
    return tuple(
        Unit(id=f"GPU-{number}", device=f"vf-{number}", bearer=bearer, pcie_root="pci0000:40")
        for number, bearer in enumerate(bearers)
    )


@pytest.mark.parametrize(
    ("available", "size", "wanted"),
    [
        ("012345", 2, "0 3"),
        ("012345", 4, "0 3 1 4"),
        ("2345", 1, "3"),
        ("2345", 3, "3 4 5"),
        ("0125", 2, "0 1"),
    ],
)
def test_virtual_functions_are_spread_over_physical_ones(
    available: str, size: int, wanted: str
) -> None:
    """The function with the fewest given away comes first, and then the others in turn."""

    resource = Resource(name=NAME, units=vfs("a", "a", "a", "b", "b", "b"))

    assert ask(resource, *(f"GPU-{number}" for number in available), size=size) == wanted
