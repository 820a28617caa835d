"""Where a NIC should be now, and what may be expected of it there."""

from __future__ import annotations

from enum import Enum

import attrs

from berth.health.finding import Severity
from berth.model.device import NicKind
from berth.nic.record import NicRecord


class Place(Enum):
    """Where a NIC should be."""

    FREE = "free"
    """At home, and nobody has it."""
    PARENT = "parent"
    """At home for good: its holders have links over it, or may get some."""
    STAGED = "staged"
    """At home, and somebody has it whose sandbox it is not in, or not yet."""
    POD = "pod"
    """In the sandbox of its record."""
    RETURNING = "returning"
    """On its way home; with a fault it does not let itself be put back."""
    MOVING = "moving"
    """On its way: where it is says nothing now."""
    ELSEWHERE = "elsewhere"
    """Where it is, is somebody else's affair: a CNI plugin's, or a program's through vfio-pci."""
    GONE = "gone"
    """Its record says that its link exists no more."""


@attrs.frozen(kw_only=True)
class Post:
    """One NIC's post.

    Attributes:
        identity: What it physically is.
        index: Interface index at home; 0 while it has no link there.
        address: Of its PCI function; empty without one.
        record: Of its holder, of a NIC that is moved; ``None`` for others.
        holder: Who has it, in words for people; empty when nobody does.
        children: Records of a parent's links in pods.
        fault: Why it is not as it was, of one that returns.
        busy: A driver does not let go of its function.
        linkless: Its function has a driver that makes links, and no link is seen.
        carrier: How bad a lost carrier is.
        carrier_when_free: Whether that counts while nobody has it, too.
        driver: The one that its function should have; empty when any will do.
        driverless: Nothing is expected of its function's driver now.
    """

    identity: str
    place: Place
    kind: NicKind = NicKind.VIRTUAL
    index: int = 0
    address: str = ""
    record: NicRecord | None = None
    holder: str = ""
    children: tuple[NicRecord, ...] = ()
    fault: str = ""
    busy: bool = False
    linkless: bool = False
    carrier: Severity = Severity.DEGRADED
    carrier_when_free: bool = False
    driver: str = ""
    driverless: bool = False

    @property
    def is_moving(self) -> bool:
        """It is on its way, and nothing can be said of it before it is there."""
        returns = self.place is Place.RETURNING and not self.fault and not self.busy
        return returns or self.place is Place.MOVING

    @property
    def is_watched_for_carrier(self) -> bool:
        """Whether a lost carrier counts: somebody has it, or the group says so of free ones."""
        return bool(self.holder) or self.carrier_when_free
