"""Whether a claim can have its devices now, must wait for something, or is refused for good.

A failed prepare costs its pod 60 to 90 s, so what may come soon is waited for: a link that is not
seen yet, a runtime that is not connected, a holder whose claim is gone and whose sandbox is being
stopped. What needs a human is refused at once, with the reason.

Source: network.md §4.2; KC §3.2 for the price of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from berth.errors import ClaimError
from berth.kube.quantity import parse_quantity
from berth.model.claim import Claim, ClaimRef, DeviceResult
from berth.model.device import Nic, NicMode
from berth.model.edits import Edits, clash
from berth.model.peripheral import Peripheral
from berth.nic.config.devicefacts import Target
from berth.node.ledger import Hold, Ledger, PluginHolder
from berth.node.snapshot import Snapshot

CLOSED: Final = "not-connected"
"""Exclusion of free NICs while the runtime's NRI is not connected."""

_PASSING: Final = frozenset({CLOSED, "restore-failed", "returning", "link-elsewhere"})
"""Reasons that may be gone in a moment."""


@attrs.frozen(kw_only=True)
class Admitted:
    """Every device of the claim can be had now.

    Attributes:
        targets: Its NICs with their facts, in the order of its results.
        holds: What has to be taken in the ledger, without another ``await``.
    """

    targets: tuple[Target, ...]
    holds: tuple[Hold, ...]


@attrs.frozen(kw_only=True)
class Waiting:
    """Something has to happen first.

    Attributes:
        reason: What is waited for, for the message if it does not come.
        holders: Holds that stand against the claim; empty when it is something else.
    """

    reason: str
    holders: tuple[Hold, ...] = ()


Admission: TypeAlias = "Admitted | Waiting"


def admit(claim: Claim, snapshot: Snapshot, ledger: Ledger) -> Admission:
    """Judge a claim by what is there now.

    Raises:
        ClaimError: It is refused, and waiting would not help.
    """
    targets: list[Target] = []
    holds: list[Hold] = []
    for result in claim.results:
        peripheral = snapshot.inventory.peripheral_by_name.get(result.device)
        if peripheral is not None:
            waiting = _admit_peripheral(claim, result, peripheral, ledger, holds)
            if waiting is not None:
                return waiting
            continue
        nic = snapshot.inventory.nic_by_name.get(result.device)
        if nic is None:
            return Waiting(reason=f"{result.device} is not seen on this node")
        if result.admin_access:
            continue
        _require_share(result, nic)
        wanted = _holds(claim, result, nic, snapshot)
        conflict = ledger.conflict(wanted)
        if conflict is not None:
            text = _held_text(nic.name, conflict.holders)
            return Waiting(reason=text, holders=conflict.holders)
        waiting = _judge(nic)
        if waiting is not None:
            return waiting
        facts = snapshot.facts.get(result.device)
        if facts is None:
            return Waiting(reason=f"the link of {result.device} is not seen")
        targets.append(Target(result=result, facts=facts))
        holds.extend(wanted)
    _require_apart(claim, snapshot)
    if targets:
        _require_one_pod(claim)
    return Admitted(targets=tuple(targets), holds=tuple(holds))


def _admit_peripheral(
    claim: Claim,
    result: DeviceResult,
    peripheral: Peripheral,
    ledger: Ledger,
    holds: list[Hold],
) -> Waiting | None:
    """Judge a device that stays where it is; what it takes in the ledger is added to ``holds``."""
    against = peripheral.hindrance if result.admin_access else peripheral.obstacle
    if against:
        return Waiting(reason=f"{peripheral.name} {against}")
    if result.admin_access:
        return None
    wanted = peripheral_holds(claim.ref, result, peripheral)
    conflict = ledger.conflict(wanted)
    if conflict is not None:
        reason = _held_text(peripheral.name, conflict.holders)
        return Waiting(reason=reason, holders=conflict.holders)
    holds.extend(wanted)
    return None


def peripheral_holds(
    ref: ClaimRef, result: DeviceResult, peripheral: Peripheral
) -> tuple[Hold, ...]:
    """What a claim takes in the ledger for a device that stays where it is."""
    return tuple(
        Hold(
            key=key,
            device=peripheral.name,
            holder=ref,
            share=result.share_id,
            slots=_slots(result),
            limit=peripheral.slots,
        )
        for key in peripheral.keys
    )


def _require_apart(claim: Claim, snapshot: Snapshot) -> None:
    """A container gets all that one request was given, so each thing needs a path of its own."""
    requests: dict[str, list[Edits]] = {}
    for result in claim.results:
        peripheral = snapshot.inventory.peripheral_by_name.get(result.device)
        if peripheral is not None:
            requests.setdefault(result.base_request, []).append(peripheral.edits)
    for request, edits in requests.items():
        path = clash(edits)
        if path:
            raise ClaimError(
                f"claim {claim.ref}: request {request}",
                f"has two devices that would both be {path} in a container",
                mend="put {index} into the group's rename, or ask for one device in each request",
            )


def _require_one_pod(claim: Claim) -> None:
    """A link is in one namespace; a second pod of the claim would start without it."""
    pods = [consumer.name for consumer in claim.consumers if consumer.is_pod]
    if len(pods) > 1:
        raise ClaimError(
            f"claim {claim.ref}",
            f"is reserved for {len(pods)} pods: {', '.join(sorted(pods))}",
            rule="a NIC can be in one pod only",
            mend="give each pod a claim of its own, by a ResourceClaimTemplate",
        )


def _require_share(result: DeviceResult, nic: Nic) -> None:
    """A parent without share in the result was offered by a server that knows no shares."""
    if nic.mode is NicMode.SHARED and result.share_id is None:
        raise ClaimError(
            nic.name,
            "was allocated as a whole",
            rule="a shared parent is given in shares, which needs Kubernetes 1.36 or the feature "
            "gate DRAConsumableCapacity",
            mend="delete the pod; its claim is allocated anew",
        )


def _judge(nic: Nic) -> Waiting | None:
    if nic.exclusion is None:
        return None
    if nic.exclusion.reason in _PASSING:
        return Waiting(reason=f"{nic.name} is not offered now ({nic.exclusion})")
    raise ClaimError(
        nic.name,
        f"is not offered any more: {nic.exclusion}",
        mend="`berth devices` shows it; delete the pod, so that it gets another device",
    )


def _holds(claim: Claim, result: DeviceResult, nic: Nic, snapshot: Snapshot) -> tuple[Hold, ...]:
    """What a claim takes for a NIC; a function is given with its whole IOMMU group."""
    if nic.mode is NicMode.SHARED:
        return (_share(claim, result, nic, snapshot),)
    keys = [nic.identity]
    facts = snapshot.facts.get(result.device)
    if nic.mode is NicMode.VFIO and facts is not None:
        keys += facts.companions
    return tuple(Hold(key=key, device=nic.name, holder=claim.ref) for key in keys)


def _share(claim: Claim, result: DeviceResult, nic: Nic, snapshot: Snapshot) -> Hold:
    device = snapshot.inventory.device_by_name.get(nic.name)
    slots = device.capacity.get("slots") if device is not None else None
    return Hold(
        key=nic.identity,
        device=nic.name,
        holder=claim.ref,
        share=result.share_id,
        slots=_slots(result),
        limit=slots.value if slots is not None else 1,
    )


def _slots(result: DeviceResult) -> int:
    for name, text in result.consumed.items():
        if name.rpartition("/")[2] == "slots":
            return int(parse_quantity(text))
    return 1


def _held_text(device: str, holders: Sequence[Hold]) -> str:
    each = dict.fromkeys(
        str(hold.holder)
        if isinstance(hold.holder, PluginHolder)
        else f"claim {hold.holder} ({hold.holder.uid})"
        for hold in holders
    )
    return f"{device} is held by {', '.join(each)}"
