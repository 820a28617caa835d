"""What a claim's status says of each of its devices.

Source: network.md §5; gpu-and-health.md §6.5; KC §7.2 for the entry, §9.2 for what binds a pod.
"""

from __future__ import annotations

import re
from typing import Final

from berth.health.verdict import Status, Verdict
from berth.kube.status import Condition, ConditionStatus, DeviceStatus
from berth.model.readiness import failed_type, ready_type
from berth.nic.record import NicRecord, Stage
from berth.node.records.record import HeldDevice
from berth.readiness.course import Course

_USABLE: Final = "Usable"
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# What the server takes, and no more than what a code can come to.

MESSAGE_LIMIT: Final = 1000
"""Most characters of a message."""

_STATUSES: Final = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}


def device_status(device: HeldDevice, *, at: str, verdict: Verdict | None = None) -> DeviceStatus:
    """What is told of one device of a prepared claim.

    Args:
        at: The time of its last change.
        verdict: How it is; ``None`` where nobody judges it.
    """
    nic = device.nic
    health = (_healthy(verdict, at),) if verdict is not None else ()
    return DeviceStatus(
        pool=device.result.pool,
        device=device.result.device,
        share_id=device.result.share_id,
        conditions=(*_conditions(device, at, judged=verdict is not None), *health),
        network=nic.network if nic is not None else None,
        data=_data(nic) if nic is not None else None,
    )


def binding_conditions(
    course: Course, *, driver: str, at: str, now_s: float
) -> tuple[Condition, Condition]:
    """What binds the pod of a claim, or gives up the claim's devices.

    Args:
        at: The time of its last change.
        now_s: The time of now.
    """
    kinds = (
        (ready_type(driver), course.ready),
        (failed_type(driver), course.failed(now_s)),
    )
    ready, failed = (
        Condition(
            type=kind,
            status=_STATUSES[answer.ready],
            reason=answer.reason,
            message=answer.message[:MESSAGE_LIMIT],
            changed_at=at,
        )
        for kind, answer in kinds
    )
    return ready, failed


def _conditions(device: HeldDevice, at: str, *, judged: bool) -> tuple[Condition, ...]:
    if device.nic is not None:
        return _nic_conditions(device.nic, at)
    # Without a verdict there is nothing to tell of it that the allocation does not say.
    given = judged and (device.peripheral is not None or device.link is not None)
    return (_condition("Ready", True, "Prepared", "", at=at),) if given else ()


def _nic_conditions(nic: NicRecord, at: str) -> tuple[Condition, ...]:
    attached = nic.stage is Stage.ATTACHED
    if attached:
        ready = ("Attached", f"in the pod as {nic.config.interface.name}")
    elif nic.fault:
        ready = ("AttachFailed", nic.fault)
    else:
        ready = ("AwaitingSandbox", "prepared; it goes into the pod's sandbox when that is made")
    network = _network_word(nic) if attached else (ready[0], "")
    return (
        _condition("Ready", attached, *ready, at=at),
        _condition("NetworkReady", network[0] == _USABLE, *network, at=at),
    )


def _network_word(nic: NicRecord) -> tuple[str, str]:
    """Reason and message of ``NetworkReady`` for a NIC that is in its pod."""
    if nic.duplicates:
        return "DuplicateAddress", f"another station holds {', '.join(nic.duplicates)}"
    return (_USABLE, "") if nic.carrier else ("NoCarrier", "")


def _healthy(verdict: Verdict, at: str) -> Condition:
    """``Healthy``: of a sick device with its reason, of a degraded one with what to know of it."""
    if verdict.status is Status.HEALTHY:
        status, reason = ConditionStatus.TRUE, "Degraded" if verdict.is_degraded else "Healthy"
    elif verdict.status is Status.UNHEALTHY:
        status, reason = ConditionStatus.FALSE, camel_case(verdict.reason) or "Unhealthy"
    else:
        status, reason = ConditionStatus.UNKNOWN, camel_case(verdict.reason) or "Unknown"
    said = f"{verdict.reason}: {verdict.message}" if verdict.is_degraded else verdict.message
    return Condition(type="Healthy", status=status, reason=reason, message=said, changed_at=at)


def camel_case(code: str) -> str:
    """A code as a reason: ``xid-79`` is ``Xid79``; empty where it cannot be one."""
    word = "".join(part.capitalize() for part in code.split("-"))
    return word if _REASON.fullmatch(word) else ""


def _condition(kind: str, holds: bool, reason: str, message: str, *, at: str) -> Condition:
    return Condition(
        type=kind,
        status=ConditionStatus.TRUE if holds else ConditionStatus.FALSE,
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        changed_at=at,
    )


def _data(nic: NicRecord) -> dict[str, object]:
    """What would help to bring the NIC home if the disk were lost."""
    data: dict[str, object] = {"identity": nic.identity}
    if nic.originals is not None:
        originals = nic.originals
        data["home"] = {"name": originals.name, "mac": originals.mac, "mtu": originals.mtu}
    if nic.sandbox is not None:
        data["sandbox"] = nic.sandbox.id
    return data
