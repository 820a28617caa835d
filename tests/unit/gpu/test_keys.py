"""Two devices overlap when they share a key, and only then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.gpu.keys import SLICES, gpu_keys, mig_keys, vfio_keys
from berth.model.gpu import Gpu, MigDevice, Placement
from tests.unit.gpu.machine import address_of, gpu, part, uuid_of


@st.composite
def layouts(draw: st.DrawFn) -> Gpu:
    """A GPU with instances side by side, some of them divided into compute instances."""
    start = 0
    parts: list[MigDevice] = []
    for gi_id in range(draw(st.integers(1, 7))):
        size = draw(st.integers(1, SLICES - start))
        compute = draw(st.integers(1, size))
        pieces = draw(st.integers(1, compute))
        for piece in range(pieces):
            whole = pieces == 1
            inner = Placement(start=piece, size=compute if whole else 1)
            parts.append(_part(len(parts), gi_id, piece, Placement(start=start, size=size), inner))
        start += size
        if start == SLICES:
            break
    return gpu(draw(st.integers(0, 3)), mig_devices=tuple(parts))


def _part(number: int, gi_id: int, ci_id: int, gi: Placement, ci: Placement) -> MigDevice:
    return part(number, "1g.10gb", 0, gi_id=gi_id, ci_id=ci_id, gi_placement=gi, ci_placement=ci)


@given(layouts())
def test_parts_meet_their_whole_and_no_other_part(divided: Gpu) -> None:
    """Whatever the layout: a part shares with the whole, with itself, and with nothing else."""

    whole = {*gpu_keys(divided.address, divided.uuid)}
    parts = [{*mig_keys(divided, mig)} for mig in divided.mig_devices]

    for number, keys in enumerate(parts):
        assert keys & whole
        assert all(keys.isdisjoint(other) for other in parts[number + 1 :])


@given(layouts())
def test_gpus_do_not_meet(divided: Gpu) -> None:
    """Nothing of one GPU shares a key with anything of another."""

    other = {*gpu_keys(address_of(5), uuid_of(5))}
    every = {*gpu_keys(divided.address, divided.uuid)}
    every |= {key for mig in divided.mig_devices for key in mig_keys(divided, mig)}

    assert every.isdisjoint(other)


@given(st.integers(-(2**31), 2**32), st.integers(-(2**31), 2**32))
def test_absurd_placements_stay_parts_of_their_whole(start: int, size: int) -> None:
    """Numbers that no GPU has take no memory, and the part still meets the whole."""

    mig = part(1, "1g.10gb", 0, gi_id=1, gi_placement=Placement(start=start, size=size))
    one = gpu(0, mig_devices=(mig,))

    keys = mig_keys(one, mig)
    assert 0 < len(keys) <= SLICES
    assert {*keys} & {*gpu_keys(one.address, one.uuid)}


def test_function_for_machines_meets_its_whole_group() -> None:
    """Two of one group exclude each other, and each excludes every function of the group."""

    members = (address_of(0), address_of(1))
    one, other = {*vfio_keys(members, 7)}, {*vfio_keys(members, 7, uuid_of(1))}

    assert one & other
    assert one & {*gpu_keys(address_of(1), uuid_of(1))}
    assert one.isdisjoint({*gpu_keys(address_of(2), uuid_of(2))})
    assert {*gpu_keys(address_of(0), uuid_of(0))}.isdisjoint(gpu_keys(address_of(1), uuid_of(1)))


def test_function_for_machines_meets_a_part_that_somebody_still_holds() -> None:
    """The UUID that is remembered of the GPU keeps its parts apart from the machine."""

    mig = part(1, "1g.10gb", 3, gi_id=9)
    one = gpu(0, mig_devices=(mig,))

    assert {*mig_keys(one, mig)} & {*vfio_keys((one.address,), 7, one.uuid)}
