"""Which GPUs NVIDIA's driver has, and into which parts: by what evidence of it is sorted.

Source: GH §1.2, §6.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from berth.gpu.naming import gpu_identity, mig_identity
from berth.gpu.witness import Form, Sighting


@attrs.frozen(kw_only=True)
class Layout:
    """One GPU.

    Attributes:
        subject: Its identity.
        uuid: Of the card; empty when nobody has told it.
        parts: Identities of its MIG parts, by the ids of their GPU and compute instance.
        swapped: Since this process began it has become another card than was known there.
    """

    address: str
    subject: str
    uuid: str = ""
    parts: Mapping[tuple[int, int], str] = attrs.field(factory=dict)
    swapped: bool = False


def layouts(sightings: Iterable[Sighting]) -> tuple[Layout, ...]:
    """The GPUs of the driver that may be offered, lost ones among them.

    One that a claim has bound to vfio-pci is not the driver's, and one that nobody can have is
    nobody's concern.
    """
    return tuple(
        _layout(one)
        for one in sightings
        if one.form is Form.DRIVER and not one.lent and one.exclusion is None
    )


def _layout(sighting: Sighting) -> Layout:
    gpu = sighting.gpu
    return Layout(
        address=sighting.address,
        subject=gpu_identity(sighting.address),
        uuid=gpu.uuid if gpu is not None else "",
        parts={(mig.gi_id, mig.ci_id): mig_identity(gpu, mig) for mig in gpu.mig_devices}
        if gpu is not None and gpu.mig_current
        else {},
    )
