"""Who has a device: what the claims' records say of one identity.

A device is held alone by one claim, or, as a parent, by the claims that have links made over it. A
record that was revoked still stands while its device is on its way home.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from berth.nic.record import NicRecord, Originals
from berth.node.record import ClaimRecord, HeldDevice


@attrs.frozen(kw_only=True)
class Entry:
    """One claim's part in a device."""

    record: ClaimRecord
    device: HeldDevice
    nic: NicRecord

    @property
    def fault(self) -> str:
        """Why its last step failed; empty when it did not."""
        binding = self.device.binding
        return self.nic.fault or (binding.fault if binding is not None else "")


@attrs.frozen(kw_only=True)
class Holding:
    """Everybody who has one device.

    Attributes:
        entries: Never empty; claims that live come first.
    """

    entries: tuple[Entry, ...]

    @property
    def first(self) -> Entry:
        """Whoever says what the device is called and which group it belongs to."""
        return self.entries[0]

    @property
    def is_parent(self) -> bool:
        """The device stays at home, and claims have links over it."""
        return self.first.nic.is_child

    @property
    def is_function(self) -> bool:
        """It is, or was, bound to vfio-pci for its claim."""
        return self.first.device.link is not None

    @property
    def is_living(self) -> bool:
        """A claim holds it that nobody asked to undo."""
        return not self.first.record.revoked

    @property
    def name(self) -> str:
        """Slice name of the device."""
        return self.first.device.result.device

    @property
    def group(self) -> str:
        """Group that gave it; it keeps it until it is free."""
        return self.first.nic.group

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims, as ``namespace/name``."""
        return tuple(str(entry.record.claim) for entry in self.entries)

    @property
    def slots(self) -> int:
        """Slots of a parent that living claims have."""
        return sum(entry.device.slots for entry in self.entries if not entry.record.revoked)

    @property
    def originals(self) -> Originals | None:
        """How the link was at home."""
        return self.first.nic.originals

    @property
    def fault(self) -> str:
        """Why the last step failed; empty when none did."""
        return next((entry.fault for entry in self.entries if entry.fault), "")


def holdings(records: Iterable[ClaimRecord]) -> Mapping[str, Holding]:
    """Every device that a claim holds, by its identity; admin access holds none."""
    entries: dict[str, list[Entry]] = {}
    for record in records:
        for device in record.devices:
            nic = device.nic or device.link
            if nic is not None:
                entry = Entry(record=record, device=device, nic=nic)
                entries.setdefault(device.identity, []).append(entry)
    return {
        identity: Holding(entries=tuple(sorted(found, key=lambda entry: entry.record.revoked)))
        for identity, found in entries.items()
    }
