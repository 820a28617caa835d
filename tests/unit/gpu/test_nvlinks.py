"""Which GPUs are near to each other by NVLink: directly, through switches, or not at all."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.gpu.nvlinks import linked, links_between
from berth.model.device import Exclusion
from tests.unit.gpu.machine import address_of, divided, function, gpu, look, part

A, B, C = (address_of(number) for number in range(3))
SWITCHES = ("0000:05:00.0", "0000:06:00.0")


def test_gpus_on_the_same_switches_are_equally_near() -> None:
    """As many links as each has to the switches that both have."""

    remotes = dict.fromkeys((A, B, C), SWITCHES * 6)

    assert links_between(remotes, (A, B, C)) == {
        A: {B: 12, C: 12},
        B: {A: 12, C: 12},
        C: {A: 12, B: 12},
    }


def test_bridged_gpus_have_their_partner_alone() -> None:
    """It is enough that one of the two tells of it."""

    remotes = {A: (B, B, B, B)}

    assert links_between(remotes, (A, B, C)) == {A: {B: 4}, B: {A: 4}, C: {}}


def test_gpu_with_fewer_links_to_a_switch_is_less_near() -> None:
    """What is in common is what counts; a link to oneself is none."""

    remotes = {A: SWITCHES * 2, B: (SWITCHES[0],) * 3, C: (C, SWITCHES[1])}

    assert links_between(remotes, (A, B, C)) == {A: {B: 2, C: 1}, B: {A: 2}, C: {A: 1}}


@pytest.mark.parametrize("nowhere", ["0000:00:00.0", "ffffffff:ff:ff.f", ""])
def test_address_that_no_bus_has_is_no_switch(nowhere: str) -> None:
    """Nothing says that two such ends are one."""

    assert links_between({A: (nowhere,), B: (nowhere,)}, (A, B)) == {A: {}, B: {}}


def test_gpu_that_is_not_asked_about_is_no_switch() -> None:
    """Two cards that are both bridged to a third are not linked by it."""

    assert links_between({A: (B,), B: (A, C), C: (B,)}, (A, C)) == {A: {}, C: {}}


@given(
    st.dictionaries(
        st.sampled_from((A, B, C)),
        st.lists(st.sampled_from((A, B, C, *SWITCHES, "0000:00:00.0"))),
    )
)
def test_links_are_the_same_from_both_ends(remotes: dict[str, list[str]]) -> None:
    """Whoever told of them, and nobody is near to himself."""

    found = links_between(remotes, (A, B, C))

    for one, others in found.items():
        assert one not in others
        assert all(found[other][one] == count > 0 for other, count in others.items())


def test_whole_gpus_alone_are_linked() -> None:
    """A divided GPU and its parts have no links, nor has one that is not offered."""

    gpus = (gpu(0), gpu(1), divided(2, part(7, "1g.10gb", 0, gi_id=9)), gpu(3))
    found = look(gpus, [function(number) for number in range(4)]).peripherals
    unfit = tuple(
        attrs.evolve(one, exclusion=Exclusion(reason="overlap"))
        if one.path == address_of(3)
        else one
        for one in found
    )
    remotes = {address_of(number): SWITCHES for number in range(4)}

    links = {one.name: dict(one.links) for one in linked(unfit, remotes) if one.links}

    assert links == {
        "gpu-0000-1b-00-0": {"gpu-0000-1c-00-0": 2},
        "gpu-0000-1c-00-0": {"gpu-0000-1b-00-0": 2},
    }
    assert linked(found, {}) == found


def test_divided_gpu_is_no_switch() -> None:
    """Two cards that were both bridged to it are not linked by that."""

    gpus = (gpu(0), gpu(1), divided(2, part(7, "1g.10gb", 0, gi_id=9)))
    found = look(gpus, [function(number) for number in range(3)]).peripherals
    remotes = {address_of(0): (address_of(2),), address_of(1): (address_of(2),)}

    assert linked(found, remotes) == found
