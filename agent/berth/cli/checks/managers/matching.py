"""Which links the ``[Match]`` of a file of networkd's or udev's means.

What is not known here of a link (its firmware path, its properties, the virtualization) counts as
fitting: the file may mean it.

Source: systemd.network(5), systemd.link(5): all keys must hold, the words of one are alternatives,
a leading ``!`` turns a key round, patterns are those of a shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from berth.cli.checks.managers.lent import fits
from berth.model.device import Nic


@attrs.frozen
class Conditions:
    """The ``[Match]`` of one file.

    Attributes:
        keys: Each key with its words, in the order of the file.
        has_section: A file without ``[Match]`` means every link; one with an empty one too.
    """

    keys: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def text(self) -> str:
        """As it is written."""
        return " ".join(f"{key}={' '.join(words)}" for key, words in self.keys) or "(empty)"


def conditions(lines: Iterable[tuple[str, str, str]]) -> Conditions:
    """Read the section of a file."""
    found: dict[str, list[str]] = {}
    for section, key, value in lines:
        if section == "Match":
            found.setdefault(key, []).extend(value.split())
    return Conditions(tuple((key, tuple(words)) for key, words in found.items()))


def may_match(found: Conditions, nic: Nic) -> bool:
    """Whether a link may be one that is meant."""
    return all(_holds(key, words, nic) is not False for key, words in found.keys)


def names_one(found: Conditions, nic: Nic) -> bool:
    """Whether a file means this link by its very name, address or place, and no pattern."""
    own = {nic.ifname, nic.mac, _path(nic)} - {""}
    words = (
        word.lower() if key.endswith("Address") else word for key, w in found.keys for word in w
    )
    return not own.isdisjoint(words)


def _holds(key: str, words: Sequence[str], nic: Nic) -> bool | None:
    """Whether one key holds; ``None`` when nobody here can tell."""
    known = {
        "Name": nic.ifname,
        "OriginalName": nic.ifname,
        "MACAddress": nic.mac,
        "PermanentMACAddress": nic.mac,
        "Driver": nic.driver,
        "Path": _path(nic),
    }.get(key)
    if not known or not words:
        return None
    turned = words[0].startswith("!")
    patterns = [words[0].lstrip("!"), *words[1:]]
    if key.endswith("Address"):
        patterns = [pattern.lower().replace("-", ":") for pattern in patterns]
    return fits(known, patterns) is not turned


def _path(nic: Nic) -> str:
    """The ``ID_PATH`` that udev gives a NIC on the PCI bus."""
    return f"pci-{nic.pci}" if nic.pci else ""
