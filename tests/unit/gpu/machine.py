"""Machines with GPUs, as plain values: what NVML, the PCI bus and the files would say."""

from __future__ import annotations

from typing import Any, Final

from berth.config.gpu import GpuTable
from berth.gpu.survey import GpuSurvey, survey
from berth.host.hardware import PciFunction
from berth.host.nvidiafiles import HostNode, Library, NodeFacts
from berth.model.edits import NodeType
from berth.model.gpu import Driver, Engines, Gpu, MigDevice, MigProfile, Placement

DRIVER: Final = Driver(version="580.65.06", cuda=13000, nvml="13.580.65.06")
BOOT: Final = "5b0c6a52-0f0e-4a51-9a2b-6a3d3a0c9f11"
GIB: Final = 1024

# H100 80GB, by the tables of the vendor's MIG guide.
_PROFILES: Final = (
    (19, "1g.10gb", 16, 1, 9728, 1, 7),
    (14, "2g.20gb", 32, 2, 19968, 2, 3),
    (9, "3g.40gb", 60, 3, 40192, 4, 2),
    (0, "7g.80gb", 132, 8, 80896, 8, 1),
)


def engines(multiprocessors: int, copy_engines: int, memory_mib: int) -> Engines:
    """Engines of a GPU or a part."""
    return Engines(
        multiprocessors=multiprocessors,
        copy_engines=copy_engines,
        decoders=copy_engines,
        encoders=0,
        jpeg_engines=copy_engines,
        ofa_engines=min(copy_engines, 1),
        memory_mib=memory_mib,
    )


PROFILES: Final = tuple(
    MigProfile(
        id=number,
        name=name,
        engines=engines(processors, copies, memory),
        placements=tuple(Placement(start=step * size, size=size) for step in range(count)),
    )
    for number, name, processors, copies, memory, size, count in _PROFILES
)


def address_of(number: int) -> str:
    """Of the GPU of this number."""
    return f"0000:{0x1B + number:02x}:00.0"


def uuid_of(number: int, kind: str = "GPU") -> str:
    """Of the GPU or part of this number."""
    return f"{kind}-00000000-0000-0000-0000-{number:012x}"


def gpu(number: int, **changes: Any) -> Gpu:
    """An H100 as NVML tells it."""
    values: dict[str, Any] = {
        "address": address_of(number),
        "uuid": uuid_of(number),
        "minor": number,
        "device_id": "2330",
        "name": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "compute_capability": (9, 0),
        "memory_bytes": 85520809984,
        "addressing_mode": "HMM",
        "mig_profiles": PROFILES,
    }
    return Gpu(**{**values, **changes})


def part(number: int, profile: str, start: int, *, gi_id: int, **changes: Any) -> MigDevice:
    """A MIG device of a profile at a place."""
    found = next(each for each in PROFILES if each.name == profile)
    values: dict[str, Any] = {
        "uuid": uuid_of(number, "MIG"),
        "name": f"NVIDIA H100 80GB HBM3 MIG {profile}",
        "gi_id": gi_id,
        "ci_id": 0,
        "engines": found.engines,
        "gi_profile": found.id,
        "gi_placement": Placement(start=start, size=found.placements[0].size),
        "ci_placement": Placement(start=0, size=int(profile[0])),
    }
    return MigDevice(**{**values, **changes})


def divided(number: int, *parts: MigDevice, **changes: Any) -> Gpu:
    """A GPU in MIG mode."""
    modes: dict[str, Any] = {"mig_current": True, "mig_pending": True, "mig_devices": parts}
    return gpu(number, **{**modes, **changes})


def function(number: int, **changes: Any) -> PciFunction:
    """The function of a GPU on the PCI bus."""
    values: dict[str, Any] = {
        "address": address_of(number),
        "class_code": 0x030200,
        "vendor": "10de",
        "device": "2330",
        "driver": "nvidia",
        "numa_node": number // 4,
        "pcie_root": f"pci0000:{0x1A + number:02x}",
        "iommu_group": 40 + number,
    }
    return PciFunction(**{**values, **changes})


def node(path: str, major: int, minor: int) -> tuple[str, HostNode]:
    """A node of the host, by its path."""
    made = HostNode(path=path, type=NodeType.CHAR, major=major, minor=minor, mode=0o666)
    return path, made


def facts(**changes: Any) -> NodeFacts:
    """The files of a machine with eight GPUs, of which none is missing."""
    nodes = dict(node(f"/dev/nvidia{number}", 195, number) for number in range(8))
    nodes |= dict([node("/dev/nvidiactl", 195, 255), node("/dev/nvidia-uvm", 511, 0)])
    nodes |= dict([node("/dev/nvidia-uvm-tools", 511, 1)])
    capabilities = {"monitor": 2}
    for number in range(8):
        for gi_id in range(15):
            minor = 3 + 200 * number + 10 * gi_id
            capabilities[f"gpu{number}/gi{gi_id}/access"] = minor
            for ci_id in range(8):
                capabilities[f"gpu{number}/gi{gi_id}/ci{ci_id}/access"] = minor + 1 + ci_id
    nodes |= dict(
        node(f"/dev/nvidia-caps/nvidia-cap{minor}", 509, minor) for minor in capabilities.values()
    )
    folder = "/usr/lib/x86_64-linux-gnu"
    version = DRIVER.version
    values: dict[str, Any] = {
        "boot_id": BOOT,
        "module": version,
        "majors": {"nvidia": 195, "nvidia-uvm": 511, "nvidia-caps": 509},
        "nodes": nodes,
        "capabilities": capabilities,
        "libraries": (
            Library(
                path=f"{folder}/libcuda.so.{version}",
                names=(f"libcuda.so.{version}", "libcuda.so.1"),
            ),
        ),
        "multiarch": "x86_64-linux-gnu",
        "extras": ("/usr/bin/nvidia-smi", "/run/nvidia-persistenced/socket"),
    }
    return NodeFacts(**{**values, **changes})


def look(gpus: Any, functions: Any, **changes: Any) -> GpuSurvey:
    """A survey; the session is up and nothing is remembered, unless told otherwise."""
    values: dict[str, Any] = {
        "driver": DRIVER,
        "state": "up",
        "table": GpuTable(),
        "memory": (),
        "nodes": facts(),
    }
    return survey(gpus, functions, **{**values, **changes})
