"""ifupdown and dhcpcd, which heed no mark: what is written for lent NICs has to go.

Source: interfaces(5) of ifupdown 0.8; dhcpcd.conf(5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from berth.cli.checks.line import Level, Line
from berth.cli.checks.machine import Machine
from berth.cli.checks.managers.lent import TOPIC, fits, lent, mend_in, named
from berth.model.device import Nic

INTERFACES: Final = "/etc/network/interfaces"
DHCPCD: Final = "/etc/dhcpcd.conf"

_IFUP: Final = ("/usr/sbin/ifup", "/sbin/ifup")
_AT_RETURN: Final = "allow-hotplug"
_STANZAS: Final = (_AT_RETURN, "auto", "allow-auto")
_DHCPCD_RUNS: Final = ("/run/dhcpcd", "/run/dhcpcd.pid")
_DEPTH: Final = 8
# Files that name further files; one that names itself would not end.


def check_ifupdown(machine: Machine) -> Iterator[Line]:
    """Lines of ifupdown's that bring a lent NIC up."""
    nics = lent(machine)
    if not nics or not any(machine.at(path).exists() for path in _IFUP):
        return
    for path, word, patterns in _stanzas(machine, INTERFACES):
        meant = [nic for nic in nics if fits(nic.ifname, patterns)]
        if not meant:
            continue
        when = "whenever it comes home" if word == _AT_RETURN else "at boot"
        text = f"{path}: {word} {' '.join(patterns)} has ifupdown configure {named(meant)} {when}"
        mend = f"take {named(meant)} out of that line, and its iface stanza out of the file"
        mend = mend_in(path, mend)
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def check_dhcpcd(machine: Machine) -> Iterator[Line]:
    """Whether a dhcpcd that runs for all links is told to leave lent ones alone."""
    nics = lent(machine)
    if not nics or not any(machine.at(path).exists() for path in _DHCPCD_RUNS):
        return
    text = machine.read(DHCPCD) or ""
    lines = [line.split() for line in text.splitlines() if line.split()]
    denied = [word for line in lines if line[0] == "denyinterfaces" for word in line[1:]]
    allowed = [word for line in lines if line[0] == "allowinterfaces" for word in line[1:]]
    if meant := [n for n in nics if _is_taken(n, denied=denied, allowed=allowed)]:
        names = " ".join(nic.ifname for nic in meant)
        text = f"dhcpcd runs, and {DHCPCD} does not deny it {named(meant)}"
        mend = f"a line denyinterfaces {names} there; then restart dhcpcd"
        yield Line(topic=TOPIC, level=Level.WARNING, text=text, mend=mend)


def _is_taken(nic: Nic, *, denied: Sequence[str], allowed: Sequence[str]) -> bool:
    if fits(nic.ifname, denied):
        return False
    return not allowed or fits(nic.ifname, allowed)


def _stanzas(
    machine: Machine, path: str, depth: int = 0
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """File, word and names of each line that brings links up, through the files that are named."""
    text = (machine.read(path) or "").replace("\\\n", " ")
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in _STANZAS:
            # A name may stand for several, by a pattern between slashes.
            names = (word.split("=")[0].strip("/") for word in words[1:])
            yield path, words[0], tuple(names)
        elif words[0] in {"source", "source-directory"} and len(words) > 1 and depth < _DEPTH:
            for found in _sourced(machine, path, words):
                yield from _stanzas(machine, found, depth + 1)


def _sourced(machine: Machine, path: str, words: Sequence[str]) -> list[str]:
    place = str(Path(path).parent / words[1])
    if words[0] == "source-directory":
        return machine.files(place, "*")
    folder, _, pattern = place.rpartition("/")
    return machine.files(folder, pattern) if pattern else []
