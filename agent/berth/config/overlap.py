"""Groups that name the same thing: certain from the file alone, without a look at the machine.

Two groups may still select one NIC by different conditions; only discovery sees that, and offers
such a NIC to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from berth.config.match import NicMatch


def shared_things(one: NicMatch, other: NicMatch) -> Iterator[tuple[str, str]]:
    """What both conditions name: the key under which it stands, and the thing itself."""
    for pattern in one.pci:
        if pattern.is_exact and pattern in other.pci:
            yield "pci", pattern.text
    for name in ("name", "altname", "mac"):
        for thing in getattr(one, name):
            if thing in getattr(other, name):
                yield name, thing
    if attrs.evolve(one, pf=()) == attrs.evolve(other, pf=()):
        for mine in one.pf:
            for theirs in other.pf:
                if mine.meets(theirs):
                    yield "pf", f"VFs of {mine.pf}"


def contradictory(one: NicMatch, other: NicMatch) -> bool:
    """Whether no device can fit both, since they ask for different values of one exact fact."""
    exact = ("vendor", "device", "subsystem", "driver", "kind", "link_type", "numa", "acpi_index")
    for name in exact:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine and theirs and not set(mine) & set(theirs):
            return True
    return False
