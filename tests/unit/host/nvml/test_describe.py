"""What a walk tells of each GPU."""

from __future__ import annotations

import attrs
import pytest

from berth.model.gpu import Engines, Gpu, Placement
from berth.rehearsal.nvml.world import CallFault, Mig
from tests.nvml import cards
from tests.unit.host.nvml.conftest import FULL, OTHER, PARTED, Opened, Show


def by_address(gpus: tuple[Gpu, ...]) -> dict[str, Gpu]:
    """Give GPUs by their address."""
    return {gpu.address: gpu for gpu in gpus}


async def test_whole_gpu_is_described(opened: Opened) -> None:
    """Every value comes in our form; what this GPU does not have is left out."""

    async with opened(hold=False) as owner:
        found = await owner.walk()
    gpu = found.gpus[0]

    assert found.driver is not None
    assert (found.driver.version, found.driver.cuda) == ("580.65.06", 13000)
    assert gpu == Gpu(
        address="0000:3b:00.0",
        uuid=FULL.uuid,
        minor=0,
        device_id="2330",
        name="NVIDIA H100 80GB HBM3",
        brand="Nvidia",
        architecture="Hopper",
        compute_capability=(9, 0),
        memory_bytes=81559 << 20,
    )


async def test_parted_gpu_has_its_mig_devices(opened: Opened) -> None:
    """Ids, placements and engines are the instance's own; profiles go by the id of NVML's info."""

    async with opened(hold=False) as owner:
        gpu = by_address((await owner.walk()).gpus)[PARTED.address]
    first = gpu.mig_devices[0]

    assert (gpu.mig_current, gpu.mig_pending, gpu.missing) == (True, True, {})
    assert [(one.gi_id, one.gi_profile) for one in gpu.mig_devices] == [(7, 9), (9, 19)]
    assert (first.gi_placement, first.ci_placement) == (
        Placement(start=4, size=4),
        Placement(start=0, size=3),
    )
    assert first.engines == Engines(
        multiprocessors=42,
        copy_engines=3,
        decoders=2,
        encoders=0,
        jpeg_engines=0,
        ofa_engines=0,
        memory_mib=20096,
    )
    names = {profile.id: profile.name for profile in gpu.mig_profiles}
    assert names[19] == "1g.5gb"
    assert names[20] == "1g.5gb+me"
    assert {profile.id: profile.placements for profile in gpu.mig_profiles}[9] == (
        Placement(start=0, size=4),
        Placement(start=4, size=4),
    )


async def test_mig_without_rights_has_ids_alone(opened: Opened, show: Show) -> None:
    """The devices are there, without placement, and the reason is noted once."""

    assert PARTED.mig is not None
    show(cards(attrs.evolve(PARTED, mig=attrs.evolve(PARTED.mig, rights=False))))
    async with opened(hold=False) as owner:
        (gpu,) = (await owner.walk()).gpus

    assert [(one.gi_id, one.gi_placement) for one in gpu.mig_devices] == [(7, None), (9, None)]
    assert gpu.missing == {"mig_placement": "no permission (4)"}


async def test_odd_instance_hides_no_sibling(opened: Opened, show: Show) -> None:
    """Several parts of one instance, and one that nobody knows, are devices like others."""

    assert PARTED.mig is not None
    odd = attrs.evolve(PARTED.mig.parts[0], slot=6, id=3, profile=7, uuid="MIG-odd")
    unknown = attrs.evolve(PARTED.mig.parts[0], slot=4, gi=99, uuid="MIG-unknown")
    mig = attrs.evolve(PARTED.mig, parts=(*PARTED.mig.parts, odd, unknown))
    show(cards(attrs.evolve(PARTED, mig=mig)))
    async with opened(hold=False) as owner:
        (gpu,) = (await owner.walk()).gpus

    told = {one.uuid: (one.gi_id, one.ci_id, one.gi_profile) for one in gpu.mig_devices}
    assert len(told) == 4
    assert told["MIG-odd"] == (7, 3, 9)
    assert told["MIG-unknown"] == (99, 0, None)


async def test_mig_mode_that_is_pending_is_told(opened: Opened, show: Show) -> None:
    """Current and pending mode are two things; profiles are known with the mode off too."""

    mig = Mig(pending=True, profiles=(PARTED.mig or Mig()).profiles)
    show(cards(attrs.evolve(PARTED, mig=mig)))
    async with opened(hold=False) as owner:
        (gpu,) = (await owner.walk()).gpus

    assert (gpu.mig_current, gpu.mig_pending, gpu.mig_devices) == (False, True, ())
    assert len(gpu.mig_profiles) == 7


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("nvmlDeviceGetUUID", "uuid"),
        ("nvmlDeviceGetMinorNumber", "minor"),
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetBrand", "brand"),
        ("nvmlDeviceGetMemoryInfo", "memory"),
        ("nvmlDeviceGetMigMode", "mig_mode"),
    ],
)
async def test_call_that_fails_is_noted_for_its_gpu_alone(
    opened: Opened, show: Show, call: str, name: str
) -> None:
    """The others have everything, and so has this one but for that."""

    show(cards(attrs.evolve(FULL, faults=(CallFault(call=call, result=999),)), OTHER))
    async with opened(hold=False) as owner:
        first, second = (await owner.walk()).gpus

    assert first.missing == {name: "unknown error (999)"}
    assert second.missing == {}


async def test_unknown_numbers_have_no_word(opened: Opened, show: Show) -> None:
    """A brand or architecture that is not known here is empty, and no fault."""

    show(cards(attrs.evolve(FULL, brand=77, architecture=99, addressing=2)))
    async with opened(hold=False) as owner:
        (gpu,) = (await owner.walk()).gpus

    assert (gpu.brand, gpu.architecture, gpu.addressing_mode) == ("", "", "ATS")
    assert gpu.missing == {}


async def test_name_that_is_no_text_is_noted(opened: Opened, show: Show, tmp_path: object) -> None:
    """Bytes that are not UTF-8 do not end the walk."""

    world = cards(attrs.evolve(FULL, name="GPU \udce9"), OTHER)
    show(world)
    async with opened(hold=False) as owner:
        gpus = (await owner.walk()).gpus

    assert gpus[0].missing == {"name": "text that is not UTF-8"}
    assert gpus[1].missing == {}
