"""The answer to ``devices``: every NIC and peripheral, offered or the reason why not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from berth.health.verdict import HealthState
from berth.model.device import Nic
from berth.model.inventory import Inventory
from berth.model.peripheral import Door, Peripheral
from berth.node.views.health import verdict_entry


def devices_view(inventory: Inventory, health: HealthState | None = None) -> dict[str, Any]:
    """Every NIC that was seen or is held, and every other device that a group selects.

    Args:
        health: How they are; ``None`` where nobody judges that.
    """
    entries = [
        *(peripheral_entry(one, inventory) for one in inventory.peripherals),
        *(device_entry(nic, inventory) for nic in inventory.nics),
    ]
    return {
        "devices": [
            entry | {"verdict": verdict_entry(health.of(entry["name"])) if health else None}
            for entry in entries
        ],
        "warnings": list(inventory.warnings),
    }


def device_entry(nic: Nic, inventory: Inventory) -> dict[str, Any]:
    """One NIC; ``offered`` says that it stands in a slice, where held ones stay, or in a list."""
    listing = inventory.listing_by_name.get(nic.name)
    at_plugin = listing is not None and listing.is_listed and listing.exclusion is None
    exclusion = nic.exclusion or (listing.exclusion if listing is not None else None)
    return {
        "name": nic.name,
        "identity": nic.identity,
        "kind": nic.kind.value,
        "group": nic.group,
        "mode": nic.mode.value,
        "door": (listing.door if listing is not None else Door.DRA).value,
        "resource": listing.resource if listing is not None else "",
        "path": "",
        "slots": listing.slots if listing is not None else 1,
        "health": listing.unhealthy if listing is not None and listing.held_by else "",
        "ifname": nic.ifname,
        "ifindex": nic.ifindex,
        "pci": nic.pci,
        "driver": nic.driver,
        "mac": nic.mac,
        "offered": at_plugin or nic.name in inventory.device_by_name,
        "reason": exclusion.reason if exclusion else "",
        "detail": exclusion.detail if exclusion else "",
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
        "offered": sum(device_entry(nic, inventory)["offered"] for nic in inventory.nics),
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
