"""From how a link is at home to how it was: the steps, and what still differs.

Whatever a pod left on the link (an XDP program, promiscuous mode, another MAC or name) is undone
here, so that nothing of it reaches the next holder. Applying the steps twice changes nothing.

Knowingly left out: an XDP program that the host had attached and the pod replaced, since only who
has its descriptor can attach it again.

Source: network.md §4.5, for the order and for what the kernel refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from ipaddress import IPv6Interface
from typing import Final

import attrs

from berth.host.netlink.address import IFA_F_NODAD, Address
from berth.host.netlink.link import IFF_ALLMULTI, IFF_PROMISC, IFF_UP, Offload
from berth.host.netlink.linkrequest import DOWN, LinkChange
from berth.host.netlink.route import Route
from berth.nic.addressing import Held, address_changes
from berth.nic.record import Originals
from berth.nic.steps import (
    Altnames,
    Change,
    DropAddress,
    Place,
    PutAddress,
    PutNeighbor,
    PutRoute,
    PutSettings,
    PutSwitches,
    SetLink,
    SetVf,
    Step,
)
from berth.nic.vf import NO_MAC, VfSeat, vf_changes
from berth.nic.view import KEPT_FLAGS, View

_UNSAID: Final[tuple[object, ...]] = (None, 0, (), {}, Offload())
# What a change leaves as it is.


def free_name(originals: Originals, index: int, taken: Set[str]) -> str:
    """The name for the link at home: its own, or a free one while that is somebody else's.

    Args:
        index: Its interface index at home.
        taken: Names and altnames of other links at home.
    """
    spares = (f"berth{index}{more}" for more in ("", *(f"x{n}" for n in range(len(taken)))))
    return next(name for name in (originals.name, *spares) if name not in taken)


def restore(
    originals: Originals, view: View, taken: Set[str], *, seat: VfSeat | None = None
) -> tuple[Step, ...]:
    """The steps at home that are still due; none when everything stands as it stood.

    Args:
        taken: Names and altnames of other links at home.
        seat: Where a VF hangs.
    """
    name = free_name(originals, view.link.index, taken)
    changes = list(_link_changes(originals, view, name, taken, seat))
    goes_down = bool(changes) and view.link.up
    if goes_down:
        changes.insert(0, ("up", SetLink(change=DOWN)))
        view = _after_down(view)
    if (view.link.flags ^ originals.flags) & KEPT_FLAGS:
        changes.append(("flags", _flags(originals)))
    changes.extend(_address_changes(originals, view))
    changes.extend(_neighbor_changes(originals, view))
    return tuple(Step(place=Place.HOME, field=field, change=change) for field, change in changes)


def differences(
    originals: Originals, view: View, taken: Set[str], *, seat: VfSeat | None = None
) -> tuple[str, ...]:
    """What still is not as it was, a sentence each; empty when the link is home."""
    return tuple(
        dict.fromkeys(
            f"{step.field} is not restored: {_told(step.change)}"
            for step in restore(originals, view, taken, seat=seat)
        )
    )


def _after_down(view: View) -> View:
    """What is left of a link that goes down: no IPv6 address, no route, no neighbor."""
    return attrs.evolve(
        view,
        link=attrs.evolve(view.link, flags=view.link.flags & ~IFF_UP),
        addresses=tuple(a for a in view.addresses if a.ip.version == 4),
        routes=(),
        neighbors=(),
    )


def _link_changes(
    originals: Originals, view: View, name: str, taken: Set[str], seat: VfSeat | None
) -> Iterator[tuple[str, Change]]:
    """What needs the link down, in the order that the kernel takes it."""
    link = view.link
    if link.xdp is not None and link.xdp.program_id != originals.xdp_program_id:
        yield "xdp", SetLink(change=LinkChange(xdp_detach=link.xdp.mode))
    left_on = link.flags & ~originals.flags & (IFF_PROMISC | IFF_ALLMULTI)
    if left_on:
        yield "flags", SetLink(change=LinkChange(flags_off=left_on))
    if name in link.altnames:
        # The kernel refuses a name that already finds the link.
        yield "altnames", Altnames(remove=(name,))
    if link.name != name:
        yield "name", SetLink(change=LinkChange(name=name))
    if link.mtu != originals.mtu:
        yield "mtu", SetLink(change=LinkChange(mtu=originals.mtu))
    yield from _address_value_changes(originals, view, seat)
    yield from _value_changes(originals, view)
    yield from _altname_changes(originals, view, name, taken)
    settings = _setting_changes(originals, view)
    if settings:
        yield "sysctls", PutSettings(values=settings)
    switches = {n: v for n, v in originals.switches.items() if view.switches.get(n, v) != v}
    if switches:
        yield "ethtool", PutSwitches(values=switches)
    if originals.vf is not None and view.vf is not None and seat is not None:
        for field, change in vf_changes(view.vf, originals.vf):
            yield field, SetVf(seat=seat, change=change)


def _address_value_changes(
    originals: Originals, view: View, seat: VfSeat | None
) -> Iterator[tuple[str, Change]]:
    link, held = view.link, None
    if originals.vf is not None and view.vf is not None and seat is not None:
        wanted = originals.vf.mac
        # One that the PF shows because the VF chose it, as it did before, is nothing to let go of.
        is_own = wanted == NO_MAC and view.vf.mac == originals.mac
        held = Held(seat=seat, shown="" if is_own else view.vf.mac, wanted=wanted)
    yield from address_changes(link.mac, originals.mac, field="mac", held=held)
    if originals.broadcast and link.broadcast != originals.broadcast:
        yield "broadcast", SetLink(change=LinkChange(broadcast=originals.broadcast))


def _value_changes(originals: Originals, view: View) -> Iterator[tuple[str, Change]]:
    link = view.link
    offload = Offload(
        **{
            name: value
            for name, value in attrs.asdict(originals.offload).items()
            if value != getattr(link.offload, name)
        }
    )
    if offload != Offload():
        yield "offload", SetLink(change=LinkChange(offload=offload))
    if link.txqlen != originals.txqlen:
        yield "txqlen", SetLink(change=LinkChange(txqlen=originals.txqlen))
    if link.group != originals.group:
        yield "group", SetLink(change=LinkChange(group=originals.group))
    if link.alias != originals.alias:
        yield "alias", SetLink(change=LinkChange(alias=originals.alias))


def _altname_changes(
    originals: Originals, view: View, name: str, taken: Set[str]
) -> Iterator[tuple[str, Change]]:
    present = {*view.link.altnames} - {name}
    foreign = tuple(n for n in view.link.altnames if n in present and n not in originals.altnames)
    missing = tuple(
        n for n in originals.altnames if n not in present and n not in taken and n != name
    )
    if foreign:
        yield "altnames", Altnames(remove=foreign)
    if missing:
        yield "altnames", Altnames(add=missing)


def _setting_changes(originals: Originals, view: View) -> dict[str, int]:
    """Settings to put back: those that were set, and those that followed from a pod's flags."""
    wanted = {**view.fresh, **originals.sysctls}
    return {n: wanted[n] for n, v in view.sysctls.items() if wanted.get(n, v) != v}


def _flags(originals: Originals) -> Change:
    on = originals.flags & KEPT_FLAGS
    return SetLink(change=LinkChange(flags_on=on, flags_off=KEPT_FLAGS & ~on))


def _address_changes(originals: Originals, view: View) -> Iterator[tuple[str, Change]]:
    present = {_address_key(a) for a in view.addresses}
    wanted = {_address_key(a) for a in originals.addresses}
    for address in view.own_addresses:
        if _address_key(address) not in wanted:
            yield "addresses", DropAddress(address=address)
    for address in originals.addresses:
        if _address_key(address) not in present:
            yield "addresses", PutAddress(address=_quick(address, originals.name))
    if originals.flags & IFF_UP:
        routes = {_route_key(r) for r in view.routes}
        for route in sorted(originals.routes, key=_gateways_last):
            if _route_key(route) not in routes:
                yield "routes", PutRoute(route=route)


def _neighbor_changes(originals: Originals, view: View) -> Iterator[tuple[str, Change]]:
    present = {(n.ip, n.mac) for n in view.neighbors}
    for neighbor in originals.neighbors:
        if (neighbor.ip, neighbor.mac) not in present:
            yield "neighbors", PutNeighbor(neighbor=neighbor)


def _quick(address: Address, name: str) -> Address:
    """An address that was usable before is usable at once: no new search for duplicates."""
    if isinstance(address.ip, IPv6Interface):
        return attrs.evolve(address, flags=address.flags | IFA_F_NODAD)
    # A label that is just the link's name follows the name that it has now.
    return attrs.evolve(address, label="") if address.label == name else address


def _gateways_last(route: Route) -> bool:
    return any(hop.gateway is not None for hop in route.hops) or bool(route.nexthop_id)


def _address_key(address: Address) -> tuple[object, ...]:
    return address.ip, address.peer


def _route_key(route: Route) -> tuple[object, ...]:
    return route.destination, route.table, route.priority, route.tos


def _told(change: Change) -> str:
    """The change in words: of its values, those that say something."""
    values = attrs.asdict(change, recurse=False)
    if isinstance(change, SetLink):
        values = attrs.asdict(change.change, recurse=False)
    return ", ".join(
        f"{name}={value}"
        for name, value in values.items()
        if value not in (None, 0, (), {}, Offload())
    )
