"""The MIG devices of one GPU, and the profiles into which it could be divided. Blocks.

One odd instance hides none of its siblings: what it does not tell is left out or noted, and the
walk goes on. Handles die with their instance, so none is kept.

Source: GH §1.1 (calls, ids), §1.4.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import attrs
import pynvml

from berth.host.nvml.calls import NOT_SUPPORTED, ask, believed
from berth.host.nvml.values import Refusal
from berth.host.nvml.words import profile_name
from berth.model.gpu import Engines, MigDevice, MigProfile, Placement

_NOT_FOUND: Final = 6
_SKIPPED: Final = (2, *NOT_SUPPORTED)
"""Refusals of a profile's enum that say that this GPU does not have it."""

MEMORY_LIMIT: Final = 1 << 50
"""Most memory that a GPU is believed to have, in bytes: a pebibyte."""

_SLOTS_LIMIT: Final = 64
_PLACES_LIMIT: Final = 64
# Several times what GPUs have, which is 7 MIG devices, and 8 places for the smallest of them.


@attrs.frozen(kw_only=True)
class _Position:
    """Where an instance lies."""

    profile: int | None = None
    gi: Placement | None = None
    ci: Placement | None = None


def engines_of(handle: Any) -> Engines | None:
    """Give what a GPU or MIG device has; ``None`` where NVML does not say."""
    answer: Any = ask(pynvml.nvmlDeviceGetAttributes_v2, handle)
    if isinstance(answer, Refusal) or answer.memorySizeMB << 20 > MEMORY_LIMIT:
        return None
    return Engines(
        multiprocessors=answer.multiprocessorCount,
        copy_engines=answer.sharedCopyEngineCount,
        decoders=answer.sharedDecoderCount,
        encoders=answer.sharedEncoderCount,
        jpeg_engines=answer.sharedJpegCount,
        ofa_engines=answer.sharedOfaCount,
        memory_mib=answer.memorySizeMB,
    )


def devices(gpu: Any, missing: dict[str, str]) -> tuple[MigDevice, ...]:
    """Give the MIG devices of a GPU whose mode is on; adds what failed to ``missing``."""
    slots = believed(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu), _SLOTS_LIMIT)
    if isinstance(slots, Refusal):
        missing["mig_devices"] = slots.text
        return ()
    found = []
    for slot in range(slots):
        handle: Any = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, slot)
        if isinstance(handle, Refusal):
            if handle.code != _NOT_FOUND:
                missing[f"mig_device_{slot}"] = handle.text
            continue
        device = _device(gpu, handle, missing)
        if isinstance(device, Refusal):
            missing[f"mig_device_{slot}"] = device.text
        else:
            found.append(device)
    return tuple(found)


def profiles(gpu: Any, missing: dict[str, str]) -> tuple[MigProfile, ...]:
    """Give the kinds of GPU instance that a GPU can have, by NVML's order."""
    found = []
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = _profile(gpu, number)
        if isinstance(info, MigProfile):
            found.append(info)
        elif info.code not in _SKIPPED:
            missing[f"mig_profile_{number}"] = info.text
    return tuple(found)


def _device(gpu: Any, handle: Any, missing: dict[str, str]) -> MigDevice | Refusal:
    uuid: Any = ask(pynvml.nvmlDeviceGetUUID, handle)
    gi: Any = ask(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    ci: Any = ask(pynvml.nvmlDeviceGetComputeInstanceId, handle)
    for answer in (uuid, gi, ci):
        if isinstance(answer, Refusal):
            return answer
    name: Any = ask(pynvml.nvmlDeviceGetName, handle)
    position = _position(gpu, gi, ci)
    if isinstance(position, Refusal):
        missing["mig_placement"] = position.text
        position = _Position()
    return MigDevice(
        uuid=uuid,
        name="" if isinstance(name, Refusal) else name,
        gi_id=gi,
        ci_id=ci,
        engines=engines_of(handle),
        gi_profile=position.profile,
        gi_placement=position.gi,
        ci_placement=position.ci,
    )


def _position(gpu: Any, gi: int, ci: int) -> _Position | Refusal:
    instance: Any = ask(pynvml.nvmlDeviceGetGpuInstanceById, gpu, gi)
    if isinstance(instance, Refusal):
        return instance
    info: Any = ask(pynvml.nvmlGpuInstanceGetInfo, instance)
    if isinstance(info, Refusal):
        return info
    compute: Any = ask(pynvml.nvmlGpuInstanceGetComputeInstanceById, instance, ci)
    if not isinstance(compute, Refusal):
        compute = ask(pynvml.nvmlComputeInstanceGetInfo_v2, compute)
    return _Position(
        profile=info.profileId,
        gi=_placement(info.placement),
        ci=None if isinstance(compute, Refusal) else _placement(compute.placement),
    )


def _profile(gpu: Any, number: int) -> MigProfile | Refusal:
    info: Any = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, number, 2)
    if isinstance(info, Refusal) and info.code in {13, 25}:
        info = ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, number, 1)
    if isinstance(info, Refusal):
        return info
    memory = believed(info.memorySizeMB << 20, MEMORY_LIMIT)
    if isinstance(memory, Refusal):
        return memory
    name: Any = ask(getattr, info, "name", "")  # decodes; version 1 has none
    return MigProfile(
        id=info.id,
        name="" if isinstance(name, Refusal) else profile_name(name),
        engines=Engines(
            multiprocessors=info.multiprocessorCount,
            copy_engines=info.copyEngineCount,
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg_engines=info.jpegCount,
            ofa_engines=info.ofaCount,
            memory_mib=info.memorySizeMB,
        ),
        placements=_placements(gpu, info.id),
    )


def _placements(gpu: Any, profile: int) -> tuple[Placement, ...]:
    """Give where instances of a profile could lie; none where NVML does not say."""
    ask_for = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    count = ctypes.c_uint(0)
    if isinstance(ask(ask_for, gpu, profile, None, ctypes.byref(count)), Refusal):
        return ()
    if isinstance(believed(count.value, _PLACES_LIMIT), Refusal):
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if isinstance(ask(ask_for, gpu, profile, places, ctypes.byref(count)), Refusal):
        return ()
    return tuple(_placement(place) for place in places[: count.value])


def _placement(place: Any) -> Placement:
    return Placement(start=place.start, size=place.size)
