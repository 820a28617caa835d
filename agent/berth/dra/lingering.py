"""Keeps a device in the slices for the moment in which it comes home from an ended claim.

The end of a claim takes some ten milliseconds, in which its NIC is neither held nor free. To take
it out and put it in again would be two writes for each pod that ends, and a scheduler that looks in
between would find nothing; a claim that is given it meanwhile waits in prepare for its return.
What is not home after `LINGER_S` leaves, since then nobody knows when it will be.

Source: daemon.md §4 ("Held").
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from berth.model.device import Device

LINGER_S: Final = 2.0
"""How long a device that is on its way home is still offered."""


@attrs.frozen(kw_only=True)
class Lingering:
    """What was last to be published, and since when which of it is on its way home.

    Attributes:
        devices: In the order of publication.
        since_s: By name.
    """

    devices: tuple[Device, ...] = ()
    since_s: Mapping[str, float] = attrs.field(factory=dict)

    def after(
        self, devices: Sequence[Device], returning: Collection[str], now_s: float
    ) -> Lingering:
        """What is to be published now.

        Args:
            devices: What the inventory offers.
            returning: Names of devices that are on their way home.
        """
        names = {device.name for device in devices}
        since_s = {
            device.name: since
            for device in self.devices
            if device.name in returning and device.name not in names
            if now_s - (since := self.since_s.get(device.name, now_s)) < LINGER_S
        }
        return Lingering(devices=self._merged(devices, since_s), since_s=since_s)

    def due_s(self) -> float:
        """When the first of them is to leave."""
        return min(self.since_s.values(), default=math.inf) + LINGER_S

    def _merged(self, devices: Sequence[Device], staying: Collection[str]) -> tuple[Device, ...]:
        """The devices with those that stay behind where they were, after their neighbors."""
        merged = list(devices)
        before = ""
        for device in self.devices:
            if device.name in staying:
                places = [place for place, one in enumerate(merged) if one.name == before]
                merged.insert(places[0] + 1 if places else 0, device)
            if device.name in staying or any(one.name == device.name for one in devices):
                before = device.name
        return tuple(merged)
