"""Conditions that select NICs for a group: how each is written, and what it stands for.

All conditions given in one ``match`` must hold; the items of one condition are alternatives. Only
``pci`` takes wildcards: every other condition names things exactly, so that what a file selects
can be read off the file.
"""

from __future__ import annotations

import re
from enum import Enum
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final

import attrs

from berth.config.decode import Written, key, keys_of
from berth.config.finding import Cursor, toml_text
from berth.config.forms import Choice, Flag, Several, Text, Whole
from berth.model.device import NicKind
from berth.model.names import INTERFACE_LIMIT, is_dns_label, is_pci_address

ALTNAME_LIMIT: Final = 127
"""Longest alternative name of a link, in bytes (``ALTIFNAMSIZ`` less the terminator)."""

VF_LIMIT: Final = 65535
"""Highest VF number: SR-IOV counts them in 16 bits (PCI Express, ``TotalVFs``)."""

WILDCARDS: Final = frozenset("*?[]")


class LinkType(Enum):
    """Sorts of network that a NIC speaks."""

    ETHER = "ether"
    INFINIBAND = "infiniband"


@attrs.frozen
class PciPattern:
    """PCI addresses: one, or all that fit a pattern.

    Attributes:
        text: Lower case, as sysfs writes addresses; may hold ``*``, ``?`` and ``[…]``.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_exact(self) -> bool:
        """Whether it names one function."""
        return WILDCARDS.isdisjoint(self.text)

    def fits(self, address: str) -> bool:
        """Whether it selects the function at ``address``."""
        return fnmatchcase(address, self.text)


@attrs.frozen
class PfPattern:
    """Virtual functions of one physical function.

    Attributes:
        pf: Interface name or PCI address of the physical function.
        ranges: First and last VF number of each range, ascending and apart; empty for all VFs.
    """

    pf: str
    ranges: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        ranges = (str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)
        return f"{self.pf}#{','.join(ranges)}" if self.ranges else self.pf

    def has(self, number: int) -> bool:
        """Whether VF ``number`` is one of them."""
        return not self.ranges or any(first <= number <= last for first, last in self.ranges)

    def meets(self, other: PfPattern) -> bool:
        """Whether some VF is in both."""
        if self.pf != other.pf:
            return False
        if not self.ranges or not other.ranges:
            return True
        return any(
            first <= other_last and other_first <= last
            for first, last in self.ranges
            for other_first, other_last in other.ranges
        )


def _hex4(text: str) -> str | None:
    return text.lower() if re.fullmatch(r"[0-9A-Fa-f]{4}", text) else None


def _hex4_hint(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    return f'write "{digits.zfill(4)}"' if re.fullmatch(r"[0-9a-f]{1,4}", digits) else ""


def _pci(text: str) -> PciPattern | None:
    lower = text.lower()
    pattern = re.fullmatch(r"[0-9a-f:.*?!\[\]-]+", lower) and not WILDCARDS.isdisjoint(lower)
    return PciPattern(lower) if pattern or is_pci_address(lower) else None


def _pci_hint(text: str) -> str:
    whole = f"0000:{text.lower()}"
    return f'write "{whole}"' if is_pci_address(whole) else ""


def _pf(text: str) -> PfPattern | None:
    name, mark, numbers = text.partition("#")
    lower = name.lower()
    pf = lower if is_pci_address(lower) else _interface(name)
    ranges = _ranges(numbers) if mark else ()
    return None if pf is None or ranges is None else PfPattern(pf, ranges)


def _ranges(text: str) -> tuple[tuple[int, int], ...] | None:
    """Ranges such as ``0-7,9``; ``None`` when they are malformed, reversed or overlapping."""
    ranges = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if not found:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last or last > VF_LIMIT:
            return None
        ranges.append((first, last))
    ranges.sort()
    apart = all(before[1] < after[0] for before, after in pairwise(ranges))
    return tuple(ranges) if apart else None


def _interface(text: str) -> str | None:
    return text if _is_link_name(text, limit=INTERFACE_LIMIT) else None


def _altname(text: str) -> str | None:
    return text if _is_link_name(text, limit=ALTNAME_LIMIT) else None


def _is_link_name(text: str, *, limit: int) -> bool:
    """Whether the kernel takes the name; wildcards are refused, since no name here has them."""
    plain = re.fullmatch(r"[^\s/:*?\[\]%\x00-\x1f]+", text) is not None
    return plain and text not in {".", ".."} and len(text.encode()) <= limit


def _mac(text: str) -> str | None:
    plain = text.lower().replace("-", ":")
    return plain if re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", plain) else None


def _word(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Za-z0-9_.+-]{1,64}", text) else None


def _pcie_root(text: str) -> str | None:
    lower = text.lower()
    return lower if re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", lower) else None


def _label(text: str) -> str | None:
    return text if is_dns_label(text) else None


def _no_wildcard(text: str) -> str:
    if WILDCARDS.isdisjoint(text):
        return ""
    return "wildcards work in match.pci only; name each one"


HEX4: Final = Text(
    what='4 hex digits in quotes, such as "15b3"',
    parse=_hex4,
    hint=_hex4_hint,
    number_hint=_hex4_hint,
)
PCI: Final = Text(
    what='a PCI address such as "0000:41:00.0", or a pattern of them', parse=_pci, hint=_pci_hint
)
PF: Final = Text(
    what="the interface name or PCI address of a physical function, "
    'which # and VF numbers may follow: "ens1f0#0-7,9"',
    parse=_pf,
    hint=_no_wildcard,
)
INTERFACE: Final = Text(
    what="an interface name of at most 15 bytes", parse=_interface, hint=_no_wildcard
)
ALTNAME: Final = Text(
    what="an alternative interface name of at most 127 bytes", parse=_altname, hint=_no_wildcard
)
MAC: Final = Text(what='an address such as "02:00:5e:10:00:01"', parse=_mac, hint=_no_wildcard)
DRIVER: Final = Text(what="the name of a kernel driver", parse=_word, hint=_no_wildcard)
PORT_NAME: Final = Text(
    what='the port name that the kernel reports, such as "p0"', parse=_word, hint=_no_wildcard
)
PCIE_ROOT: Final = Text(
    what='a PCIe root complex such as "pci0000:40"', parse=_pcie_root, hint=_no_wildcard
)
DNS_LABEL: Final = Text(
    what="at most 63 lower-case letters, digits and inner hyphens", parse=_label
)


@attrs.frozen(kw_only=True)
class NicMatch:
    """match: which NICs belong to a group."""

    pci: tuple[PciPattern, ...] = key(
        Several(item=PCI, least=1),
        (),
        'PCI address, `*`, `?` and `[…]` allowed: `"0000:41:*"`.',
        known_as=("pciAddresses", "pci_address", "address"),
    )
    pf: tuple[PfPattern, ...] = key(
        Several(item=PF, least=1),
        (),
        "VFs of this physical function, by its interface name or PCI address; "
        "VF numbers and ranges may follow a `#`. "
        "The name is looked up once per appearance and then stands for the address.",
        known_as=("pfName", "pfNames", "rootDevices"),
    )
    vendor: tuple[str, ...] = key(
        Several(item=HEX4, least=1), (), "PCI vendor.", known_as=("vendors", "vendorID")
    )
    device: tuple[str, ...] = key(
        Several(item=HEX4, least=1), (), "PCI device id.", known_as=("devices", "deviceID")
    )
    subsystem: tuple[str, ...] = key(Several(item=HEX4, least=1), (), "PCI subsystem device id.")
    driver: tuple[str, ...] = key(
        Several(item=DRIVER, least=1), (), "Kernel driver.", known_as=("drivers",)
    )
    kind: tuple[NicKind, ...] = key(
        Several(item=Choice(kind=NicKind), least=1), (), "Sort of network device."
    )
    name: tuple[str, ...] = key(
        Several(item=INTERFACE, least=1),
        (),
        "Interface name on the host. "
        "It is looked up once per appearance and then stands for the device, "
        "so a rename later changes nothing.",
        known_as=("ifName", "ifNames", "interface"),
    )
    altname: tuple[str, ...] = key(
        Several(item=ALTNAME, least=1), (), "Alternative interface name on the host."
    )
    mac: tuple[str, ...] = key(
        Several(item=MAC, least=1),
        (),
        "Permanent hardware address. One that fits two links selects neither.",
        known_as=("hardwareAddr", "mac_address"),
    )
    port_name: tuple[str, ...] = key(
        Several(item=PORT_NAME, least=1), (), "Physical port name, as the kernel reports it."
    )
    link_type: tuple[LinkType, ...] = key(
        Several(item=Choice(kind=LinkType), least=1), (), "Sort of link.", known_as=("linkTypes",)
    )
    numa: tuple[int, ...] = key(
        Several(item=Whole(least=0, most=1023), least=1), (), "NUMA node.", known_as=("numaNode",)
    )
    pcie_root: tuple[str, ...] = key(
        Several(item=PCIE_ROOT, least=1), (), "PCIe root complex that the device hangs from."
    )
    acpi_index: tuple[int, ...] = key(
        Several(item=Whole(least=0, most=2**32 - 1), least=1),
        (),
        "Index that the firmware gives to the device.",
        known_as=("acpiIndexes",),
    )
    rdma: bool | None = key(
        Flag(), None, "Whether it has an RDMA device.", known_as=("isRdma", "rdmaCapable")
    )

    def __str__(self) -> str:
        """The conditions as they may be written in TOML."""
        given = {each.name: getattr(self, each.attribute) for each in keys_of(NicMatch)}
        return toml_text({name: value for name, value in given.items() if value not in {(), None}})

    def check(self, cursor: Cursor, written: Written) -> None:
        """A group without any condition would take every NIC of the machine."""
        if not written.given and not written.at_fault:
            cursor.say(
                "has no condition", rule="it would select every NIC", mend="give at least one"
            )
