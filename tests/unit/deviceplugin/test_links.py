"""What NVLink does to a preference: it decides where NUMA and PCIe root leave a choice."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping

import attrs
import pytest

from berth.deviceplugin.links import between, promise, within
from berth.deviceplugin.preference import Wish, prefer
from berth.model.resource import Resource, Unit

NAME = "example.com/gpu"
Weights = Mapping[tuple[int, int], int]

PAIRS: Weights = {(number, number + 1): 4 for number in range(0, 8, 2)}
"""Four bridges over eight cards."""

SWITCHED: Weights = dict.fromkeys(itertools.combinations(range(8), 2), 12)
"""Eight GPUs on the same switches."""

MESH: Weights = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}
"""Six links of each of eight GPUs, some pairs with two, some with none."""


def gpus(weights: Weights, *, numa: int = 8, root: int = 1) -> tuple[Unit, ...]:
    """Give eight GPUs with these links.

    Args:
        numa: How many lie at a NUMA node.
        root: How many lie at a PCIe root.
    """
    return tuple(
        Unit(
            id=str(number),
            device=f"gpu-{number}",
            numa=(number // numa,),
            pcie_root=f"pci0000:{number // root}0",
            links={
                f"gpu-{other}": count
                for pair, count in weights.items()
                if number in pair
                for other in pair
                if other != number
            },
        )
        for number in range(8)
    )


def ask(units: tuple[Unit, ...], available: str, size: int, must: str = "", **flags: bool) -> str:
    """Give the preferred numbers."""
    wish = Wish(available=tuple(available), must=tuple(must), size=size)
    return "".join(prefer(Resource(name=NAME, units=units, **flags), wish))


def total(weights: Weights, chosen: Iterable[str]) -> int:
    """Count the links among those of these numbers."""
    pairs = itertools.combinations(sorted(map(int, chosen)), 2)
    return sum(weights.get(pair, 0) for pair in pairs)


@pytest.mark.parametrize(
    ("available", "must", "size", "wanted"),
    [
        ("01234567", "", 2, "01"),
        ("1234567", "", 2, "23"),
        ("1345", "", 2, "45"),
        ("134567", "", 4, "4567"),
        ("01234567", "5", 2, "54"),
        ("01234567", "27", 4, "2736"),
        ("1234567", "", 1, "1"),
        ("0123457", "", 1, "7"),
        ("01234567", "", 3, "012"),
    ],
)
def test_bridged_cards_are_given_together(
    available: str, must: str, size: int, wanted: str
) -> None:
    """And one that is asked for alone is taken where no bridge loses by it."""

    assert ask(gpus(PAIRS), available, size, must) == wanted


def test_numa_and_pcie_root_come_before_links() -> None:
    """Links across are no reason to take from two."""

    across: Weights = {(3, 4): 18, (1, 2): 18}

    assert ask(gpus(across, numa=4), "34567", 2) == "45"
    assert ask(gpus(across, root=2), "123", 2) == "23"
    assert ask(gpus(across, numa=4), "0123", 2) == "12"


def test_sick_gpu_is_not_taken_for_its_links() -> None:
    """Its partner is taken with another one, and it comes when none else is left."""

    units = gpus(PAIRS)
    sick = (attrs.evolve(units[0], healthy=False), *units[1:])

    assert ask(sick, "0123", 2, must="1") == "12"
    assert ask(sick, "01", 2, must="1") == "10"


def test_shares_of_linked_gpus_are_spread_over_them() -> None:
    """Links do not bring a container two shares of one device, nor change what is packed."""

    units = tuple(
        attrs.evolve(unit, id=f"{unit.id}.{share}") for unit in gpus(PAIRS) for share in range(2)
    )
    wish = Wish(available=tuple(unit.id for unit in units[2:]), must=(), size=2)

    spread = prefer(Resource(name=NAME, units=units), wish)
    packed = prefer(Resource(name=NAME, units=units, many=True, pack=True), wish)

    assert spread == ("2.0", "3.0")
    assert packed == ("1.0", "1.1")


@pytest.mark.parametrize(("weights", "missed"), [(PAIRS, 0), (SWITCHED, 0), (MESH, 2)])
def test_preference_finds_the_most_links(weights: Weights, missed: int) -> None:
    """Of whatever is available, compared with all sets that there are; in a mesh nearly so."""

    units = gpus(weights)
    for size in range(1, 9):
        for count in range(size, 9):
            for available in map("".join, itertools.combinations("01234567", count)):
                best = max(total(weights, each) for each in itertools.combinations(available, size))
                assert total(weights, ask(units, available, size)) >= best - missed


def test_prefer_is_quick_with_linked_gpus_and_many_shares() -> None:
    """Sixteen GPUs on one switch with 64 shares each: kubelet admits no other pod meanwhile."""

    names = [f"gpu-{number}" for number in range(16)]
    units = tuple(
        Unit(
            id=f"{name}::{share}",
            device=name,
            pcie_root=name,
            links=dict.fromkeys(set(names) - {name}, 18),
        )
        for name in names
        for share in range(64)
    )
    wish = Wish(available=tuple(unit.id for unit in units), must=(), size=500)
    began = time.process_time()

    ids = prefer(Resource(name=NAME, units=units, many=True), wish)

    assert len(set(ids)) == 500
    # It takes tenths; coverage and a slow machine may take their share.
    assert time.process_time() - began < 5


def test_links_are_counted_between_devices() -> None:
    """Within a set each pair counts once, and a promise is of the best."""

    units = gpus(MESH)

    assert between(units[:1], units[3:5]) == 4
    assert within(units) == sum(MESH.values())
    assert (promise(units[:1], units, 0), promise(units[:1], units, 3)) == (0, 5)
