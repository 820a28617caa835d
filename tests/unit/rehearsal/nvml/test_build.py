"""The stand-in's build: one ABI with pynvml, and the symbols that were agreed."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pynvml
import pytest

from berth.errors import HostError
from berth.rehearsal.nvml import build, world
from tests import nvml

SIZES = {
    "nvmlPciInfo_t": 68,
    "c_nvmlMemory_t": 24,
    "c_nvmlMemory_v2_t": 40,
    "c_nvmlDeviceAttributes": 40,
    "c_nvmlGpuInstanceProfileInfo_t": 48,
    "c_nvmlGpuInstanceProfileInfo_v2_t": 152,
    "c_nvmlGpuInstancePlacement_t": 8,
    "c_nvmlEventData_t": 32,
    "c_nvmlFieldValue_t": 40,
    "c_nvmlGpuInstanceInfo_t": 24,
    "c_nvmlComputeInstanceInfo_t": 32,
    "c_nvmlDeviceAddressingMode_t": 8,
    "c_nvmlProcessInfo_v3_t": 24,
}

OFFSETS = {
    "nvmlPciInfo_t": {
        "busIdLegacy": 0,
        "domain": 16,
        "bus": 20,
        "device": 24,
        "pciDeviceId": 28,
        "pciSubSystemId": 32,
        "busId": 36,
    },
    "c_nvmlMemory_v2_t": {"version": 0, "total": 8, "reserved": 16, "free": 24, "used": 32},
    "c_nvmlDeviceAttributes": {"memorySizeMB": 32},
    "c_nvmlGpuInstanceProfileInfo_v2_t": {"version": 0, "id": 4, "memorySizeMB": 48, "name": 56},
    "c_nvmlGpuInstancePlacement_t": {"start": 0, "size": 4},
    "c_nvmlEventData_t": {
        "device": 0,
        "eventType": 8,
        "eventData": 16,
        "gpuInstanceId": 24,
        "computeInstanceId": 28,
    },
    "c_nvmlFieldValue_t": {
        "fieldId": 0,
        "scopeId": 4,
        "timestamp": 8,
        "latencyUsec": 16,
        "valueType": 24,
        "nvmlReturn": 28,
        "value": 32,
    },
    "c_nvmlGpuInstanceInfo_t": {"device": 0, "id": 8, "profileId": 12, "placement": 16},
    "c_nvmlComputeInstanceInfo_t": {
        "device": 0,
        "gpuInstance": 8,
        "id": 16,
        "profileId": 20,
        "placement": 24,
    },
    "c_nvmlDeviceAddressingMode_t": {"version": 0},
}

VERSIONS = {
    "nvmlMemory_v2": 0x02000028,
    "nvmlGpuInstanceProfileInfo_v2": 0x02000098,
    "nvmlDeviceAddressingMode_v1": 0x01000008,
}

NEW = {
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetNumaNodeId",
}
"""What the build for older drivers leaves out."""


def symbols(library: Path) -> set[str]:
    """Give what a built library exports."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in listing.stdout.splitlines()}


def test_structs_have_the_sizes_of_pynvml() -> None:
    """The numbers that structs.h asserts are those that ctypes reads."""

    assert {name: ctypes.sizeof(getattr(pynvml, name)) for name in SIZES} == SIZES
    assert {name: getattr(pynvml, name) for name in VERSIONS} == VERSIONS


def test_structs_have_the_offsets_of_pynvml() -> None:
    """And so have their fields."""

    found = {
        name: {field: getattr(getattr(pynvml, name), field).offset for field in fields}
        for name, fields in OFFSETS.items()
    }

    assert found == OFFSETS


def test_old_driver_lacks_the_newer_symbols() -> None:
    """The two builds differ by exactly those, and export nothing but NVML's names."""

    new, old = symbols(nvml.library()), symbols(nvml.library(old_driver=True))

    assert new - old == NEW
    assert old < new
    assert all(name.startswith("nvml") for name in new)


def test_built_library_has_the_soname() -> None:
    """A file that is loaded first answers pynvml only under this name."""

    path = nvml.library()
    listing = subprocess.run(
        ["readelf", "-d", str(path)], capture_output=True, text=True, check=True
    )

    assert f"[{build.SONAME}]" in listing.stdout
    assert path == build.build()


def test_build_without_a_compiler_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It names the package."""

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(HostError, match="there is no C compiler; install gcc"):
        build.build()


def test_vendor_header_agrees() -> None:
    """Where a machine has it, its structs have the sizes of ours."""

    nvml.library()
    source = build.SOURCE / "vendor.c"
    command = [build.compiler(), "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "nvml.h" in done.stderr and re.search("No such file|not found", done.stderr):
        pytest.skip("this machine has no nvml.h")

    assert done.returncode == 0, done.stderr


def test_world_that_makes_no_sense_is_told_and_not_taken(tmp_path: Path) -> None:
    """The line is named on stderr, and init fails as without a driver."""

    (tmp_path / "world").write_text("driver 580.65.06\nnonsense 3\n")
    code = (
        "import ctypes, sys\n"
        "print(ctypes.CDLL(sys.argv[1]).nvmlInitWithFlags(1), flush=True)\n"
        "sys.stderr.flush()"
    )
    command = ["python3", "-c", code, str(nvml.library())]
    environment = world.environment(tmp_path / "world")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "9\n"
    assert "world line 2: nonsense 3" in done.stderr
