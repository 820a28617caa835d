"""Nexthop objects: ways out that several routes share by number.

Only read: the uplink guard must see through them. Berth makes none.

Source: include/uapi/linux/nexthop.h.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink.attributes import parse_attributes
from berth.host.netlink.ip import IpAddress, parse_optional_ip
from berth.host.netlink.message import NLM_F_DUMP, Message, Request

RTM_NEWNEXTHOP: Final = 104
RTM_DELNEXTHOP: Final = 105
RTM_GETNEXTHOP: Final = 106

_NHA_ID: Final = 1
_NHA_GROUP: Final = 2
_NHA_BLACKHOLE: Final = 4
_NHA_OIF: Final = 5
_NHA_GATEWAY: Final = 6

_HEAD: Final = struct.Struct("=BBBBI")
_MEMBER: Final = struct.Struct("=IBBH")


@attrs.frozen(kw_only=True)
class NextHop:
    """A nexthop object.

    Attributes:
        id: Its number, by which routes and groups name it.
        index: Interface index of its link, 0 for a group or a blackhole.
        gateway: The router, None for none.
        members: Numbers of the objects of a group, in its order; empty for a single one.
        blackhole: Packets end here.
    """

    id: int
    index: int = 0
    gateway: IpAddress | None = None
    members: tuple[int, ...] = ()
    blackhole: bool = False


def parse_next_hop(message: Message) -> NextHop:
    """Decode RTM_NEWNEXTHOP or RTM_DELNEXTHOP.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError("netlink", f"a nexthop message of {len(message.body)} bytes")
    found = parse_attributes(message.body[_HEAD.size :])
    return NextHop(
        id=found.u32(_NHA_ID),
        index=found.u32(_NHA_OIF),
        gateway=parse_optional_ip(found.raw(_NHA_GATEWAY)),
        members=_parse_members(found.raw(_NHA_GROUP)),
        blackhole=_NHA_BLACKHOLE in found,
    )


def _parse_members(data: bytes) -> tuple[int, ...]:
    if len(data) % _MEMBER.size:
        raise RemoteProtocolError("netlink", f"a nexthop group of {len(data)} bytes")
    return tuple(member[0] for member in _MEMBER.iter_unpack(data))


def dump_next_hops() -> Request:
    """Ask for all nexthop objects."""
    body = _HEAD.pack(0, 0, 0, 0, 0)
    return Request(type=RTM_GETNEXTHOP, flags=NLM_F_DUMP, body=body, label="RTM_GETNEXTHOP")
