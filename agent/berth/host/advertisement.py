"""Neighbor advertisements that nobody asked for: an IPv6 address tells its link where it is.

The kernel sends one by itself when a link comes up, and none when carrier comes later; no request
makes it send one without a trace on the link.

Source: RFC 4861 §4.4, §4.6.1 and §7.2.6; RFC 4391 §9.3 for the two octets before an InfiniBand
address.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Final

from berth.errors import HostError
from berth.host.netlink.mac import pack_mac

_ALL_NODES: Final = "ff02::1"
_HEAD: Final = struct.Struct("!BBHI")
_TYPE: Final = 136
_ROUTER: Final = 0x8000_0000
_OVERRIDE: Final = 0x2000_0000
_TARGET_HARDWARE_ADDRESS: Final = 2
_OCTETS: Final = 8
"""The unit in which the length of an option is told."""

_HOPS: Final = 255
"""A receiver takes no other: so it has come over no router."""


def encode_advertisement(ip: IPv6Address, mac: str, *, router: bool) -> bytes:
    """The ICMPv6 message, whose checksum the kernel fills in.

    Args:
        mac: The hardware address that answers for it from now on.
        router: The link's host is one; without the bit, neighbors forget their routes by it.
    """
    flags = _OVERRIDE | (_ROUTER if router else 0)
    address = pack_mac(mac)
    padding = bytes(-(len(address) + 2) % _OCTETS)
    length = (len(address) + len(padding) + 2) // _OCTETS
    option = bytes((_TARGET_HARDWARE_ADDRESS, length)) + padding + address
    return _HEAD.pack(_TYPE, 0, 0, flags) + ip.packed + option


def advertise(index: int, ips: Sequence[IPv6Address], mac: str, *, router: bool) -> None:
    """Tell every station on a link of addresses; never blocks.

    Args:
        index: Interface index in the namespace of the calling thread, where they are in use.
        ips: Addresses of the link; one that is tentative is refused by the kernel.
        mac: The link's hardware address.
        router: The namespace forwards what comes by the link.

    Raises:
        HostError: The kernel refused; raw sockets take CAP_NET_RAW.
    """
    try:
        with socket.socket(
            socket.AF_INET6, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMPV6
        ) as raw:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, _HOPS)
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
            for ip in ips:
                source = ip.packed + struct.pack("=I", index)
                raw.sendmsg(
                    [encode_advertisement(ip, mac, router=router)],
                    [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, source)],
                    0,
                    (_ALL_NODES, 0, 0, index),
                )
    except OSError as error:
        raise HostError(
            f"neighbor advertisement by link {index}",
            f"cannot be sent: {error.strerror}",
            errno=error.errno or 0,
        ) from error
