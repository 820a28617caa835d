"""udev's ``.link`` files that set what berth restores: name, MTU or address of a lent NIC.

udev heeds them whenever a link appears, so also when one comes home. What they set is what the NIC
had before it was lent, so nothing is lost; two writers of one value are worth a note.

Source: systemd.link(5): the first file whose conditions hold counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers.lent import TOPIC, ini, lent, mend_in, named
from berth.cli.checks.managers.matching import conditions, may_match
from berth.cli.checks.managers.networkd import network_files
from berth.model.device import Nic

SETS: Final = ("Name", "MTUBytes", "MACAddress")


def check_link_files(machine: Machine) -> Iterator[Line]:
    """Which files set what of which NICs."""
    meant: dict[str, list[Nic]] = {}
    files = [
        (path, list(ini(machine.read(path) or ""))) for path in network_files(machine, ".link")
    ]
    for nic in lent(machine):
        first = next((path for path, lines in files if may_match(conditions(lines), nic)), None)
        if first is not None:
            meant.setdefault(first, []).append(nic)
    for path, lines in files:
        said = [
            f"{key}={value}"
            for section, key, value in lines
            if section == "Link" and key in SETS and path in meant
        ]
        if said:
            yield Line(
                topic=TOPIC,
                level=Level.NOTE,
                text=f"{path}: [Link] {' '.join(said)} is set again by udev whenever "
                f"{named(meant[path])} comes home, as berth does",
                mend=mend_in(path, ""),
            )
