"""Shares of a GPU: what a slice says of them, and their ids at the plugin's door.

Shares isolate neither memory nor time nor faults; the capacities count what is asked for.

Source: GH §1.7; KC §9.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.config.gpu import GpuShare, ShareMemory
from berth.model.device import Capacity, CapacityRange

MIB: Final = 1 << 20

SEPARATOR: Final = "::"
"""Stands between the id of a device and the number of one of its shares."""


def share_ids(device_id: str, slots: int) -> tuple[str, ...]:
    """Ids at the plugin's door: the device's own, or one for each share."""
    if slots <= 1:
        return (device_id,)
    return tuple(f"{device_id}{SEPARATOR}{number}" for number in range(slots))


def share_capacity(share: GpuShare, memory_bytes: int | None) -> Mapping[str, Capacity]:
    """Capacities of a shared device, with what a claim may ask for; memory only where it is known.

    Args:
        memory_bytes: Of the whole device.
    """
    slots = Capacity(value=share.slots, default=1, bounds=CapacityRange(minimum=1, step=1))
    total = (memory_bytes or 0) // MIB * MIB
    # A range must have room for its least amount and one step.
    if total < 2 * MIB:
        return {"slots": slots}
    divided = share.memory is ShareMemory.DIVIDE
    least = MIB if divided else 0
    default = max(least, total // share.slots // MIB * MIB) if divided else 0
    memory = Capacity(value=total, default=default, bounds=CapacityRange(minimum=least, step=MIB))
    return {"slots": slots, "memory": memory}
