"""Groups that name the same thing: certain from the file alone, without a look at the machine.

Two groups may still select one NIC by different conditions; only discovery sees that, and offers
such a NIC to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from berth.config.match import NicMatch


def shared_things(one: NicMatch, other: NicMatch) -> Iterator[tuple[str, str]]:
    """What both conditions take: the key under which it stands in the other, and the thing.

    A thing that both name exactly counts whatever else is asked of it. One that a pattern or a
    range covers counts only where all other conditions are the same, since they may tell apart
    what the pattern does not.
    """
    for name in ("name", "altname", "mac"):
        for thing in getattr(other, name):
            if thing in getattr(one, name):
                yield name, thing
    yield from _shared_addresses(one, other)
    if attrs.evolve(one, pf=()) == attrs.evolve(other, pf=()):
        for theirs in other.pf:
            if any(mine.meets(theirs) for mine in one.pf):
                yield "pf", f"VFs of {theirs.pf}"


def _shared_addresses(one: NicMatch, other: NicMatch) -> Iterator[tuple[str, str]]:
    alike = attrs.evolve(one, pci=()) == attrs.evolve(other, pci=())
    for theirs in other.pci:
        for mine in one.pci:
            exact, pattern = (mine, theirs) if mine.is_exact else (theirs, mine)
            covered = exact.is_exact and pattern.fits(exact.text)
            if (alike and covered) or (mine == theirs and (alike or exact.is_exact)):
                yield "pci", exact.text
