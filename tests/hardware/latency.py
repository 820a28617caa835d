"""How long calls on each GPU take, in a session of this process.

As a program it tells figures as one line of JSON:

    python -m tests.hardware.latency SECONDS [LIBRARY]
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import pynvml

from berth.host.nvml.calls import FIELDS
from berth.host.nvml.words import pci_address

_PAUSE_S: Final = 0.005


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """Probe every GPU in turns for so long; latencies in microseconds, by address."""
    handles = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        handles[pci_address(pynvml.nvmlDeviceGetPciInfo(handle).busId)] = handle
    taken: dict[str, list[float]] = {address: [] for address in handles}
    refused = dict.fromkeys(handles, 0)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for address, handle in handles.items():
            us, well = _one(handle)
            taken[address].append(us)
            refused[address] += not well
        time.sleep(_PAUSE_S)
    return {address: {**_figures(us), "refused": refused[address]} for address, us in taken.items()}


def _one(handle: Any) -> tuple[float, bool]:
    began, well = time.perf_counter(), True
    try:
        pynvml.nvmlDeviceGetFieldValues(handle, list(FIELDS))
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError:
        well = False
    return (time.perf_counter() - began) * 1e6, well


def _figures(us: Sequence[float]) -> dict[str, float]:
    ordered = sorted(us)
    places = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    found = {name: ordered[int((len(ordered) - 1) * part)] for name, part in places.items()}
    return {"calls": len(ordered), **{name: round(value, 1) for name, value in found.items()}}


def main(seconds: str, library: str = "") -> int:
    """Measure and tell."""
    if library:
        ctypes.CDLL(library, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    pynvml.nvmlInitWithFlags(1)
    print(json.dumps(measure(float(seconds))))  # noqa: T201 - a program's answer
    pynvml.nvmlShutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
