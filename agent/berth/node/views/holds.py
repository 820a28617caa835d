"""The answer to ``holds``: who has which device by which door, and how far it is on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from berth.model.claim import ClaimRef
from berth.node.ledger import Hold
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord, HeldDevice

SKIPPED: Final = "skipped"
"""State of a claim that has its devices without kubelet asking for them."""


def holds_view(
    records: Iterable[ClaimRecord],
    holds: Iterable[Hold],
    given: Iterable[Given] = (),
    *,
    skipped: Iterable[ClaimRecord] = (),
) -> dict[str, Any]:
    """Devices of all records, what the plugin gave, and holds that no record tells of (yet).

    Args:
        skipped: Claims that kubelet does not ask for.
    """
    entries = [
        hold_entry(record, device) for record in records for device in record.devices if device.keys
    ]
    entries += [
        hold_entry(record, device) | {"state": SKIPPED}
        for record in skipped
        for device in record.devices
        if device.keys
    ]
    entries += [given_entry(one, device) for one in given for device in one.devices]
    known = {(entry["claim_uid"] or entry["holder"], entry["device"]) for entry in entries}
    bare = {
        (hold.holder.uid, hold.device): _bare_entry(hold)
        for hold in holds
        if isinstance(hold.holder, ClaimRef) and (hold.holder.uid, hold.device) not in known
    }
    entries += bare.values()
    return {"holds": sorted(entries, key=lambda entry: (entry["device"], entry["holder"]))}


def hold_entry(record: ClaimRecord, device: HeldDevice) -> dict[str, Any]:
    """One device of a claim."""
    nic = device.nic
    moved = nic or device.binding
    sandbox = nic.sandbox if nic else None
    return {
        "device": device.result.device,
        "identity": device.identity,
        "door": "dra",
        "holder": f"claim {record.claim}",
        "resource": "",
        "since": "",
        "claim": str(record.claim),
        "claim_uid": record.claim.uid,
        "request": device.result.request,
        "pods": pods_of(record),
        "share": device.result.share_id or "",
        "slots": device.slots,
        "slot_limit": device.slot_limit,
        "state": claim_state(record),
        "stage": moved.stage.value if moved else "",
        "fault": moved.fault if moved else "",
        "interface": nic.config.interface.name if nic else "",
        "sandbox": sandbox.id if sandbox else "",
        "home_name": nic.home_name if nic else "",
    }


def pods_of(record: ClaimRecord) -> list[str]:
    """Names of the pods that use the claim; they live in the claim's own namespace."""
    return [consumer.name for consumer in record.consumers if consumer.is_pod]


def claim_state(record: ClaimRecord) -> str:
    """Where a claim stands: ``preparing``, ``prepared`` or ``undoing``."""
    if record.revoked:
        return "undoing"
    return "prepared" if record.prepared else "preparing"


def given_state(given: Given) -> str:
    """Where an answer of the device plugin stands."""
    if given.revoked:
        return "undoing"
    return "missed" if given.holder.missed else "bound" if given.bound else "reserved"


def given_entry(given: Given, device: GivenDevice) -> dict[str, Any]:
    """One id that the device plugin gave."""
    holder, nic = given.holder, device.nic
    sandbox = nic.sandbox if nic else None
    return {
        "device": device.peripheral.name,
        "identity": device.peripheral.identity,
        "door": "plugin",
        "holder": str(holder.container or "a pod that kubelet has not named yet"),
        "resource": holder.resource,
        "since": holder.since,
        "claim": "",
        "claim_uid": "",
        "request": device.id,
        "pods": [holder.container.pod] if holder.container else [],
        "share": device.share or "",
        "slots": 1,
        "slot_limit": device.peripheral.slots,
        "state": given_state(given),
        "stage": nic.stage.value if nic else "",
        "fault": nic.fault if nic else "",
        "interface": nic.config.interface.name if nic else "",
        "sandbox": sandbox.id if sandbox else "",
        "home_name": nic.home_name if nic else "",
    }


def _bare_entry(hold: Hold) -> dict[str, Any]:
    return {
        "device": hold.device,
        "identity": hold.key,
        "door": "dra",
        "holder": f"claim {hold.holder}",
        "resource": "",
        "since": "",
        "claim": str(hold.holder),
        "claim_uid": hold.holder.uid,
        "request": "",
        "pods": [],
        "share": hold.share or "",
        "slots": hold.slots,
        "slot_limit": hold.limit,
        "state": "preparing",
        "stage": "",
        "fault": "",
        "interface": "",
        "sandbox": "",
        "home_name": "",
    }
