"""How devices are offered whose pods wait for them to be ready.

Source: KC §9.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from berth.health.taints import NO_SCHEDULE
from berth.model.device import Device, Taint
from berth.model.inventory import Inventory
from berth.model.readiness import failed_type, ready_type
from berth.readiness.demands import Demands, is_left_out

NOT_READY: Final = "not-ready"
"""Name of the taint on a device that was given up; its key has our driver's name before a slash."""

UNABLE: Final = "no pod can be made to wait for it: claims are not heard of, or not written"
"""Why a device is not offered that must not be without."""


def marked(
    inventory: Inventory,
    demands: Demands,
    *,
    rests: Collection[str],
    able: bool,
    driver: str,
    out: Collection[str] = (),
) -> Inventory:
    """The inventory whose devices tell what their pods wait for, and which were given up.

    Args:
        rests: Names of devices that were given up, and are kept from claims as long as their
            groups ask for something.
        able: Somebody would tell the scheduler that one is ready.
        driver: Our driver's name, the domain of conditions and taints.
        out: Names of those that are not to be offered; without them here pods would be bound to
            one unasked, until discovery has excluded it.
    """
    if not rests and not out and not (able and demands.groups):
        return inventory
    rest = Taint(key=f"{driver}/{NOT_READY}", value="late", effect=NO_SCHEDULE)

    def mark(device: Device) -> Device:
        bind = demands.of_device(device)
        if bind is None:
            return device
        if able:
            device = attrs.evolve(
                device,
                binding=(ready_type(driver),),
                failure=(failed_type(driver),),
                only_awaited=is_left_out(bind),
            )
        if device.name in rests:
            device = attrs.evolve(device, taints=(*device.taints, rest))
        return device

    offered = (device for device in inventory.devices if device.name not in out)
    return attrs.evolve(inventory, devices=tuple(map(mark, offered)))


def left_out(inventory: Inventory, demands: Demands) -> Mapping[str, str]:
    """Devices that are not to be offered while nobody would tell the scheduler, by name, and why.

    What somebody has stays.
    """
    return {
        one.name: UNABLE
        for one in inventory.every
        if is_left_out(demands.of_seen(one)) and not one.held_by
    }
