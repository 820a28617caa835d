"""Which links stand in for the NICs that a configuration names.

A group that names links, by name, other name or address, gets links of those names. A group that
asks for hardware (PCI, vendor, VFs, firmware) cannot be played: links have no hardware. Nor can one
whose NICs no claim gets. Its form is checked with the rest of the file, and it is told that it was
not rehearsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice, zip_longest
from typing import Final

import attrs

from berth.config.doors import Door
from berth.config.match import LinkType, NicMatch
from berth.config.nicgroup import NicGroup
from berth.model.device import NicKind, NicMode

_HARDWARE: Final = (
    "pci",
    "pf",
    "vendor",
    "device",
    "subsystem",
    "port_name",
    "numa",
    "pcie_root",
    "acpi_index",
)
_TAKEN: Final = frozenset({"lo", "all", "default"})
"""Names that a namespace has from its beginning, among its links or its settings."""

DRIVER: Final = "veth"
"""Kernel driver of a stand-in, as discovery tells it."""


@attrs.frozen(kw_only=True)
class StandIn:
    """One link to be made.

    Attributes:
        mac: Empty for any.
    """

    name: str
    group: str
    mode: NicMode
    mac: str = ""
    altnames: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Cast:
    """The links for a configuration.

    Attributes:
        unplayed: Groups that no link can stand in for, each with the reason.
    """

    links: tuple[StandIn, ...]
    unplayed: tuple[tuple[str, str], ...] = ()


def cast(groups: Iterable[NicGroup]) -> Cast:
    """The links for all groups."""
    groups = tuple(groups)
    named = {name for group in groups for name in group.match.name}
    own = (name for name in map("rehearsal{}".format, count()) if name not in named)
    links: list[StandIn] = []
    unplayed: list[tuple[str, str]] = []
    for group in groups:
        reason = _hardware(group.match) or _by_limits(group)
        if reason:
            unplayed.append((group.name, reason))
        else:
            links += _links(group, own)
    return Cast(links=tuple(links), unplayed=tuple(unplayed))


def _hardware(match: NicMatch) -> str:
    """What of the match no link can meet; empty when one can meet it all."""
    asked = [name for name in _HARDWARE if getattr(match, name)]
    if match.rdma:
        asked.append("rdma")
    if match.driver and DRIVER not in match.driver:
        asked.append("driver")
    if match.kind and NicKind.VIRTUAL not in match.kind:
        asked.append("kind")
    if match.link_type and LinkType.ETHER not in match.link_type:
        asked.append("link_type")
    taken = [name for name in match.name if name in _TAKEN]
    if taken and not asked:
        return f"no link can be made that is called {', '.join(taken)}"
    if not (asked or match.name or match.altname or match.mac):
        return "it names no link"
    return f"it asks for hardware by {', '.join(asked)}" if asked else ""


def _by_limits(group: NicGroup) -> str:
    """Why no claim gets the group's NICs; empty when one does."""
    if group.door is not Door.PLUGIN:
        return ""
    return 'its NICs are asked for by limits alone (door = "plugin"), and claims are played'


def _links(group: NicGroup, own: Iterator[str]) -> list[StandIn]:
    """A link for each thing that the group names; every condition given must hold for each.

    Args:
        own: Names for links that the group knows otherwise.
    """
    match = group.match
    given = [names for names in (match.name, match.altname, match.mac) if names]
    # Alternatives of one condition are shared out; a name or address can be at one link only.
    scarce = [names for names in (match.altname, match.mac) if names]
    most = min(map(len, scarce)) if scarce else max(map(len, given))
    if match.name:
        most = min(most, len(match.name)) if scarce else most
    rows = zip_longest(match.name, match.altname, match.mac, fillvalue="")
    return [
        StandIn(
            name=name or next(own),
            group=group.name,
            mode=group.mode,
            mac=mac,
            altnames=(altname,) if altname else (),
        )
        for name, altname, mac in islice(rows, most)
    ]
