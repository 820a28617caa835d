"""Addresses of links: values, decoding and requests.

Source: include/uapi/linux/if_addr.h, net/ipv4/devinet.c, net/ipv6/addrconf.c.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.ip import (
    IpAddress,
    IpInterface,
    family_of,
    parse_interface,
    parse_optional_ip,
)
from berth.host.netlink.message import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Message, Request

RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_GETADDR: Final = 22

IFA_F_SECONDARY: Final = 0x01
IFA_F_NODAD: Final = 0x02
IFA_F_DADFAILED: Final = 0x08
IFA_F_HOMEADDRESS: Final = 0x10
IFA_F_DEPRECATED: Final = 0x20
IFA_F_TENTATIVE: Final = 0x40
IFA_F_PERMANENT: Final = 0x80
IFA_F_MANAGETEMPADDR: Final = 0x100
IFA_F_NOPREFIXROUTE: Final = 0x200
IFA_F_MCAUTOJOIN: Final = 0x400

_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFA_LABEL: Final = 3
_IFA_BROADCAST: Final = 4
_IFA_CACHEINFO: Final = 6
_IFA_FLAGS: Final = 8
_IFA_RT_PRIORITY: Final = 9
_IFA_PROTO: Final = 11

_HEAD: Final = struct.Struct("=BBBBi")
_CACHEINFO: Final = struct.Struct("=IIII")
FOREVER_S: Final = 0xFFFFFFFF
"""A lifetime that does not end."""

# What the kernel works out itself and would not take from us.
_FLAGS_TO_SET: Final = (
    IFA_F_NODAD | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR | IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN
)


@attrs.frozen(kw_only=True)
class Address:
    """An IP address on a link.

    Attributes:
        index: Interface index of the link.
        ip: The local address with the length of its prefix.
        peer: The other end of a point-to-point address, to which the prefix then belongs.
        broadcast: IPv4 broadcast address.
        label: IPv4 label, by default the link's name.
        scope: RT_SCOPE_*: 0 global, 253 link, 254 host.
        flags: IFA_F_*.
        priority: Metric of the prefix route, 0 for the kernel's own.
        protocol: Who set it (IFAPROT_*), 0 when unknown.
        valid_s: Seconds for which it is valid, `FOREVER_S` for no end.
        preferred_s: Seconds for which it is preferred as a source.
    """

    index: int
    ip: IpInterface
    peer: IpAddress | None = None
    broadcast: IPv4Address | None = None
    label: str = ""
    scope: int = 0
    flags: int = 0
    priority: int = 0
    protocol: int = 0
    valid_s: int = FOREVER_S
    preferred_s: int = FOREVER_S

    @property
    def permanent(self) -> bool:
        """Set by somebody, not learnt with a lifetime."""
        return bool(self.flags & IFA_F_PERMANENT)

    @property
    def secondary(self) -> bool:
        """IPv4: one more of a network that the link has an address of already."""
        return bool(self.flags & IFA_F_SECONDARY)

    @property
    def tentative(self) -> bool:
        """Not usable yet: duplicate address detection is not over."""
        return bool(self.flags & IFA_F_TENTATIVE)

    @property
    def dad_failed(self) -> bool:
        """Another station holds the address."""
        return bool(self.flags & IFA_F_DADFAILED)


def parse_address(message: Message) -> Address:
    """Decode RTM_NEWADDR or RTM_DELADDR.

    Raises:
        RemoteProtocolError: The message is malformed or tells no address.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError("netlink", f"an address message of {len(message.body)} bytes")
    _family, length, flags, scope, index = _HEAD.unpack_from(message.body)
    found = nla.parse_attributes(message.body[_HEAD.size :])
    local = found.raw(_IFA_LOCAL) or found.raw(_IFA_ADDRESS)
    ip = parse_interface(local, length)
    peer = parse_optional_ip(found.raw(_IFA_ADDRESS))
    broadcast = parse_optional_ip(found.raw(_IFA_BROADCAST))
    preferred_s, valid_s = _lifetimes(found.raw(_IFA_CACHEINFO))
    return Address(
        index=index,
        ip=ip,
        peer=None if peer == ip.ip else peer,
        broadcast=broadcast if isinstance(broadcast, IPv4Address) else None,
        label=found.text(_IFA_LABEL),
        scope=scope,
        flags=found.u32(_IFA_FLAGS, flags),
        priority=found.u32(_IFA_RT_PRIORITY),
        protocol=found.u8(_IFA_PROTO),
        valid_s=valid_s,
        preferred_s=preferred_s,
    )


def _lifetimes(data: bytes) -> tuple[int, int]:
    """Give seconds preferred and valid."""
    if not data:
        return FOREVER_S, FOREVER_S
    if len(data) < _CACHEINFO.size:
        raise RemoteProtocolError("netlink", f"address lifetimes of {len(data)} bytes")
    preferred_s, valid_s, _created, _stamped = _CACHEINFO.unpack_from(data)
    return preferred_s, valid_s


def dump_addresses(*, index: int = 0, family: int = 0) -> Request:
    """Ask for all addresses, or those of one link or family."""
    return Request(
        type=RTM_GETADDR,
        flags=NLM_F_DUMP,
        body=_HEAD.pack(family, 0, 0, 0, index),
        label="RTM_GETADDR",
    )


def new_address(address: Address) -> Request:
    """Add an address; EEXIST when the link has it. Only settable flags are sent."""
    parts = [
        *_identity(address),
        nla.u32(_IFA_FLAGS, address.flags & _FLAGS_TO_SET),
    ]
    if address.broadcast is not None:
        parts.append(nla.attribute(_IFA_BROADCAST, address.broadcast.packed))
    if address.label:
        parts.append(nla.text(_IFA_LABEL, address.label))
    if address.priority:
        parts.append(nla.u32(_IFA_RT_PRIORITY, address.priority))
    if address.protocol:
        parts.append(nla.u8(_IFA_PROTO, address.protocol))
    if (address.valid_s, address.preferred_s) != (FOREVER_S, FOREVER_S):
        lifetimes = _CACHEINFO.pack(address.preferred_s, address.valid_s, 0, 0)
        parts.append(nla.attribute(_IFA_CACHEINFO, lifetimes))
    return _request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address, parts)


def delete_address(address: Address) -> Request:
    """Take an address away; EADDRNOTAVAIL when the link has it not."""
    return _request(RTM_DELADDR, 0, address, _identity(address))


def _identity(address: Address) -> list[bytes]:
    """Give the attributes by which the kernel finds an address."""
    peer = address.ip.ip if address.peer is None else address.peer
    return [
        nla.attribute(_IFA_LOCAL, address.ip.ip.packed),
        nla.attribute(_IFA_ADDRESS, peer.packed),
    ]


def _request(kind: int, flags: int, address: Address, parts: list[bytes]) -> Request:
    head = _HEAD.pack(
        family_of(address.ip), address.ip.network.prefixlen, 0, address.scope, address.index
    )
    name = "RTM_NEWADDR" if kind == RTM_NEWADDR else "RTM_DELADDR"
    return Request(
        type=kind, flags=flags, body=head + b"".join(parts), label=f"{name} {address.ip}"
    )
