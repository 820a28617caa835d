"""Single calls of pynvml, whose errors become values in the thread that made them.

An ``NVMLError`` goes no further: it cannot be hashed, compares with nothing else, and to print it
may call the library. Everything blocks.

Source: nvidia-ml-py 13.615.71; GH §2.1.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import attrs
import pynvml

from berth.host.nvml.progress import came_back
from berth.host.nvml.values import WANTED, NvmlEvent, Probe, Refusal, event_of
from berth.host.nvml.words import pci_address

T = TypeVar("T")

SYMBOLS: Final = (
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetCreate",
    "nvmlEventSetWait_v2",
    "nvmlEventSetFree",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlComputeInstanceGetInfo_v2",
)
"""Every symbol that is reached from here; none of them changes a GPU."""

FIELDS: Final = (230, 144, 145, 31, 307)
"""What a probe asks: recovery action; remap pending and failed; retired pages; bank remap."""

NOT_SUPPORTED: Final = (3, 13, 25)
"""Refusals that say what the library or GPU cannot, not what went wrong."""

LINKS: Final[int] = pynvml.NVML_NVLINK_MAX_LINKS
"""NVLinks that a GPU may have; most have fewer, and say so of each number beyond."""

NO_LINK: Final = (2, *NOT_SUPPORTED)
"""Refusals of a link's number that say that this GPU has no such link."""

GPUS_LIMIT: Final = 248
"""Most GPUs: the driver has nodes for no more, numbered below those that are for all of them.

Source: NVIDIA open kernel modules 580, ``NV_MINOR_DEVICE_NUMBER_REGULAR_MAX``.
"""


@attrs.frozen(kw_only=True)
class Identified:
    """A GPU's handle, which is valid for the session, and its address."""

    handle: Any
    address: str


def ask(function: Callable[..., T], *arguments: Any) -> T | Refusal:
    """Give what a function of pynvml gives, or NVML's error as a value."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        return Refusal.of(int(error.value))
    except pynvml.NVMLLibraryMismatchError:
        # What pynvml makes of FUNCTION_NOT_FOUND for some functions; it is no ``NVMLError``.
        return Refusal.of(13)
    except UnicodeDecodeError:
        return Refusal(code=0, text="text that is not UTF-8")
    finally:
        came_back()


def count() -> int | Refusal:
    """Give how many GPUs NVML lists."""
    return believed(ask(pynvml.nvmlDeviceGetCount), GPUS_LIMIT)


def believed(number: int | Refusal, limit: int) -> int | Refusal:
    """Give a number that NVML told, or, beyond a limit, the refusal to count or go by it."""
    if isinstance(number, Refusal) or 0 <= number <= limit:
        return number
    return Refusal(code=0, text=f"{number}, which makes no sense: at most {limit} can be")


def identify(index: int) -> Identified | Refusal:
    """Give the GPU that has this index now."""
    handle = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    if isinstance(handle, Refusal):
        return handle
    info: Any = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    if isinstance(info, Refusal):
        return info
    bus_id: Any = ask(getattr, info, "busId")  # decodes
    if isinstance(bus_id, Refusal):
        return bus_id
    return Identified(handle=handle, address=pci_address(bus_id))


def probe(handle: Any, fields: Sequence[int] = FIELDS) -> Probe | Refusal:
    """Ask a GPU for its fields; where it has none of them, for its memory, as a sign of life."""
    values: Any = ask(pynvml.nvmlDeviceGetFieldValues, handle, list(fields))
    if isinstance(values, Refusal):
        if values.code not in NOT_SUPPORTED:
            return values
        values = ()
    # By the order of the question: an answer need not be believed about what it answers.
    told = {field: _value(value) for field, value in zip(fields, values, strict=False)}
    answered = {field: value for field, value in told.items() if isinstance(value, int)}
    refused = {
        field: value
        for field, value in told.items()
        if isinstance(value, Refusal) and value.code not in NOT_SUPPORTED
    }
    if not answered and not refused:
        sign: Any = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        if isinstance(sign, Refusal):
            return sign
    return Probe(fields=answered, refused=refused)


def link(handle: Any, number: int) -> str | Refusal | None:
    """Give the PCI address at the other end of an NVLink; ``None`` for a link that is not up."""
    active: Any = ask(pynvml.nvmlDeviceGetNvLinkState, handle, number)
    if isinstance(active, Refusal):
        return active
    if not active:
        return None
    info: Any = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
    bus_id: Any = info if isinstance(info, Refusal) else ask(getattr, info, "busId")  # decodes
    return bus_id if isinstance(bus_id, Refusal) else pci_address(bus_id)


def processes(handle: Any) -> tuple[int, ...] | Refusal:
    """Give the ids of the processes that compute on a GPU, its parts included."""
    found: Any = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if isinstance(found, Refusal):
        return found
    return tuple(sorted({int(each.pid) for each in found}))


def create_set() -> Any | Refusal:
    """Give a new event set."""
    return ask(pynvml.nvmlEventSetCreate)


def register(handle: Any, events: Any) -> Refusal | None:
    """Let a GPU's events go to a set: those that are wanted and that it has.

    One bit that it does not have would refuse all of them.
    """
    supported: Any = ask(pynvml.nvmlDeviceGetSupportedEventTypes, handle)
    if isinstance(supported, Refusal):
        return supported
    if not supported & WANTED:
        return Refusal.of(3)
    answer: Any = ask(pynvml.nvmlDeviceRegisterEvents, handle, supported & WANTED, events)
    return answer if isinstance(answer, Refusal) else None


def wait(events: Any, *, most_ms: int) -> Any | Refusal:
    """Give the next event of a set; TIMEOUT is a refusal like others."""
    return ask(pynvml.nvmlEventSetWait, events, most_ms)


def free_set(events: Any) -> Refusal | None:
    """Give a set back; nothing may wait on it."""
    return ask(pynvml.nvmlEventSetFree, events)


def pointer(handle: Any) -> int:
    """Give what a handle points to: two handles of one GPU differ, this does not."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def uuid_of(handle: Any) -> str:
    """Give a GPU's UUID; empty when it does not tell."""
    answer: Any = ask(pynvml.nvmlDeviceGetUUID, handle)
    return "" if isinstance(answer, Refusal) else str(answer)


def event_at(address: str, data: Any) -> NvmlEvent:
    """Give NVML's event data as a value."""
    return event_of(
        address=address,
        number=data.eventType,
        data=data.eventData,
        gi=data.gpuInstanceId,
        ci=data.computeInstanceId,
    )


_BY_TYPE: Final = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}


def _value(value: Any) -> int | Refusal:
    if value.nvmlReturn != 0:
        return Refusal.of(value.nvmlReturn)
    number: float = getattr(value.value, _BY_TYPE.get(value.valueType, "ullVal"))
    if not math.isfinite(number):
        return Refusal(code=0, text="a value that is no number")
    return int(number)
