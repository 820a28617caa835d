"""GPUs as NVML describes them: plain values, no handle, no NVML error.

What one call did not give for one device is ``None`` (or empty) there, and `Gpu.missing` says why;
a device is never dropped for that.

Source: GH §1.1 (calls and their units).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Driver:
    """What the session says of the driver.

    Attributes:
        version: As NVML writes it, such as ``580.65.06``.
        cuda: CUDA driver version, such as 13000; ``None`` when it was not told.
        nvml: Version of the library; empty when it was not told.
    """

    version: str
    cuda: int | None = None
    nvml: str = ""


@attrs.frozen(kw_only=True)
class Placement:
    """Slices of a GPU (or of a GPU instance) from ``start`` on."""

    start: int
    size: int


@attrs.frozen(kw_only=True)
class Engines:
    """What a GPU, a MIG instance or a profile has.

    Attributes:
        memory_mib: In MiB.
    """

    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    memory_mib: int


@attrs.frozen(kw_only=True)
class MigProfile:
    """A kind of GPU instance that this GPU can be divided into.

    Attributes:
        id: NVML's ``info.id``, which placements are asked by (19 for 1g.5gb).
        name: Without the leading ``MIG``, such as ``1g.5gb``; empty on drivers that do not say.
    """

    id: int
    name: str
    engines: Engines
    placements: tuple[Placement, ...]


@attrs.frozen(kw_only=True)
class MigDevice:
    """One MIG device: a compute instance within a GPU instance.

    Attributes:
        name: NVML's own, such as ``NVIDIA A100-SXM4-40GB MIG 1g.5gb``.
        gi_profile: ``info.profileId`` of the GPU instance; ``None`` without the right to ask.
        gi_placement: Where the GPU instance lies; ``None`` without the right to ask.
        ci_placement: Where the compute instance lies in it; the same.
    """

    uuid: str
    name: str
    gi_id: int
    ci_id: int
    engines: Engines | None = None
    gi_profile: int | None = None
    gi_placement: Placement | None = None
    ci_placement: Placement | None = None


@attrs.frozen(kw_only=True)
class Gpu:
    """One GPU that NVML lists.

    Attributes:
        address: PCI address as sysfs writes it.
        minor: N of ``/dev/nvidiaN``; ``None`` when it was not told.
        device_id: Four hex digits; empty when it was not told.
        brand: A word, such as ``Nvidia``; empty for unknown numbers.
        architecture: A word, such as ``Hopper``; empty for unknown numbers.
        compute_capability: Major and minor.
        memory_bytes: The whole memory.
        addressing_mode: ``HMM``, ``ATS`` or empty.
        mig_current: Whether MIG mode is on.
        mig_pending: Whether it will be on after a reset.
        engines: The whole GPU's own, where NVML gives them.
        missing: By the name of what is missing, such as ``uuid``: NVML's words.
    """

    address: str
    uuid: str = ""
    minor: int | None = None
    device_id: str = ""
    name: str = ""
    brand: str = ""
    architecture: str = ""
    compute_capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    addressing_mode: str = ""
    mig_current: bool = False
    mig_pending: bool = False
    engines: Engines | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    mig_profiles: tuple[MigProfile, ...] = ()
    missing: Mapping[str, str] = attrs.field(factory=dict)
