"""The forms in which the plugins' files name NICs, where they are not those of our own file."""

from __future__ import annotations

import re
from typing import Final

from berth.config.forms import Text
from berth.config.generic import RESOURCE
from berth.config.match import PCI, PF, LinkType, PciPattern, PfPattern
from berth.model.names import is_dns_subdomain, is_pci_address

_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_INDEX_LIMIT: Final = 2**32 - 1

RANGES_LIMIT: Final = 256
"""Most ranges behind one PF; they are compared with each other, and no NIC has so many VFs."""


def _address(text: str) -> PciPattern | None:
    pattern = PCI.parse(text)
    return pattern if pattern is not None and pattern.is_exact else None


def _pf_name(text: str) -> PfPattern | None:
    pattern = _functions(text)
    return None if pattern is None or is_pci_address(pattern.pf) else pattern


def _root_device(text: str) -> PfPattern | None:
    pattern = _functions(text)
    return pattern if pattern is not None and is_pci_address(pattern.pf) else None


def _functions(text: str) -> PfPattern | None:
    """Functions of a PF; numbers may be given twice there, which they may not be with us."""
    pf, mark, numbers = text.partition("#")
    ranges = _ranges(numbers) if mark else ""
    return None if ranges is None else PF.parse(f"{pf}{mark}{ranges}")


def _ranges(text: str) -> str | None:
    """The same numbers in ascending ranges that lie apart; ``None`` when they are malformed."""
    found = [_RANGE.fullmatch(part) for part in text.split(",")]
    ranges = sorted((int(one[1]), int(one[2] or one[1])) for one in found if one is not None)
    if None in found or any(first > last for first, last in ranges):
        return None
    joined = [ranges[0]]
    for first, last in ranges[1:]:
        if first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    if len(joined) > RANGES_LIMIT:
        return None
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in joined)


def _link_type(text: str) -> str | None:
    return text if text in {each.value for each in LinkType} else None


def _index(text: str) -> int | None:
    plain = re.fullmatch(r"0|[1-9][0-9]{0,9}", text)
    return int(text) if plain and int(text) <= _INDEX_LIMIT else None


def _domain(text: str) -> str | None:
    return text if is_dns_subdomain(text, limit=253) and RESOURCE.parse(f"{text}/x") else None


def _name(text: str) -> str | None:
    return text if RESOURCE.parse(f"lab.example/{text}") else None


ADDRESS: Final = Text(
    what='the PCI address of one function, such as "0000:41:10.2"', parse=_address, hint=PCI.hint
)
PF_NAME: Final = Text(
    what="the interface name of a physical function, "
    f'which # and up to {RANGES_LIMIT} ranges of functions may follow: "ens1f0#0,2-7"',
    parse=_pf_name,
)
ROOT_DEVICE: Final = Text(
    what="the PCI address of a physical function, "
    f'which # and up to {RANGES_LIMIT} ranges of functions may follow: "0000:41:00.0#0,2-7"',
    parse=_root_device,
)
LINK_TYPE: Final = Text(what='"ether" or "infiniband"', parse=_link_type)
ACPI_INDEX: Final = Text(what='a whole number in quotes, such as "101"', parse=_index)
RESOURCE_PREFIX: Final = Text(
    what='a domain such as "intel.com", in lower case and not Kubernetes\' own', parse=_domain
)
RESOURCE_NAME: Final = Text(
    what="letters, digits, _ and -, the first and last a letter or digit, at most 63", parse=_name
)
