"""The answer to ``devices``: every NIC, offered or the reason why not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from berth.model.device import Nic
from berth.model.inventory import Inventory


def devices_view(inventory: Inventory) -> dict[str, Any]:
    """Every NIC that was seen or is held."""
    return {
        "devices": [device_entry(nic, inventory) for nic in inventory.nics],
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


def nics_summary(inventory: Inventory) -> dict[str, Any]:
    """How many NICs there are, and what becomes of them."""
    reasons = Counter(nic.exclusion.reason for nic in inventory.nics if nic.exclusion)
    return {
        "seen": len(inventory.nics),
        "offered": sum(nic.name in inventory.device_by_name for nic in inventory.nics),
        "held": sum(bool(nic.held_by) for nic in inventory.nics),
        "excluded": dict(sorted(reasons.items())),
    }
