"""What else than its own word decides whether a device that is waited for is ready.

One that is sick, or that nobody is offered any more, is given up without a wait; what may be over
in a moment is waited for, as at a prepare.

Source: KC §9.2; gpu-and-health.md §6.5.
"""

from __future__ import annotations

import attrs

from berth.health.taints import FAULT, tolerates
from berth.health.verdict import HealthState, Status
from berth.model.allocation import AllocatedDevice
from berth.model.device import Nic, NicMode
from berth.model.inventory import Inventory
from berth.model.peripheral import ABSENT, Peripheral
from berth.model.readiness import UNASKED, Answer
from berth.node.claims.admission import PASSING
from berth.node.claims.conditions import camel_case


@attrs.frozen(kw_only=True)
class Standing:
    """Where a device stands.

    Attributes:
        answer: Whether it is ready.
        obstacle: Why nobody gets it, ready or not; ``None`` if nothing speaks against it.
    """

    answer: Answer
    obstacle: Answer | None = None


def standing(
    device: AllocatedDevice,
    answer: Answer | None,
    *,
    inventory: Inventory,
    health: HealthState,
    driver: str,
) -> Standing:
    """Where a device stands that was given to a claim which is not prepared.

    Args:
        answer: What it says itself; ``None`` where it was not asked.
    """
    said = answer or UNASKED
    one = inventory.seen(device.device)
    if one is None:
        return Standing(answer=said, obstacle=_no("Gone", "it is not seen on this node"))
    if device.admin_access:
        return Standing(answer=said)
    obstacle = _sickness(device, health, driver) or _against(one)
    if obstacle is not None:
        return Standing(answer=said, obstacle=obstacle)
    return Standing(answer=_in_the_way(one) or said)


def _sickness(device: AllocatedDevice, health: HealthState, driver: str) -> Answer | None:
    verdict = health.of(device.device)
    tolerated = tolerates(device.tolerations, f"{driver}/{FAULT}")
    if verdict.status is not Status.UNHEALTHY or tolerated:
        return None
    return _no(
        camel_case(verdict.reason) or "Unhealthy",
        f"it is unhealthy ({verdict.reason}): {verdict.message}",
    )


def _against(one: Nic | Peripheral) -> Answer | None:
    """Why the device is offered to nobody, for more than a moment."""
    if isinstance(one, Peripheral) and one.unhealthy == ABSENT:
        return _no("Gone", "it is not seen on this node")
    if one.exclusion is None or one.exclusion.reason in PASSING:
        return None
    return _no("NotOffered", f"it is not offered any more: {one.exclusion}")


def _in_the_way(one: Nic | Peripheral) -> Answer | None:
    """What the device has to be rid of first: its last holder, or what keeps it for a moment."""
    alone = one.mode is not NicMode.SHARED if isinstance(one, Nic) else one.slots == 1
    if alone and one.held_by:
        return _no("Held", f"it is held by {', '.join(one.held_by)}")
    if one.exclusion is not None:
        return _no("NotOffered", f"it is not offered now ({one.exclusion})")
    return None


def _no(reason: str, message: str) -> Answer:
    return Answer(ready=False, reason=reason, message=message)
