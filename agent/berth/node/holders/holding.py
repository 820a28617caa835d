"""Who has a NIC: what the records of both doors say of one identity.

A NIC is held alone by one holder, or, as a parent, by those that have links made over it. A holder
that was revoked still counts while its NIC is on its way home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from berth.model.device import Attribute
from berth.nic.attributes import SHARED, VFIO_TYPE
from berth.nic.listing import KIND
from berth.nic.record import NicRecord, Originals
from berth.node.records.given import Given, GivenDevice
from berth.node.records.record import ClaimRecord


@attrs.frozen(kw_only=True)
class Entry:
    """One holder's part in a NIC.

    Attributes:
        holder: Who it is, for people.
        name: Slice name of the NIC.
        group: Group that gave it.
        attributes: As published when it was given.
        slots: How many slots of a parent it takes that claims may have.
        is_share: The NIC stays at home, and the holder has a link over it.
        revoked: It has ended, and its NIC is to come home.
        is_function: The NIC is given as a function that vfio-pci has, or had for the holder.
        nic: What is done to the NIC, or how its link was; ``None`` where nothing is.
        fault: Why the last step failed; empty when it did not.
        given: By the device plugin; ``None`` for a claim.
    """

    holder: str
    name: str
    group: str
    type: str
    attributes: Mapping[str, Attribute]
    slots: int
    is_share: bool
    revoked: bool
    nic: NicRecord | None
    is_function: bool = False
    fault: str = ""
    given: GivenDevice | None = None

    @property
    def is_published(self) -> bool:
        """Whether its slice has to show the NIC while it is held."""
        return self.given is None or self.given.peripheral.door.opens_dra


@attrs.frozen(kw_only=True)
class Holding:
    """Everybody who has one NIC.

    Attributes:
        entries: Never empty; holders that live come first.
    """

    entries: tuple[Entry, ...]

    @property
    def first(self) -> Entry:
        """Whoever says what the NIC is called and which group it belongs to."""
        return self.entries[0]

    @property
    def is_parent(self) -> bool:
        """The NIC stays at home, and its holders have links over it."""
        return self.first.is_share

    @property
    def is_function(self) -> bool:
        """It is given as a function that vfio-pci has, or had for its claim."""
        return self.first.is_function

    @property
    def is_living(self) -> bool:
        """Somebody holds it whom nobody asked to give it back."""
        return not self.first.revoked

    @property
    def name(self) -> str:
        """Slice name of the NIC."""
        return self.first.name

    @property
    def group(self) -> str:
        """Group that gave it; it keeps it until it is free."""
        return self.first.group

    @property
    def holders(self) -> tuple[str, ...]:
        """Claims as ``namespace/name``, containers by the resource that they asked for."""
        return tuple(entry.holder for entry in self.entries)

    @property
    def given(self) -> GivenDevice | None:
        """As what the device plugin gave it; ``None`` where it did not."""
        return next((entry.given for entry in self.entries if entry.given is not None), None)

    @property
    def slots(self) -> int:
        """Slots of a parent that living claims have."""
        return sum(entry.slots for entry in self.entries if not entry.revoked)

    @property
    def originals(self) -> Originals | None:
        """How the link was at home."""
        return self.first.nic.originals if self.first.nic is not None else None

    @property
    def fault(self) -> str:
        """Why the last step failed; empty when none did."""
        return next((entry.fault for entry in self.entries if entry.fault), "")


def holdings(records: Iterable[ClaimRecord], given: Iterable[Given] = ()) -> Mapping[str, Holding]:
    """Every NIC that somebody holds, by its identity; admin access holds none."""
    entries: dict[str, list[Entry]] = {}
    for identity, entry in (*_of_claims(records), *_of_plugin(given)):
        entries.setdefault(identity, []).append(entry)
    return {
        identity: Holding(entries=tuple(sorted(found, key=lambda entry: entry.revoked)))
        for identity, found in entries.items()
    }


def _of_claims(records: Iterable[ClaimRecord]) -> Iterator[tuple[str, Entry]]:
    for record in records:
        for device in record.devices:
            nic = device.nic or device.link
            if nic is not None:
                yield (
                    device.identity,
                    Entry(
                        holder=str(record.claim),
                        name=device.result.device,
                        group=nic.group,
                        type=device.type,
                        attributes=device.attributes,
                        slots=device.slots,
                        is_share=nic.is_child,
                        revoked=record.revoked,
                        nic=nic,
                        is_function=device.link is not None,
                        fault=device.fault,
                    ),
                )


def _of_plugin(given: Iterable[Given]) -> Iterator[tuple[str, Entry]]:
    for one in given:
        for device in one.devices:
            listing = device.peripheral
            if listing.kind == KIND:
                yield (
                    listing.identity,
                    Entry(
                        holder=str(one.holder),
                        name=listing.name,
                        group=listing.group,
                        type=listing.type,
                        attributes=listing.attributes,
                        slots=0,
                        is_share=listing.type == SHARED,
                        revoked=one.revoked,
                        nic=device.nic,
                        is_function=listing.type == VFIO_TYPE,
                        fault=device.nic.fault if device.nic is not None else "",
                        given=device,
                    ),
                )
