"""Keys of GPUs in the ledger: two devices overlap when they share one, and only then.

A ledger of plain sets has no notion of a whole and its parts, so both must name the same small
things. Those are the memory slices of a GPU, of which MIG makes everything:

- a part takes one key for each slice that is its own. Slices of a GPU instance belong to nobody
  else; several compute instances in it share its memory, so each takes as many of the instance's
  slices as it has compute slices, counted from its own start. There are never more compute slices
  than memory slices in an instance, so coexisting parts never meet;
- a whole GPU takes the keys of all slices, always as many: how many this GPU has is for the driver
  to say, and a key must not depend on what the driver answers today;
- a VFIO function takes the PCI functions of its whole IOMMU group, and the group itself; where the
  UUID that the GPU had is remembered, its slices as well, for a part that somebody still holds.

A whole GPU does not name its IOMMU group: two GPUs in one group, both with the driver, can be used
apart, and each of them meets a VFIO function of the group by the key of its own PCI function.

Without the right to ask for placements parts take a key by their ids. Such a key meets no whole;
but the driver changes the mode of no GPU whose parts are in use.

Source: GH §5.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.model.gpu import Gpu, MigDevice, Placement

SLICES: Final = 16
"""Memory slices that a whole GPU names: more than any GPU is known to have (most have 8).

What the driver places beyond them is taken to lie in the last one.
"""


def gpu_keys(address: str, uuid: str) -> tuple[str, ...]:
    """Keys of a whole GPU."""
    return (f"pci:{address}", *uuid_keys(uuid))


def uuid_keys(uuid: str) -> tuple[str, ...]:
    """Keys of all that a GPU of this UUID consists of; none without one."""
    if not uuid:
        return ()
    return (f"nv:{uuid}", *(_slice(uuid, number) for number in range(SLICES)))


def mig_keys(gpu: Gpu, mig: MigDevice) -> tuple[str, ...]:
    """Keys of a part."""
    gi, ci = mig.gi_placement, mig.ci_placement
    if gi is None or (ci is None and not _is_alone(gpu, mig)):
        return (f"nv:{gpu.uuid}/gi{mig.gi_id}/ci{mig.ci_id}",)
    own = gi
    if ci is not None and not _is_alone(gpu, mig):
        own = Placement(start=gi.start + ci.start, size=ci.size)
    first = min(max(own.start, 0), SLICES - 1)
    end = max(first + 1, min(own.start + own.size, SLICES))
    return tuple(_slice(gpu.uuid, number) for number in range(first, end))


def vfio_keys(members: Iterable[str], group: int, uuid: str = "") -> tuple[str, ...]:
    """Keys of a VFIO function.

    Args:
        members: Addresses of all functions of its IOMMU group that lead nowhere else, its own
            among them.
        uuid: That the GPU had when the driver last spoke of it; empty when it is not remembered.
    """
    functions = (f"pci:{address}" for address in sorted(members))
    return (f"iommu:{group}", *functions, *uuid_keys(uuid))


def _is_alone(gpu: Gpu, mig: MigDevice) -> bool:
    return sum(other.gi_id == mig.gi_id for other in gpu.mig_devices) == 1


def _slice(uuid: str, number: int) -> str:
    return f"nv:{uuid}/slice{number}"
