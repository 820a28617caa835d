"""The inventory: one snapshot of every device, what is offered of it, and how to find one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from berth.model.device import CounterSet, Device, Nic
from berth.model.peripheral import Peripheral


@attrs.frozen(kw_only=True, slots=False)
class Inventory:
    """What the node has, at one moment.

    Attributes:
        nics: Every NIC seen or held, offered or not, ordered by name.
        peripherals: Every other device that a group selects or somebody holds, ordered by name.
        listings: What the device plugin hands out of NICs, ordered by name.
        devices: What is to be published, in publication order.
        counter_sets: What devices may draw on, whether one does or not, ordered by name.
        warnings: What an operator should know of this snapshot, one sentence each.
        has_uplink: It is known by which link the node is reached.
    """

    nics: tuple[Nic, ...] = ()
    peripherals: tuple[Peripheral, ...] = ()
    listings: tuple[Peripheral, ...] = ()
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    warnings: tuple[str, ...] = ()
    has_uplink: bool = False

    @cached_property
    def nic_by_name(self) -> Mapping[str, Nic]:
        """NICs by their slice name."""
        return {nic.name: nic for nic in self.nics}

    @cached_property
    def nic_by_identity(self) -> Mapping[str, Nic]:
        """NICs by what they physically are."""
        return {nic.identity: nic for nic in self.nics}

    @cached_property
    def peripheral_by_name(self) -> Mapping[str, Peripheral]:
        """Peripherals by their slice name."""
        return {peripheral.name: peripheral for peripheral in self.peripherals}

    @cached_property
    def listing_by_name(self) -> Mapping[str, Peripheral]:
        """What the device plugin hands out of a NIC, by the NIC's slice name."""
        return {listing.name: listing for listing in self.listings}

    @property
    def every(self) -> tuple[Peripheral | Nic, ...]:
        """Every device, offered or not."""
        return (*self.peripherals, *self.nics)

    def seen(self, name: str) -> Peripheral | Nic | None:
        """The device of that slice name, offered or not."""
        return self.nic_by_name.get(name) or self.peripheral_by_name.get(name)

    @property
    def pluggable(self) -> tuple[Peripheral, ...]:
        """What the device plugin may hand out, of whatever sort."""
        return (*self.peripherals, *self.listings)

    @cached_property
    def device_by_name(self) -> Mapping[str, Device]:
        """Offered devices by name."""
        return {device.name: device for device in self.devices}
