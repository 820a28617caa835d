"""IP addresses and prefixes as the kernel's tables carry them: packed bytes beside a family."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Final, TypeAlias

from berth.errors import RemoteProtocolError

AF_UNSPEC: Final = 0
AF_INET: Final = 2
AF_BRIDGE: Final = 7
AF_INET6: Final = 10

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpInterface: TypeAlias = IPv4Interface | IPv6Interface
IpNetwork: TypeAlias = IPv4Network | IPv6Network

_WHERE: Final = "netlink"


def family_of(value: IpAddress | IpInterface | IpNetwork) -> int:
    """Give AF_INET or AF_INET6."""
    return AF_INET if value.version == 4 else AF_INET6


def family_known(family: int) -> bool:
    """Tell whether a family carries IP addresses."""
    return family in {AF_INET, AF_INET6}


def parse_ip(data: bytes) -> IpAddress:
    """Give the address that 4 or 16 bytes are.

    Raises:
        RemoteProtocolError: Any other number of bytes.
    """
    if len(data) == 4:
        return IPv4Address(data)
    if len(data) == 16:
        return IPv6Address(data)
    raise RemoteProtocolError(_WHERE, f"an IP address of {len(data)} bytes", rule="4 or 16 it is")


def parse_optional_ip(data: bytes) -> IpAddress | None:
    """Give an address, None for no bytes at all."""
    return parse_ip(data) if data else None


def parse_network(data: bytes, length: int, family: int) -> IpNetwork:
    """Give a prefix; no bytes mean the family's zero address, as in a default route.

    Raises:
        RemoteProtocolError: The prefix is longer than the address, or the address is of another
            family.
    """
    address = parse_ip(data) if data else any_address(family)
    if family_of(address) != family or length > address.max_prefixlen:
        raise RemoteProtocolError(_WHERE, f"a prefix {address}/{length} in family {family}")
    if isinstance(address, IPv4Address):
        return IPv4Network((address, length), strict=False)
    return IPv6Network((address, length), strict=False)


def parse_interface(data: bytes, length: int) -> IpInterface:
    """Give an address with the length of its prefix.

    Raises:
        RemoteProtocolError: The prefix is longer than the address.
    """
    address = parse_ip(data)
    if length > address.max_prefixlen:
        raise RemoteProtocolError(_WHERE, f"a prefix {address}/{length}")
    if isinstance(address, IPv4Address):
        return IPv4Interface((address, length))
    return IPv6Interface((address, length))


def any_address(family: int) -> IpAddress:
    """Give 0.0.0.0 or ::.

    Raises:
        RemoteProtocolError: The family carries no IP addresses.
    """
    if family == AF_INET:
        return IPv4Address(0)
    if family == AF_INET6:
        return IPv6Address(0)
    raise RemoteProtocolError(_WHERE, f"an IP table of family {family}", rule="2 or 10 it is")
