"""Whether a claim can have its devices now, must wait for something, or is refused.

A failed prepare costs its pod 60 to 90 s, so what may come soon is waited for: a link that is not
seen yet, a runtime that is not connected, a holder whose claim is gone and whose sandbox is being
stopped. What needs a human is refused at once, with the reason; so is a sick device, unless its
claim tolerates it. One of which nobody knows how it is gets asked before it is given.

Who only looks at a device (``adminAccess``) minds neither its holder nor how it is.

Source: network.md §4.2; gpu-and-health.md §6.5, §10.1; daemon.md §4; KC §3.2 for the price of a
failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from berth.errors import ClaimError
from berth.kube.quantity import parse_quantity
from berth.model.claim import Claim, ClaimRef, DeviceResult
from berth.model.device import RESTORE_FAILED, RETURNING, Nic, NicMode
from berth.model.edits import Edits, clash
from berth.model.peripheral import VFIO_GPU, Peripheral
from berth.nic.config.devicefacts import Target
from berth.node.health.fitness import Fitness
from berth.node.inventory.snapshot import Snapshot
from berth.node.ledger import Hold, Ledger, PluginHolder

CLOSED: Final = "not-connected"
"""Exclusion of free NICs while the runtime's NRI is not connected."""

PASSING: Final = frozenset({CLOSED, RESTORE_FAILED, RETURNING, "link-elsewhere"})
"""Reasons that may be gone in a moment."""

_GONE: Final = (
    "`berth devices` lists what is; if it is gone for good, delete the pod and its claim, so that "
    "another one is allocated"
)
# The claim may be older than the slices, which name what was unplugged or regrouped no more.


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
        mend: How to put it right then.
        holders: Holds that stand against the claim; empty when it is something else.
    """

    reason: str
    mend: str = "kubelet asks again by itself"
    holders: tuple[Hold, ...] = ()


@attrs.frozen(kw_only=True)
class Unsure:
    """Nothing stands against the claim, but of some devices nobody knows how they are.

    Attributes:
        names: Slice names of those that are to be asked.
    """

    names: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The same in words."""
        return f"nobody has asked yet how {', '.join(self.names)} is"


Admission: TypeAlias = "Admitted | Waiting | Unsure"


def admit(
    claim: Claim, snapshot: Snapshot, ledger: Ledger, *, fitness: Fitness | None = None
) -> Admission:
    """Judge a claim by what is there now.

    Args:
        fitness: How devices are; ``None`` where nobody judges them.

    Raises:
        ClaimError: It is refused, and waiting would not help.
    """
    case = _Case(claim=claim, snapshot=snapshot, ledger=ledger, fitness=fitness)
    targets: list[Target] = []
    holds: list[Hold] = []
    _require_fit(case)
    for result in claim.results:
        peripheral = snapshot.inventory.peripheral_by_name.get(result.device)
        nic = snapshot.inventory.nic_by_name.get(result.device)
        if peripheral is not None:
            found = _admit_peripheral(case, result, peripheral)
        elif nic is not None:
            found = _admit_nic(case, result, nic)
        else:
            return Waiting(reason=f"{result.device} is not seen on this node", mend=_GONE)
        if isinstance(found, Waiting):
            return found
        targets += found.targets
        holds += found.holds
    _require_apart(claim, snapshot)
    if targets:
        _require_one_pod(claim)
    if unsure := _unsure(claim, fitness):
        return Unsure(names=unsure)
    return Admitted(targets=tuple(targets), holds=tuple(holds))


@attrs.frozen(kw_only=True)
class _Case:
    """What a device of a claim is judged by."""

    claim: Claim
    snapshot: Snapshot
    ledger: Ledger
    fitness: Fitness | None


def _admit_nic(case: _Case, result: DeviceResult, nic: Nic) -> Admitted | Waiting:
    """Judge a NIC."""
    if result.admin_access:
        _require_visible(result, is_function=nic.mode is NicMode.VFIO)
        return Admitted(targets=(), holds=())
    _require_share(result, nic)
    wanted = _holds(case.claim, result, nic, case.snapshot)
    conflict = case.ledger.conflict(wanted)
    if conflict is not None:
        text = _held_text(nic.name, conflict.holders)
        return Waiting(reason=text, holders=conflict.holders)
    waiting = _judge(nic)
    if waiting is not None:
        return waiting
    facts = case.snapshot.facts.get(result.device)
    if facts is None:
        return Waiting(reason=f"the link of {result.device} is not seen")
    return Admitted(targets=(Target(result=result, facts=facts),), holds=wanted)


def _admit_peripheral(
    case: _Case, result: DeviceResult, peripheral: Peripheral
) -> Admitted | Waiting:
    """Judge a device that stays where it is."""
    if result.admin_access:
        _require_visible(result, is_function=peripheral.type == VFIO_GPU)
        if peripheral.hindrance:
            return Waiting(reason=f"{peripheral.name} {peripheral.hindrance}")
        return Admitted(targets=(), holds=())
    fitness = case.fitness
    tolerated = fitness is not None and fitness.is_tolerated(result.device, result.tolerations)
    against = peripheral.hindrance if tolerated else peripheral.obstacle
    if against:
        return Waiting(reason=f"{peripheral.name} {against}")
    wanted = peripheral_holds(case.claim.ref, result, peripheral)
    conflict = case.ledger.conflict(wanted)
    if conflict is not None:
        reason = _held_text(peripheral.name, conflict.holders)
        return Waiting(reason=reason, holders=conflict.holders)
    return Admitted(targets=(), holds=wanted)


def _require_fit(case: _Case) -> None:
    """Refuse a claim with a sick device, whatever else it would have to wait for."""
    inventory = case.snapshot.inventory
    here = {*inventory.peripheral_by_name, *inventory.nic_by_name}
    for result in case.claim.results:
        if case.fitness is not None and result.device in here and not result.admin_access:
            case.fitness.require(result.device, tolerations=result.tolerations)


def _unsure(claim: Claim, fitness: Fitness | None) -> tuple[str, ...]:
    """Devices that have to be asked first; whoever only looks at one takes it as it is."""
    if fitness is None:
        return ()
    return tuple(
        result.device
        for result in claim.results
        if not result.admin_access
        and fitness.is_unsure(result.device, tolerations=result.tolerations)
    )


def _require_visible(result: DeviceResult, *, is_function: bool) -> None:
    """Refuse to show a function that a virtual machine has: one look at it is full access."""
    if is_function:
        raise ClaimError(
            result.device,
            "is asked for with adminAccess",
            rule="a device that is bound to vfio-pci has nothing that one could only look at",
            mend="keep its class out of the request: whoever opens it has the whole device",
        )


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
            slots=slots_of(result, limit=peripheral.slots),
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
    if nic.exclusion.reason in PASSING:
        return Waiting(reason=f"{nic.name} is not offered now ({nic.exclusion})")
    raise ClaimError(
        nic.name,
        f"is not offered any more: {nic.exclusion}",
        mend="`berth devices` shows it; delete the pod, so that it gets another device",
    )


def _holds(claim: Claim, result: DeviceResult, nic: Nic, snapshot: Snapshot) -> tuple[Hold, ...]:
    """What a claim takes for a NIC.

    A function for a machine is given with its whole IOMMU group, and a PF with its VFs.
    """
    if nic.mode is NicMode.SHARED:
        return (_share(claim, result, nic, snapshot),)
    keys = [nic.identity]
    facts = snapshot.facts.get(result.device)
    if nic.mode is NicMode.VFIO and facts is not None:
        keys += facts.companions
    if facts is not None:
        keys += facts.vfs
    return tuple(Hold(key=key, device=nic.name, holder=claim.ref) for key in keys)


def _share(claim: Claim, result: DeviceResult, nic: Nic, snapshot: Snapshot) -> Hold:
    device = snapshot.inventory.device_by_name.get(nic.name)
    slots = device.capacity.get("slots") if device is not None else None
    limit = slots.value if slots is not None else 1
    return Hold(
        key=nic.identity,
        device=nic.name,
        holder=claim.ref,
        share=result.share_id,
        slots=slots_of(result, limit=limit),
        limit=limit,
    )


def slots_of(result: DeviceResult, *, limit: int) -> int:
    """How many slots of a shared device a claim takes; all of them where that is no amount.

    The server keeps what is less than nothing if somebody writes it, and it must give room to none.
    """
    for name, text in result.consumed.items():
        if name.rpartition("/")[2] == "slots":
            try:
                amount = math.ceil(parse_quantity(text))
            except ValueError:
                return limit
            return amount if amount >= 0 else limit
    return 1


def _held_text(device: str, holders: Sequence[Hold]) -> str:
    each = dict.fromkeys(
        str(hold.holder)
        if isinstance(hold.holder, PluginHolder)
        else f"claim {hold.holder} ({hold.holder.uid})"
        for hold in holders
    )
    return f"{device} is held by {', '.join(each)}"
