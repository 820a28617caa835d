"""The answer to ``devices``: every NIC and peripheral, offered or the reason why not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Door, Peripheral


def devices_view(inventory: Inventory) -> dict[str, Any]:
    """Every NIC that was seen or is held, and every other device that a group selects."""
    return {
        "devices": [
            *(peripheral_entry(one, inventory) for one in inventory.peripherals),
            *(device_entry(nic, inventory) for nic in inventory.nics),
        ],
        "warnings": list(inventory.warnings),
    }


def device_entry(nic: Nic, inventory: Inventory) -> dict[str, Any]:
    """One NIC; ``offered`` says that it stands in a slice, where held ones stay."""
    return {
        "name": nic.name,
        "identity": nic.identity,
        "kind": nic.kind.value,
        "group": nic.group,
        "mode": nic.mode.value,
        "door": Door.DRA.value,
        "resource": "",
        "path": "",
        "slots": 1,
        "health": "",
        "ifname": nic.ifname,
        "ifindex": nic.ifindex,
        "pci": nic.pci,
        "driver": nic.driver,
        "mac": nic.mac,
        "offered": nic.name in inventory.device_by_name,
        "reason": nic.exclusion.reason if nic.exclusion else "",
        "detail": nic.exclusion.detail if nic.exclusion else "",
        "held_by": list(nic.held_by),
    }


def peripheral_entry(one: Peripheral, inventory: Inventory) -> dict[str, Any]:
    """One device that stays where it is; ``offered`` says that a door shows it."""
    at_plugin = one.door.opens_plugin and (one.exclusion is None or bool(one.held_by))
    return {
        "name": one.name,
        "identity": one.identity,
        "kind": one.type,
        "group": one.group,
        "mode": "shared" if one.slots > 1 else "exclusive",
        "door": one.door.value,
        "resource": one.resource,
        "path": one.path,
        "slots": one.slots,
        "health": one.unhealthy,
        "ifname": "",
        "ifindex": 0,
        "pci": str(one.attributes.get("resource.kubernetes.io/pciBusID", "")),
        "driver": "",
        "mac": "",
        "offered": at_plugin or one.name in inventory.device_by_name,
        "reason": one.exclusion.reason if one.exclusion else "",
        "detail": one.exclusion.detail if one.exclusion else "",
        "held_by": list(one.held_by),
    }


def nics_summary(inventory: Inventory) -> dict[str, Any]:
    """How many NICs there are, and what becomes of them."""
    reasons = Counter(nic.exclusion.reason for nic in inventory.nics if nic.exclusion)
    return {
        "seen": len(inventory.nics),
        "offered": sum(nic.name in inventory.device_by_name for nic in inventory.nics),
        "held": sum(bool(nic.held_by) for nic in inventory.nics),
        "excluded": dict(sorted(reasons.items())),
    }


def peripherals_summary(inventory: Inventory) -> dict[str, Any]:
    """The same of devices that stay where they are."""
    found = inventory.peripherals
    reasons = Counter(one.exclusion.reason for one in found if one.exclusion)
    entries = [peripheral_entry(one, inventory) for one in found]
    return {
        "seen": len(found),
        "offered": sum(entry["offered"] for entry in entries),
        "held": sum(bool(one.held_by) for one in found),
        "excluded": dict(sorted(reasons.items())),
    }
