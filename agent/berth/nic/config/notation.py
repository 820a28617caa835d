"""How addresses, networks and names are written, and what is wrong with those that are not.

Everything is written in one way only: an address has its prefix as a number, a network has no bits
behind it, and IPv4 inside IPv6 is written as IPv4. What the kernel would take all the same, but
could not use as meant, is refused here. Source: tried on Linux 6.18, which takes ``10.0.0.0/24``,
``255.255.255.255/32`` and ``fd40::1/0`` (with a default route) for addresses of a link.
"""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import attrs

from berth.model.names import INTERFACE_LIMIT
from berth.nic.config.values import HostAddress, Ip, Network

DEFAULT_ROUTE: Final = "default"
"""Destination of a default route whose family its gateway or source tells."""

OWN_NAME: Final = "eth0"
"""The pod's own interface, which other parts of the cluster make; only for those who may."""

INTERFACE_RULE: Final = f"1 to {INTERFACE_LIMIT} letters, digits, '_', '.' and '-'"
"""Interface names that berth gives; the kernel would take more. Source: network.md §3.1."""

_TEXT_LIMIT: Final = 64
_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_HARDWARE: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2})+")
_INTERFACE: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{INTERFACE_LIMIT}}}")
_MEANT_OTHERWISE: Final = {
    "lo": "is the pod's loopback",
    "all": "means every interface in the kernel's settings",
    "default": "means future interfaces in the kernel's settings",
    ".": "is the folder itself in /proc and /sys",
    "..": "is the folder above in /proc and /sys",
}


@attrs.frozen
class Refusal:
    """Why a text cannot be read.

    Attributes:
        found: Follows the text in a sentence; may be empty.
        mend: How to put it right.
    """

    found: str = ""
    mend: str = ""


def ip(text: str) -> Ip | Refusal:
    """An address without prefix that a host may have."""
    address = _ip(text)
    if address is None:
        return Refusal(mend=f"write {text.partition('/')[0]}") if _split(text) else Refusal()
    wrong = _unusable(address)
    return Refusal(wrong) if wrong else address


def host_address(text: str) -> HostAddress | Refusal:
    """A host's address with the length of its network's prefix."""
    parts = _split(text)
    if parts is None:
        bare = _ip(text)
        example = "" if bare is None else f"write {bare}/{24 if bare.version == 4 else 64}"
        return Refusal("" if bare is None else "has no prefix", example)
    address, prefix = parts
    wrong = _unusable(address) or _network_itself(address, prefix)
    if wrong:
        return Refusal(wrong)
    return ipaddress.ip_interface(f"{address}/{prefix}")


def network(text: str) -> Network | Refusal:
    """A network: every bit behind the prefix is zero."""
    parts = _split(text)
    if parts is None:
        bare = _ip(text)
        example = "" if bare is None else f"write {bare}/{bare.max_prefixlen}"
        return Refusal("" if bare is None else "has no prefix", example)
    address, prefix = parts
    if _mapped(address):
        return Refusal(_mapped(address))
    whole = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
    if whole.network_address != address:
        return Refusal("has bits behind its prefix", f"write {whole}")
    return whole


def destination(text: str) -> Network | str | Refusal:
    """Where a route leads: a network, or `DEFAULT_ROUTE`."""
    return DEFAULT_ROUTE if text == DEFAULT_ROUTE else network(text)


def hardware_address(text: str) -> str | Refusal:
    """A unicast MAC address, in lower case."""
    lower = text.lower()
    octets = lower.count(":") + 1
    if len(text) > _TEXT_LIMIT or _HARDWARE.fullmatch(lower) is None:
        return Refusal()
    if octets != 6:
        ours = "an InfiniBand address cannot be set" if octets == 20 else ""
        return Refusal(f"has {octets} octets", ours)
    if int(lower[:2], 16) & 1:
        return Refusal("is a group address")
    if lower.strip("0:") == "":
        return Refusal("is zero")
    return lower


def interface_name(text: str) -> str | Refusal:
    """A name for an interface of ours in a pod."""
    if text in _MEANT_OTHERWISE:
        return Refusal(_MEANT_OTHERWISE[text])
    return text if _INTERFACE.fullmatch(text) else Refusal(_name_fault(text))


def incoming_interface(text: str) -> str | Refusal:
    """The name of any interface of a pod, its loopback too."""
    return text if text == "lo" else interface_name(text)


def _name_fault(text: str) -> str:
    size = len(text.encode(errors="surrogatepass"))
    return f"has {size} bytes" if size > INTERFACE_LIMIT or not text else ""


def _ip(text: str) -> Ip | None:
    if len(text) > _TEXT_LIMIT or "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _split(text: str) -> tuple[Ip, int] | None:
    head, slash, tail = text.partition("/")
    address = _ip(head)
    if address is None or not slash or _PREFIX.fullmatch(tail) is None:
        return None
    prefix = int(tail)
    return (address, prefix) if prefix <= address.max_prefixlen else None


def _mapped(address: Ip) -> str:
    mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return "is IPv4 inside IPv6" if mapped else ""


def _unusable(address: Ip) -> str:
    """Why no interface of a pod can have the address; empty when one can."""
    if address.is_unspecified:
        return "is no address"
    if _mapped(address):
        return _mapped(address)
    if address.is_loopback:
        return "is a loopback address"
    if address.is_multicast:
        return "is a group address"
    if isinstance(address, IPv4Address):
        if int(address) >> 24 == 0:
            return "lies in 0.0.0.0/8, which no host has"
        if int(address) == 0xFFFFFFFF:
            return "is the broadcast address"
    return ""


def _network_itself(address: Ip, prefix: int) -> str:
    """Why the address cannot be a host's in its network; empty when it can.

    Networks of one or two addresses have none to spare (RFC 3021, RFC 6164).
    """
    if prefix == 0:
        return "has the prefix 0, which would take every destination"
    spare = address.max_prefixlen - prefix
    if spare < 2:
        return ""
    host_bits = int(address) & ((1 << spare) - 1)
    if host_bits == 0:
        return "is the address of the network itself"
    if isinstance(address, IPv4Address) and host_bits == (1 << spare) - 1:
        return "is the network's broadcast address"
    return ""
