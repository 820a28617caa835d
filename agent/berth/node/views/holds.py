"""The answer to ``holds``: which claim has which NIC, and how far it is on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.node.ledger import Hold
from berth.node.record import ClaimRecord, HeldDevice


def holds_view(records: Iterable[ClaimRecord], holds: Iterable[Hold]) -> dict[str, Any]:
    """The devices of all records, and holds of the ledger that no record tells of (yet)."""
    entries = [
        hold_entry(record, device)
        for record in records
        for device in record.devices
        if device.nic is not None
    ]
    known = {(entry["claim_uid"], entry["identity"]) for entry in entries}
    entries += [_bare_entry(hold) for hold in holds if (hold.holder.uid, hold.key) not in known]
    return {"holds": sorted(entries, key=lambda entry: (entry["device"], entry["claim"]))}


def hold_entry(record: ClaimRecord, device: HeldDevice) -> dict[str, Any]:
    """One device of a claim."""
    nic = device.nic
    sandbox = nic.sandbox if nic else None
    return {
        "device": device.result.device,
        "identity": device.identity,
        "claim": str(record.claim),
        "claim_uid": record.claim.uid,
        "request": device.result.request,
        "pods": pods_of(record),
        "share": device.result.share_id or "",
        "slots": device.slots,
        "slot_limit": device.slot_limit,
        "state": claim_state(record),
        "stage": nic.stage.value if nic else "",
        "fault": nic.fault if nic else "",
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


def _bare_entry(hold: Hold) -> dict[str, Any]:
    return {
        "device": hold.device,
        "identity": hold.key,
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
