"""What must hold among the NICs of one pod, of whichever claims they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count

from berth.nic.config.children import clash
from berth.nic.config.merge import Draft
from berth.nic.config.report import Place
from berth.nic.config.values import ResolvedNic, RouteKey


def assign_names(given: Sequence[str], taken: Collection[str]) -> tuple[str, ...]:
    """Names for all: those that are given, and ``net1``, ``net2`` … for the empty ones.

    Args:
        given: Names in the order of the NICs, empty where none is asked for.
        taken: Names of other NICs of the pod.
    """
    used = {*given, *taken}
    free = (name for name in (f"net{number}" for number in count(1)) if name not in used)
    return tuple(name or next(free) for name in given)


def check_pod(nics: Sequence[tuple[ResolvedNic, Draft]], others: Sequence[ResolvedNic]) -> None:
    """Note what two NICs of the pod both want; each pair once, at the later of the two.

    Args:
        nics: Of the claim in question.
        others: Of the pod's other claims, as far as they are prepared.
    """
    before = list(others)
    for nic, draft in nics:
        for other in before:
            _check_pair(nic, draft, other)
        before.append(nic)


def _check_pair(nic: ResolvedNic, draft: Draft, other: ResolvedNic) -> None:
    names = {name for _, name in other.config.names}
    for path, name in nic.config.names:
        if name in names:
            _clash(draft.place(path), f'"{name}" is the name', nic, other)
    table = nic.config.vrf.table
    if table is not None and table == other.config.vrf.table:
        _clash(draft.place("vrf.table"), f"{table} is the table of the VRF", nic, other)
    mine, theirs = nic.config.interface.hardware_addr, other.config.interface.hardware_addr
    if mine is not None and mine == theirs:
        place = draft.place("interface.hardwareAddr")
        _clash(place, f"{mine} is the hardware address", nic, other)
    _check_children(nic, draft, other)
    addresses = {address.address.ip for address in other.config.addresses}
    for number, address in enumerate(nic.config.addresses):
        if address.address.ip in addresses:
            place = draft.item_place("addresses", number).at("address")
            _clash(place, f"{address.address.ip} is an address", nic, other)
    _check_routes(nic, draft, other)


def _check_children(nic: ResolvedNic, draft: Draft, other: ResolvedNic) -> None:
    """Of one claim alone; those of other claims are among what its device is checked against."""
    if (nic.claim, nic.device) == (other.claim, other.device):
        path, rule = clash(nic.config, other.config)
        if path:
            draft.place(path).say(f"clashes with that of {other}", rule=rule)


def _check_routes(nic: ResolvedNic, draft: Draft, other: ResolvedNic) -> None:
    if nic.config.vrf.name or other.config.vrf.name:
        # A VRF's table is its own.
        return
    explicit = {route.key for route in other.config.routes}
    taken = explicit | set(_connected(other))
    for number, route in enumerate(nic.config.routes):
        if route.key in taken:
            place = draft.item_place("routes", number).at("to")
            _clash(place, f"the route to {route.key} is one", nic, other)
    for number, address in enumerate(nic.config.addresses):
        for key in address.connected:
            if key in explicit:
                place = draft.item_place("addresses", number).at("address")
                _clash(place, f"the route to its network ({key}) is one", nic, other)


def _connected(nic: ResolvedNic) -> Iterator[RouteKey]:
    for address in nic.config.addresses:
        yield from address.connected


def _clash(place: Place, found: str, nic: ResolvedNic, other: ResolvedNic) -> None:
    place.say(f"{found} of {nic} and of {other}", rule="in a pod it can be of one NIC only")
