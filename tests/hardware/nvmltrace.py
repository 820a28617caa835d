"""Every call of GH §1.1 that reads: what it gives or with which error it refuses, and how long.

The calls are made straight through pynvml, so that nothing of berth's stands between the driver and
the record. Nothing here changes a GPU. Run as a program it prints its record as JSON:

    python -m tests.hardware.nvmltrace [LIBRARY]
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pynvml

from berth.host.nvml.calls import FIELDS, LINKS
from berth.host.nvml.words import pci_address

_ENGINES: Final = (
    "multiprocessorCount",
    "sharedCopyEngineCount",
    "sharedDecoderCount",
    "sharedEncoderCount",
    "sharedJpegCount",
    "sharedOfaCount",
    "gpuInstanceSliceCount",
    "computeInstanceSliceCount",
    "memorySizeMB",
)
_PROFILE: Final = (
    "id",
    "sliceCount",
    "instanceCount",
    "multiprocessorCount",
    "copyEngineCount",
    "decoderCount",
    "encoderCount",
    "jpegCount",
    "ofaCount",
    "memorySizeMB",
    "name",
)
_FUNCTION_NOT_FOUND: Final = 13
_SIGNS: Final = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetSupportedEventTypes",
)
"""Calls that give one number or text of a GPU."""


@attrs.frozen(kw_only=True)
class Call:
    """One call that was made.

    Attributes:
        symbol: As pynvml names it.
        of: PCI address; with a slot behind a slash for a MIG device; empty for the library.
        arguments: Those beside the handle.
        value: What it gave, in numbers, texts, lists and objects.
        error: NVML's code; 0 when it went well.
        us: How long it took, in microseconds.
    """

    symbol: str
    of: str = ""
    arguments: tuple[int | str, ...] = ()
    value: Any = None
    error: int = 0
    us: float = 0

    @property
    def key(self) -> tuple[object, ...]:
        """What it asked."""
        return self.symbol, self.of, self.arguments

    @property
    def answer(self) -> tuple[Any, int]:
        """What it was told."""
        return self.value, self.error


class Trace:
    """The calls so far."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def take(
        self,
        symbol: str,
        *arguments: Any,
        of: str = "",
        told: tuple[int | str, ...] = (),
        read: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """Make a call and keep what came of it.

        Args:
            told: The arguments as they are kept.
            read: Makes of its answer what is kept.

        Returns:
            The answer itself, or ``None`` for a refusal.
        """
        began = time.perf_counter()
        given: Any = None
        kept: Any = None
        error = 0
        try:
            given = getattr(pynvml, symbol)(*arguments)
            kept = read(given)
        except pynvml.NVMLError as refused:
            error = int(refused.value)
        except pynvml.NVMLLibraryMismatchError:
            error = _FUNCTION_NOT_FOUND
        us = round((time.perf_counter() - began) * 1e6, 1)
        self.calls.append(
            Call(symbol=symbol, of=of, arguments=told, value=kept, error=error, us=us)
        )
        return None if error else given


def trace() -> tuple[Call, ...]:
    """Ask everything of everything, in a session that is open."""
    kept = Trace()
    for symbol in ("DriverVersion", "NVMLVersion", "CudaDriverVersion_v2"):
        kept.take(f"nvmlSystemGet{symbol}")
    handles: dict[str, Any] = {}
    for index in range(kept.take("nvmlDeviceGetCount") or 0):
        handle = kept.take("nvmlDeviceGetHandleByIndex", index, told=(index,), read=lambda _: None)
        info = handle and kept.take("nvmlDeviceGetPciInfo", handle, told=(index,), read=_pci)
        if info:
            handles[pci_address(info.busId)] = handle
    for address, handle in handles.items():
        _describe(kept, address, handle)
        _parts(kept, address, handle)
        _profiles(kept, address, handle)
        _links(kept, address, handle)
        for other, peer in handles.items():
            if other > address:
                name = "nvmlDeviceGetTopologyCommonAncestor"
                kept.take(name, handle, peer, of=address, told=(other,))
    return tuple(kept.calls)


def _describe(kept: Trace, of: str, handle: Any) -> None:
    for symbol in _SIGNS:
        kept.take(symbol, handle, of=of)
    kept.take("nvmlDeviceGetCudaComputeCapability", handle, of=of, read=list)
    kept.take("nvmlDeviceGetMigMode", handle, of=of, read=list)
    memory = "nvmlDeviceGetMemoryInfo"
    kept.take(memory, handle, of=of, read=_fields("total"))
    version = int(pynvml.nvmlMemory_v2)
    kept.take(memory, handle, version, of=of, told=(version,), read=_fields("total"))
    kept.take("nvmlDeviceGetAttributes", handle, of=of, read=_fields(*_ENGINES))
    kept.take("nvmlDeviceGetComputeRunningProcesses", handle, of=of, read=len)
    for number in FIELDS:
        read = _field_value
        kept.take("nvmlDeviceGetFieldValues", handle, [number], of=of, told=(number,), read=read)


def _parts(kept: Trace, address: str, gpu: Any) -> None:
    slots = kept.take("nvmlDeviceGetMaxMigDeviceCount", gpu, of=address)
    for slot in range(slots or 0):
        name = "nvmlDeviceGetMigDeviceHandleByIndex"
        handle = kept.take(name, gpu, slot, of=address, told=(slot,), read=lambda _: None)
        if handle is None:
            continue
        of = f"{address}/{slot}"
        kept.take("nvmlDeviceGetUUID", handle, of=of)
        kept.take("nvmlDeviceGetName", handle, of=of)
        kept.take("nvmlDeviceGetAttributes", handle, of=of, read=_fields(*_ENGINES))
        gi = kept.take("nvmlDeviceGetGpuInstanceId", handle, of=of)
        ci = kept.take("nvmlDeviceGetComputeInstanceId", handle, of=of)
        if gi is not None and ci is not None:
            _position(kept, of, gpu, gi, ci)


def _position(kept: Trace, of: str, gpu: Any, gi: int, ci: int) -> None:
    told = (gi,)
    instance = kept.take(
        "nvmlDeviceGetGpuInstanceById", gpu, gi, of=of, told=told, read=lambda _: None
    )
    if instance is None:
        return
    kept.take("nvmlGpuInstanceGetInfo", instance, of=of, told=told, read=_instance)
    name = "nvmlGpuInstanceGetComputeInstanceById"
    compute = kept.take(name, instance, ci, of=of, told=(gi, ci), read=lambda _: None)
    if compute is not None:
        kept.take("nvmlComputeInstanceGetInfo", compute, of=of, told=(gi, ci), read=_instance)


def _profiles(kept: Trace, of: str, gpu: Any) -> None:
    name = "nvmlDeviceGetGpuInstanceProfileInfo"
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        read = _fields(*_PROFILE)
        info = kept.take(name, gpu, number, 2, of=of, told=(number, 2), read=read)
        if info is not None:
            _placements(kept, of, gpu, int(info.id))


def _placements(kept: Trace, of: str, gpu: Any, profile: int) -> None:
    name = "nvmlDeviceGetGpuInstancePossiblePlacements"
    count = ctypes.c_uint(0)
    sized = (gpu, profile, None, ctypes.byref(count))
    kept.take(name, *sized, of=of, told=(profile,), read=lambda _: count.value)
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()

    def read(_: Any) -> list[list[int]]:
        return [[place.start, place.size] for place in places[: count.value]]

    filled = (gpu, profile, places, ctypes.byref(count))
    kept.take(name, *filled, of=of, told=(profile, "filled"), read=read)


def _links(kept: Trace, of: str, gpu: Any) -> None:
    for link in range(LINKS):
        if kept.take("nvmlDeviceGetNvLinkState", gpu, link, of=of, told=(link,)):
            name = "nvmlDeviceGetNvLinkRemotePciInfo"
            kept.take(name, gpu, link, of=of, told=(link,), read=_pci)


def _fields(*names: str) -> Callable[[Any], Mapping[str, Any]]:
    return lambda struct: {name: getattr(struct, name) for name in names}


def _pci(info: Any) -> Mapping[str, Any]:
    return _fields("busId", "pciDeviceId", "pciSubSystemId")(info)


def _instance(info: Any) -> Mapping[str, Any]:
    place = info.placement
    return {"id": info.id, "profile": info.profileId, "place": [place.start, place.size]}


def _field_value(values: Sequence[Any]) -> list[int]:
    (value,) = values
    return [int(value.nvmlReturn), int(value.value.ullVal) if value.nvmlReturn == 0 else 0]


def to_json(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Give calls as they are kept."""
    return [attrs.asdict(call) for call in calls]


def from_json(document: Iterable[Mapping[str, Any]]) -> tuple[Call, ...]:
    """Give the calls that were kept."""
    return tuple(Call(**{**one, "arguments": tuple(one["arguments"])}) for one in document)


def differences(one: Iterable[Call], other: Iterable[Call]) -> Iterator[str]:
    """Tell which calls were answered otherwise, whatever time they took."""
    first = {call.key: call.answer for call in one}
    second = {call.key: call.answer for call in other}
    for key in sorted(first.keys() | second.keys(), key=str):
        if first.get(key) != second.get(key):
            yield f"{key}: {first.get(key, 'not asked')} and {second.get(key, 'not asked')}"


def main(library: str = "") -> int:
    """Print the record of a session of its own."""
    if library:
        ctypes.CDLL(library, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    pynvml.nvmlInitWithFlags(1)
    print(json.dumps(to_json(trace())))  # noqa: T201 - a program's answer
    pynvml.nvmlShutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
