"""Generic netlink: finding a family by name, and the few ethtool messages that berth needs.

Ethtool tells its switches as bit sets; they are read and written by name, never by position,
since positions differ between kernels.

Source: include/uapi/linux/genetlink.h, include/uapi/linux/ethtool_netlink.h,
Documentation/networking/ethtool-netlink.rst.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import Attributes, parse_attributes
from berth.host.netlink.message import Message, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

GENL_ID_CTRL: Final = 16
_CTRL_CMD_GETFAMILY: Final = 3
_CTRL_ATTR_FAMILY_ID: Final = 1
_CTRL_ATTR_FAMILY_NAME: Final = 2

ETHTOOL: Final = "ethtool"
_LINKMODES_GET: Final = 4
_FEATURES_GET: Final = 11
_FEATURES_SET: Final = 12
_PRIVFLAGS_GET: Final = 13
_PRIVFLAGS_SET: Final = 14

_A_HEADER: Final = 1
_A_HEADER_DEV_INDEX: Final = 1
_A_LINKMODES_AUTONEG: Final = 2
_A_LINKMODES_OURS: Final = 3
_A_LINKMODES_SPEED: Final = 5
_A_LINKMODES_DUPLEX: Final = 6
_A_FEATURES_HW: Final = 2
_A_FEATURES_WANTED: Final = 3
_A_FEATURES_ACTIVE: Final = 4
_A_FEATURES_NOCHANGE: Final = 5
_A_PRIVFLAGS_FLAGS: Final = 2
_A_BITSET_NOMASK: Final = 1
_A_BITSET_BITS: Final = 3
_A_BITSET_BITS_BIT: Final = 1
_A_BITSET_BIT_NAME: Final = 2
_A_BITSET_BIT_VALUE: Final = 3

_HEAD: Final = struct.Struct("=BBxx")
_SPEED_UNKNOWN: Final = 0xFFFFFFFF
_DUPLEX: Final = {0: "half", 1: "full"}


@attrs.frozen(kw_only=True)
class LinkModes:
    """How a link talks to the other end of its cable.

    Attributes:
        speed_mbps: In Mbit/s, None while unknown.
        duplex: ``half``, ``full``, or empty while unknown.
        autonegotiation: Speed and duplex are agreed on with the other end.
        supported: Names of the modes that it can do.
    """

    speed_mbps: int | None
    duplex: str
    autonegotiation: bool
    supported: frozenset[str]


@attrs.frozen(kw_only=True)
class Features:
    """Ethtool's features of a link, by name.

    Attributes:
        changeable: Those that its driver lets be switched.
        wanted: Those that somebody asked for.
        active: Those that are on.
        fixed: Those that are never switched.
    """

    changeable: frozenset[str]
    wanted: frozenset[str]
    active: frozenset[str]
    fixed: frozenset[str]


def get_family(name: str) -> Request:
    """Ask for the message type of a family; ENOENT when the kernel has none of the name."""
    body = _HEAD.pack(_CTRL_CMD_GETFAMILY, 1) + nla.text(_CTRL_ATTR_FAMILY_NAME, name)
    return Request(type=GENL_ID_CTRL, body=body, label=f"CTRL_CMD_GETFAMILY {name}")


def parse_family(message: Message) -> int:
    """Give the message type of a family.

    Raises:
        RemoteProtocolError: The answer is malformed or tells none.
    """
    number = _parse(message).u16(_CTRL_ATTR_FAMILY_ID)
    if number < GENL_ID_CTRL:
        raise RemoteProtocolError("netlink", f"a generic family with the number {number}")
    return number


def get_link_modes(family: int, index: int) -> Request:
    """Ask how a link talks to its other end."""
    return _ethtool(family, _LINKMODES_GET, "ETHTOOL_MSG_LINKMODES_GET", index)


def parse_link_modes(message: Message) -> LinkModes:
    """Decode the answer to `get_link_modes`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = _parse(message)
    speed = found.u32(_A_LINKMODES_SPEED, _SPEED_UNKNOWN)
    return LinkModes(
        speed_mbps=speed if 0 < speed < _SPEED_UNKNOWN else None,
        duplex=_DUPLEX.get(found.u8(_A_LINKMODES_DUPLEX, 0xFF), ""),
        autonegotiation=bool(found.u8(_A_LINKMODES_AUTONEG)),
        supported=_listed(found, _A_LINKMODES_OURS),
    )


def get_features(family: int, index: int) -> Request:
    """Ask for a link's features."""
    return _ethtool(family, _FEATURES_GET, "ETHTOOL_MSG_FEATURES_GET", index)


def parse_features(message: Message) -> Features:
    """Decode the answer to `get_features`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = _parse(message)
    return Features(
        changeable=_names(found, _A_FEATURES_HW),
        wanted=_names(found, _A_FEATURES_WANTED),
        active=_names(found, _A_FEATURES_ACTIVE),
        fixed=_names(found, _A_FEATURES_NOCHANGE),
    )


def set_features(family: int, index: int, wanted: Mapping[str, bool]) -> Request:
    """Switch features by name; a name that the kernel does not know is refused.

    The kernel acknowledges also what the device cannot do: see `parse_refused_features`.
    """
    bits = _bit_set(_A_FEATURES_WANTED, wanted)
    return _ethtool(family, _FEATURES_SET, "ETHTOOL_MSG_FEATURES_SET", index, bits)


def parse_refused_features(message: Message) -> frozenset[str]:
    """Give the features that the device did not switch, from the answer to `set_features`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    return _listed(_parse(message), _A_FEATURES_WANTED)


def get_private_flags(family: int, index: int) -> Request:
    """Ask for the flags that a link's driver invented; EOPNOTSUPP when it has none."""
    return _ethtool(family, _PRIVFLAGS_GET, "ETHTOOL_MSG_PRIVFLAGS_GET", index)


def parse_private_flags(message: Message) -> dict[str, bool]:
    """Decode the answer to `get_private_flags`: each flag, and whether it is on.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = _parse(message)
    on = _names(found, _A_PRIVFLAGS_FLAGS)
    return {name: name in on for name in sorted(_listed(found, _A_PRIVFLAGS_FLAGS) | on)}


def set_private_flags(family: int, index: int, wanted: Mapping[str, bool]) -> Request:
    """Switch a driver's own flags by name."""
    bits = _bit_set(_A_PRIVFLAGS_FLAGS, wanted)
    return _ethtool(family, _PRIVFLAGS_SET, "ETHTOOL_MSG_PRIVFLAGS_SET", index, bits)


def _ethtool(family: int, command: int, word: str, index: int, parts: bytes = b"") -> Request:
    header = nla.nest(_A_HEADER, nla.u32(_A_HEADER_DEV_INDEX, index))
    body = _HEAD.pack(command, 1) + header + parts
    return Request(type=family, body=body, label=f"{word} {index}")


def _parse(message: Message) -> Attributes:
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError("netlink", f"a generic message of {len(message.body)} bytes")
    return parse_attributes(message.body[_HEAD.size :])


def _bits(found: Attributes, kind: int) -> tuple[Attributes, ...]:
    return found.nest(kind).nest(_A_BITSET_BITS).nests(_A_BITSET_BITS_BIT)


def _listed(found: Attributes, kind: int) -> frozenset[str]:
    """Give the names in a bit set, on or off."""
    return frozenset(bit.text(_A_BITSET_BIT_NAME) for bit in _bits(found, kind))


def _names(found: Attributes, kind: int) -> frozenset[str]:
    """Give the names that are on: all listed ones in a set without mask."""
    plain = _A_BITSET_NOMASK in found.nest(kind)
    return frozenset(
        bit.text(_A_BITSET_BIT_NAME)
        for bit in _bits(found, kind)
        if plain or _A_BITSET_BIT_VALUE in bit
    )


def _bit_set(kind: int, wanted: Mapping[str, bool]) -> bytes:
    bits = []
    for name, on in wanted.items():
        value = nla.flag(_A_BITSET_BIT_VALUE) if on else b""
        bits.append(nla.nest(_A_BITSET_BITS_BIT, nla.text(_A_BITSET_BIT_NAME, name), value))
    return nla.nest(kind, nla.nest(_A_BITSET_BITS, *bits))
