"""The hardware address of a link at home, beside one that a VF's PF holds it to.

While an address is set through the PF, drivers let a VF that is not trusted take none, not even
the same one (igbvf on Linux 6.12: EADDRNOTAVAIL), and a VF that is up keeps its old one until its
driver is bound anew. So the PF lets go first, then the link gets its address, then the PF holds it
to that.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from berth.host.netlink.linkrequest import LinkChange
from berth.host.netlink.vf import VfChange
from berth.nic.steps import Change, SetLink, SetVf
from berth.nic.vf import NO_MAC, VfSeat

ADMIN_MAC = "vf.adminMAC"
"""The field of an address that is set through the PF."""


@attrs.frozen(kw_only=True)
class Held:
    """What a PF holds a VF's address to.

    Attributes:
        shown: What it shows now; `NO_MAC` or empty for nothing.
        wanted: What it shall hold it to; `NO_MAC` for nothing.
    """

    seat: VfSeat
    shown: str
    wanted: str


def address_changes(
    now: str, wanted: str | None, *, field: str, held: Held | None = None
) -> Iterator[tuple[str, Change]]:
    """What gives a link its hardware address, each with its field.

    Args:
        now: That the link has.
        wanted: ``None`` leaves it.
        field: Of the link's own address.
        held: ``None`` where no PF is to be asked.
    """
    moves = wanted not in {None, now}
    is_held = held is not None and held.shown not in {"", NO_MAC}
    freed = held is not None and is_held and (moves or held.wanted == NO_MAC)
    if held is not None and freed:
        yield ADMIN_MAC, SetVf(seat=held.seat, change=VfChange(mac=NO_MAC))
    if moves:
        yield field, SetLink(change=LinkChange(mac=wanted))
    if held is not None and held.wanted != NO_MAC and (freed or held.shown != held.wanted):
        yield ADMIN_MAC, SetVf(seat=held.seat, change=VfChange(mac=held.wanted))
