"""Names of GPUs and their parts."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.gpu.naming import gpu_name, mig_identity, mig_names, profile_of, vfio_name
from berth.model.gpu import Gpu, Placement
from berth.model.names import is_dns_label
from tests.unit.gpu.machine import divided, gpu, part

_PLACES = st.none() | st.builds(Placement, start=st.integers(0, 12), size=st.integers(1, 8))
_TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["NVIDIA H100 MIG 1g.10gb", "X MIG 1c.2g.20gb", "MIG 1g.24gb+me", ""]),
)


@st.composite
def strange(draw: st.DrawFn) -> Gpu:
    """A GPU whose parts are called and placed as nobody would expect."""
    ids = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 7)), max_size=8, unique=True))
    parts = [
        part(
            number,
            "1g.10gb",
            0,
            gi_id=gi_id,
            ci_id=ci_id,
            name=draw(_TEXTS),
            gi_placement=draw(_PLACES),
            ci_placement=draw(_PLACES),
        )
        for number, (gi_id, ci_id) in enumerate(ids)
    ]
    return divided(0, *parts)


@given(strange(), st.randoms(use_true_random=False))
def test_names_of_parts_are_labels_of_their_own(one: Gpu, chance: random.Random) -> None:
    """Whatever the driver says, and in whatever order."""

    names = mig_names(one)
    shuffled = list(one.mig_devices)
    chance.shuffle(shuffled)

    assert all(map(is_dns_label, names.values()))
    assert len({*names.values()}) == len(one.mig_devices)
    assert mig_names(attrs.evolve(one, mig_devices=tuple(shuffled))) == names


@given(st.integers(0, 2**32 - 1), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_names_of_functions_are_labels(domain: int, bus: int, slot: int, number: int) -> None:
    """Also where the domain has more than four digits, which the name keeps."""

    address = f"{domain:04x}:{bus:02x}:{slot:02x}.{number}"

    assert is_dns_label(gpu_name(address))
    assert vfio_name(address) == f"vfio-{address.replace(':', '-').replace('.', '-')}"


@pytest.mark.parametrize(
    ("told", "profile", "name"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb", "mig-1g10gb-4"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me", "mig-1g10gb-me-4"),
        ("NVIDIA RTX MIG 1g.24gb-me", "1g.24gb-me", "mig-1g24gb-no-me-4"),
        ("NVIDIA H100 MIG 1c.2g.20gb", "1c.2g.20gb", "mig-1c2g20gb-4"),
        ("", "1g.10gb", "mig-1g10gb-4"),
        ("NVIDIA MIG ../../etc", "1g.10gb", "mig-1g10gb-4"),
    ],
)
def test_profile_is_told_by_the_part_or_by_its_kind(told: str, profile: str, name: str) -> None:
    """A name that tells none leaves it to the profile of the GPU instance."""

    mig = part(1, "1g.10gb", 4, gi_id=11, name=told)
    one = divided(0, mig)

    assert profile_of(mig, one) == profile
    assert mig_names(one)[mig.uuid] == f"gpu-0000-1b-00-0-{name}"


def test_identity_of_a_part_is_its_place() -> None:
    """The ids that the driver gives at each making are not part of it, but where all else fails."""

    mig = part(1, "1g.10gb", 4, gi_id=11)
    other = attrs.evolve(mig, gi_id=7)
    blind = attrs.evolve(mig, gi_placement=None)

    assert mig_identity(gpu(0), mig) == mig_identity(gpu(0), other)
    assert mig_identity(gpu(0), mig) == "pci:0000:1b:00.0/1g.10gb/4+1/0+1"
    assert mig_identity(gpu(0), blind) == "pci:0000:1b:00.0/gi11/ci0"
