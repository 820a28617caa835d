"""The NICs that managers have to leave alone, and words that all managers share.

Source: network.md §8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from berth.cli.checks.machine import Machine
from berth.model.device import Nic
from berth.nic.marks import is_lent, mark_of_index
from berth.node.nics.nicmarks import FOLDER

TOPIC: Final = "network managers"

_GENERATORS: Final[Mapping[str, str]] = {
    "/run/systemd/network/*-netplan-*": "netplan writes it anew: change /etc/netplan/*.yaml, "
    "then netplan apply",
    "/run/NetworkManager/system-connections/netplan-*": "netplan writes it anew: change "
    "/etc/netplan/*.yaml, then netplan apply",
    "*/*cloud-init*": "cloud-init writes it anew: change what it is given, or write "
    "network: {config: disabled} in /etc/cloud/cloud.cfg.d/99-network.cfg, and then the file",
}
# Files that are made from others, by their paths.


def lent(machine: Machine) -> tuple[Nic, ...]:
    """The NICs of this machine that berth lends out and that have a link here."""
    return tuple(nic for nic in machine.inventory.nics if is_lent(nic) and nic.ifindex)


def is_marked(machine: Machine, nic: Nic) -> bool:
    """Whether berthd has told managers of a NIC."""
    names = [nic.pci] if nic.pci else []
    return any((machine.at(FOLDER) / n).exists() for n in (*names, mark_of_index(nic.ifindex)))


def named(nics: Iterable[Nic]) -> str:
    """The links of NICs, for a sentence."""
    return " and ".join(nic.ifname for nic in nics)


def fits(text: str, patterns: Iterable[str]) -> bool:
    """Whether a text is one of several patterns of a shell."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def mend_in(path: str, mend: str) -> str:
    """How to change a file: by itself, or by what it is made from."""
    made = next((how for where, how in _GENERATORS.items() if fnmatchcase(path, where)), "")
    return made or mend


def ini(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, key and value of each line of a file in that form."""
    section = ""
    for line in text.splitlines():
        line = line.strip()  # noqa: PLW2901 - blanks around it mean nothing
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and line[0] not in "#;" and "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip()
