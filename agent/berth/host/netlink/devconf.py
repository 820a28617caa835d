"""Per-link IP settings inside link messages: IPv4 sysctls, and IPv6's address generation mode.

The kernel reads and writes IPv4's by number in one message with everything else, so they hold from
the first moment in a new namespace. Of IPv6 it takes only the address generation mode this way;
the other settings go through ``/proc/sys``.

Source: include/uapi/linux/ip.h (IPV4_DEVCONF_*), net/ipv4/devinet.c (inet_set_link_af),
net/ipv6/addrconf.c (inet6_set_link_af).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.ip import AF_INET, AF_INET6

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.host.netlink.attributes import Attributes

IPV4_CONF: Final = {
    "forwarding": 1,
    "proxy_arp": 3,
    "accept_redirects": 4,
    "send_redirects": 6,
    "rp_filter": 8,
    "arp_filter": 13,
    "arp_announce": 18,
    "arp_ignore": 19,
    "promote_secondaries": 20,
    "arp_accept": 21,
    "arp_notify": 22,
    "accept_local": 23,
    "src_valid_mark": 24,
    "route_localnet": 26,
    "ignore_routes_with_linkdown": 29,
}
"""Numbers of the settings under ``/proc/sys/net/ipv4/conf/<link>/`` that berth reads or sets."""

ADDR_GEN_NONE: Final = 1
"""Address generation mode in which the kernel makes no link-local address by itself."""

_IFLA_INET_CONF: Final = 1
_IFLA_INET6_ADDR_GEN_MODE: Final = 8


def parse_ipv4_conf(spec: Attributes) -> dict[str, int]:
    """Give the settings of `IPV4_CONF` that this kernel tells, from IFLA_AF_SPEC.

    Raises:
        RemoteProtocolError: The list is no list of 32-bit numbers.
    """
    data = spec.nest(AF_INET).raw(_IFLA_INET_CONF)
    if len(data) % 4:
        raise RemoteProtocolError("netlink", f"a list of IPv4 settings of {len(data)} bytes")
    values = struct.unpack(f"={len(data) // 4}i", data)
    return {name: values[number - 1] for name, number in IPV4_CONF.items() if number <= len(values)}


def parse_addr_gen_mode(spec: Attributes) -> int | None:
    """Give IPv6's address generation mode from IFLA_AF_SPEC, None where IPv6 is off."""
    ipv6 = spec.nest(AF_INET6)
    return ipv6.u8(_IFLA_INET6_ADDR_GEN_MODE) if _IFLA_INET6_ADDR_GEN_MODE in ipv6 else None


def encode_devconf(ipv4: Mapping[str, int], addr_gen_mode: int | None) -> bytes:
    """Give the content of IFLA_AF_SPEC that sets what is given; empty when nothing is.

    Raises:
        LocalProtocolError: A name is not in `IPV4_CONF`.
    """
    parts = b""
    if ipv4:
        settings = [nla.u32(_conf_number(name), value) for name, value in ipv4.items()]
        parts += nla.nest(AF_INET, nla.nest(_IFLA_INET_CONF, *settings))
    if addr_gen_mode is not None:
        parts += nla.nest(AF_INET6, nla.u8(_IFLA_INET6_ADDR_GEN_MODE, addr_gen_mode))
    return parts


def _conf_number(name: str) -> int:
    if name not in IPV4_CONF:
        known = ", ".join(IPV4_CONF)
        raise LocalProtocolError("netlink", f"the IPv4 setting {name!r}", rule=f"one of {known}")
    return IPV4_CONF[name]
