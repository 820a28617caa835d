"""Describes one GPU: many calls, each of which may fail for this device alone. Blocks.

Source: GH §1.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from berth.host.nvml import mig, words
from berth.host.nvml.calls import GPUS_LIMIT, NOT_SUPPORTED, ask, believed
from berth.host.nvml.values import Refusal
from berth.model.gpu import Gpu

T = TypeVar("T")


class Notes:
    """What one GPU did not tell, and why."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def take(
        self,
        name: str,
        default: T,
        function: Callable[..., Any],
        *arguments: Any,
        read: Callable[[Any], T | Refusal] = lambda answer: answer,
    ) -> T:
        """Give what a call answers, read into a value, or the default and a note."""
        answer: Any = ask(function, *arguments)
        if not isinstance(answer, Refusal):
            answer = ask(read, answer)  # a struct's texts are decoded when they are read
        if isinstance(answer, Refusal):
            self.missing[name] = answer.text
            return default
        taken: T = answer
        return taken


def gpu(handle: Any, address: str) -> Gpu:
    """Give everything that a GPU tells of itself."""
    notes = Notes()
    mode: Any = ask(pynvml.nvmlDeviceGetMigMode, handle)
    able = not isinstance(mode, Refusal)
    if isinstance(mode, Refusal) and mode.code not in NOT_SUPPORTED:
        notes.missing["mig_mode"] = mode.text
    current = able and bool(mode[0])
    take = notes.take
    return Gpu(
        address=address,
        uuid=take("uuid", "", pynvml.nvmlDeviceGetUUID, handle),
        minor=take("minor", None, pynvml.nvmlDeviceGetMinorNumber, handle, read=_minor),
        device_id=take("device_id", "", pynvml.nvmlDeviceGetPciInfo, handle, read=_device_id),
        name=take("name", "", pynvml.nvmlDeviceGetName, handle),
        brand=take("brand", "", pynvml.nvmlDeviceGetBrand, handle, read=_brand),
        architecture=take("architecture", "", pynvml.nvmlDeviceGetArchitecture, handle, read=_arch),
        compute_capability=take(
            "compute_capability", None, pynvml.nvmlDeviceGetCudaComputeCapability, handle
        ),
        memory_bytes=take("memory", None, pynvml.nvmlDeviceGetMemoryInfo, handle, read=_total),
        addressing_mode=take(
            "addressing_mode", "", pynvml.nvmlDeviceGetAddressingMode, handle, read=_addressing
        ),
        mig_current=current,
        mig_pending=able and bool(mode[1]),
        engines=mig.engines_of(handle),
        mig_devices=mig.devices(handle, notes.missing) if current else (),
        mig_profiles=mig.profiles(handle, notes.missing) if able else (),
        missing=notes.missing,
    )


def _device_id(info: Any) -> str:
    return words.device_id(info.pciDeviceId)


def _brand(number: int) -> str:
    return words.BRANDS.get(number, "")


def _arch(number: int) -> str:
    return words.ARCHITECTURES.get(number, "")


def _minor(number: int) -> int | Refusal:
    return believed(number, GPUS_LIMIT - 1)


def _total(memory: Any) -> int | Refusal:
    return believed(int(memory.total), mig.MEMORY_LIMIT)


def _addressing(number: int) -> str:
    return words.ADDRESSING.get(number, "")
