"""What there is to say of devices: how many, which, how they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from berth.health.finding import Severity
from berth.health.verdict import HealthState, Status
from berth.metrics.page import Page
from berth.metrics.words import kind_of_type
from berth.model.device import Exclusion
from berth.model.inventory import Inventory
from berth.model.peripheral import Door

_HEALTH: Final = {Status.HEALTHY: 1, Status.UNHEALTHY: 0, Status.UNKNOWN: -1}


@attrs.frozen(kw_only=True)
class Seen:
    """One device, as far as figures go.

    Attributes:
        device: Its slice name.
        is_offered: A door shows it, held or not.
    """

    device: str
    kind: str
    group: str
    door: str
    pci: str
    is_offered: bool
    is_held: bool
    exclusion: Exclusion | None


def seen(inventory: Inventory) -> Iterator[Seen]:
    """Every device, offered or not."""
    for one in inventory.peripherals:
        yield Seen(
            device=one.name,
            kind=kind_of_type(one.type),
            group=one.group,
            door=one.door.value,
            pci=str(one.attributes.get("resource.kubernetes.io/pciBusID", "")),
            is_offered=one.is_listed or one.name in inventory.device_by_name,
            is_held=bool(one.held_by),
            exclusion=one.exclusion,
        )
    for nic in inventory.nics:
        listing = inventory.listing_by_name.get(nic.name)
        listed = listing is not None and listing.is_listed and listing.exclusion is None
        yield Seen(
            device=nic.name,
            kind="nic",
            group=nic.group,
            door=(listing.door if listing is not None else Door.DRA).value,
            pci=nic.pci,
            is_offered=listed or nic.name in inventory.device_by_name,
            is_held=bool(nic.held_by),
            exclusion=nic.exclusion or (listing.exclusion if listing is not None else None),
        )


def put_devices(
    page: Page,
    inventory: Inventory,
    state: HealthState,
    causes_of: Callable[[str], Iterable[Severity]],
) -> None:
    """How many are offered, which are offered or held and how these are, and why others are not.

    Args:
        causes_of: How bad each thing is that speaks against a device, by its name.
    """
    devices = tuple(seen(inventory))
    page.put_all(
        "berth_devices",
        Counter(
            (one.kind, one.door, state.of(one.device).status.value)
            for one in devices
            if one.is_offered
        ),
    )
    for one in devices:
        if one.is_offered or one.is_held:
            page.put("berth_device_info", 1, one.device, one.kind, one.group, one.door, one.pci)
            health = _HEALTH[state.of(one.device).status]
            page.put("berth_device_health", health, one.device, one.kind)
            causes = Counter(severity.name.lower() for severity in causes_of(one.device))
            for severity, count in causes.items():
                page.put("berth_device_causes", count, one.device, severity)
    page.put_all(
        "berth_device_excluded",
        Counter(
            (one.kind, one.exclusion.reason)
            for one in devices
            if one.exclusion is not None and not one.is_offered
        ),
    )
