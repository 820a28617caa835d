"""What a link of a certain kind says of itself: macvlan, VLAN, bond, tunnel and their like.

Values for what berth makes (macvlan, ipvlan, vlan, vrf, veth, bridge) and for what it only reads
(bond, vxlan). A kind without value here is told by its name alone.

Source: include/uapi/linux/if_link.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from berth.errors import LocalProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.ip import IpAddress, parse_optional_ip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from berth.host.netlink.attributes import Attributes

MACVLAN_MODES: Final = {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8, "source": 16}
IPVLAN_MODES: Final = {"l2": 0, "l3": 1, "l3s": 2}
IPVLAN_ISOLATIONS: Final = {"bridge": 0, "private": 1, "vepa": 2}
BOND_MODES: Final = {
    "balance-rr": 0,
    "active-backup": 1,
    "balance-xor": 2,
    "broadcast": 3,
    "802.3ad": 4,
    "balance-tlb": 5,
    "balance-alb": 6,
}
VLAN_PROTOCOLS: Final = {"802.1q": 0x8100, "802.1ad": 0x88A8}

_IFLA_MACVLAN_MODE: Final = 1
_IFLA_MACVLAN_FLAGS: Final = 2
_IFLA_IPVLAN_MODE: Final = 1
_IFLA_IPVLAN_FLAGS: Final = 2
_IFLA_VLAN_ID: Final = 1
_IFLA_VLAN_PROTOCOL: Final = 5
_IFLA_VRF_TABLE: Final = 1
_IFLA_BOND_MODE: Final = 1
_IFLA_BOND_ACTIVE_SLAVE: Final = 2
_IFLA_BR_VLAN_FILTERING: Final = 7
_IFLA_VXLAN_ID: Final = 1
_IFLA_VXLAN_GROUP: Final = 2
_IFLA_VXLAN_LINK: Final = 3
_IFLA_VXLAN_LOCAL: Final = 4
_IFLA_VXLAN_PORT: Final = 15
_IFLA_VXLAN_GROUP6: Final = 16
_IFLA_VXLAN_LOCAL6: Final = 17
# Which attributes of a tunnel tell its link (0: none) and its remote end.
_TUNNELS: Final = {
    **dict.fromkeys(("ipip", "sit", "ip6tnl"), (1, (3,))),
    **dict.fromkeys(("gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan"), (1, (7,))),
    **dict.fromkeys(("vti", "vti6"), (1, (5,))),
    "geneve": (0, (2, 7)),
}
_VETH_INFO_PEER: Final = 1
_IFLA_IFNAME: Final = 3
_IFLA_NET_NS_FD: Final = 28

_LINK_HEAD_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class Macvlan:
    """A child that shares its parent by hardware address.

    Attributes:
        mode: A key of `MACVLAN_MODES`.
        flags: MACVLAN_FLAG_*.
    """

    mode: str = "bridge"
    flags: int = 0


@attrs.frozen(kw_only=True)
class Ipvlan:
    """A child that shares its parent, and its hardware address, by IP address.

    Attributes:
        mode: A key of `IPVLAN_MODES`.
        isolation: A key of `IPVLAN_ISOLATIONS`.
    """

    mode: str = "l2"
    isolation: str = "bridge"


@attrs.frozen(kw_only=True)
class Vlan:
    """A child for one VLAN of its parent.

    Attributes:
        id: VLAN number, from 0 to 4094.
        protocol: A key of `VLAN_PROTOCOLS`.
    """

    id: int
    protocol: str = "802.1q"


@attrs.frozen(kw_only=True)
class Vrf:
    """A master whose ports route by a table of their own.

    Attributes:
        table: Number of the routing table.
    """

    table: int


@attrs.frozen(kw_only=True)
class Bond:
    """A master that joins its ports to one link.

    Attributes:
        mode: A key of `BOND_MODES`.
        active_port: Interface index of the port in use, 0 where the mode knows none.
    """

    mode: str
    active_port: int = 0


@attrs.frozen(kw_only=True)
class Bridge:
    """A master that switches between its ports.

    Attributes:
        vlan_filtering: It looks at VLAN numbers.
    """

    vlan_filtering: bool = False


@attrs.frozen(kw_only=True)
class Vxlan:
    """A tunnel.

    Attributes:
        id: Its network identifier.
        underlay: Interface index of the link that it goes out by, 0 when the route decides.
        remote: Its other end, or a multicast group.
        local: Source address of its packets.
        port: UDP port.
    """

    id: int
    underlay: int = 0
    remote: IpAddress | None = None
    local: IpAddress | None = None
    port: int = 4789


@attrs.frozen(kw_only=True)
class Tunnel:
    """A tunnel of another kind than VXLAN; only read.

    Attributes:
        underlay: Interface index of the link that it goes out by, 0 when the route decides.
        remote: Its other end; None where it has several, or none is set.
    """

    underlay: int = 0
    remote: IpAddress | None = None


@attrs.frozen(kw_only=True)
class Veth:
    """One end of a virtual cable; the kernel tells nothing of it when read back.

    Attributes:
        peer_name: Name of the other end, empty for the kernel's choice.
        peer_netns_fd: Namespace in which the other end is made, None for the same one.
    """

    peer_name: str = ""
    peer_netns_fd: int | None = None


KindData: TypeAlias = Macvlan | Ipvlan | Vlan | Vrf | Bond | Bridge | Vxlan | Tunnel | Veth


def parse_kind(kind: str, data: Attributes) -> KindData | None:
    """Decode the data of a link's kind; None for a kind that is told by its name alone.

    Raises:
        RemoteProtocolError: A known attribute is malformed.
    """
    if kind in _TUNNELS:
        return _parse_tunnel(data, *_TUNNELS[kind])
    parser = _PARSERS.get(kind)
    return None if parser is None else parser(data)


def _word(table: Mapping[str, int], number: int) -> str:
    """Give the word for a number; a number that is newer than the table stays one."""
    return next((word for word, known in table.items() if known == number), str(number))


def _parse_macvlan(data: Attributes) -> Macvlan:
    mode = _word(MACVLAN_MODES, data.u32(_IFLA_MACVLAN_MODE))
    return Macvlan(mode=mode, flags=data.u16(_IFLA_MACVLAN_FLAGS))


def _parse_ipvlan(data: Attributes) -> Ipvlan:
    return Ipvlan(
        mode=_word(IPVLAN_MODES, data.u16(_IFLA_IPVLAN_MODE)),
        isolation=_word(IPVLAN_ISOLATIONS, data.u16(_IFLA_IPVLAN_FLAGS)),
    )


def _parse_vlan(data: Attributes) -> Vlan:
    return Vlan(
        id=data.u16(_IFLA_VLAN_ID),
        protocol=_word(VLAN_PROTOCOLS, data.u16_big(_IFLA_VLAN_PROTOCOL, 0x8100)),
    )


def _parse_vrf(data: Attributes) -> Vrf:
    return Vrf(table=data.u32(_IFLA_VRF_TABLE))


def _parse_bond(data: Attributes) -> Bond:
    return Bond(
        mode=_word(BOND_MODES, data.u8(_IFLA_BOND_MODE)),
        active_port=data.u32(_IFLA_BOND_ACTIVE_SLAVE),
    )


def _parse_bridge(data: Attributes) -> Bridge:
    return Bridge(vlan_filtering=bool(data.u8(_IFLA_BR_VLAN_FILTERING)))


def _parse_vxlan(data: Attributes) -> Vxlan:
    return Vxlan(
        id=data.u32(_IFLA_VXLAN_ID),
        underlay=data.u32(_IFLA_VXLAN_LINK),
        remote=parse_optional_ip(data.raw(_IFLA_VXLAN_GROUP) or data.raw(_IFLA_VXLAN_GROUP6)),
        local=parse_optional_ip(data.raw(_IFLA_VXLAN_LOCAL) or data.raw(_IFLA_VXLAN_LOCAL6)),
        port=data.u16_big(_IFLA_VXLAN_PORT, 4789),
    )


def _parse_tunnel(data: Attributes, link: int, remotes: tuple[int, ...]) -> Tunnel:
    # One that has several other ends tells the zero address.
    remote = next((raw for kind in remotes if any(raw := data.raw(kind))), b"")
    return Tunnel(underlay=data.u32(link), remote=parse_optional_ip(remote))


_PARSERS: Final[Mapping[str, Callable[[Attributes], KindData]]] = {
    "macvlan": _parse_macvlan,
    "macvtap": _parse_macvlan,
    "ipvlan": _parse_ipvlan,
    "ipvtap": _parse_ipvlan,
    "vlan": _parse_vlan,
    "vrf": _parse_vrf,
    "bond": _parse_bond,
    "bridge": _parse_bridge,
    "vxlan": _parse_vxlan,
}


def kind_name(data: KindData) -> str:
    """Give the kernel's word for the kind of a value."""
    return type(data).__name__.lower()


def encode_kind(data: KindData) -> bytes:
    """Give the attributes with which a link of the kind is made.

    Raises:
        LocalProtocolError: A word is not in its table, or berth makes no such links.
    """
    if isinstance(data, Macvlan):
        mode = nla.u32(_IFLA_MACVLAN_MODE, _number(MACVLAN_MODES, data.mode))
        return mode + (nla.u16(_IFLA_MACVLAN_FLAGS, data.flags) if data.flags else b"")
    if isinstance(data, Ipvlan):
        mode = nla.u16(_IFLA_IPVLAN_MODE, _number(IPVLAN_MODES, data.mode))
        return mode + nla.u16(_IFLA_IPVLAN_FLAGS, _number(IPVLAN_ISOLATIONS, data.isolation))
    if isinstance(data, Vlan):
        protocol = nla.u16_big(_IFLA_VLAN_PROTOCOL, _number(VLAN_PROTOCOLS, data.protocol))
        return nla.u16(_IFLA_VLAN_ID, data.id) + protocol
    if isinstance(data, Vrf):
        return nla.u32(_IFLA_VRF_TABLE, data.table)
    if isinstance(data, Bridge):
        # A kernel without VLAN filtering refuses even to switch it off.
        return nla.u8(_IFLA_BR_VLAN_FILTERING, 1) if data.vlan_filtering else b""
    if isinstance(data, Vxlan):
        return _encode_vxlan(data)
    if isinstance(data, Veth):
        return _encode_veth(data)
    raise LocalProtocolError("netlink", f"a request for a new link of kind {kind_name(data)}")


def _number(table: Mapping[str, int], word: str) -> int:
    if word not in table:
        known = ", ".join(table)
        raise LocalProtocolError("netlink", f"the word {word!r}", rule=f"one of {known}")
    return table[word]


def _encode_vxlan(data: Vxlan) -> bytes:
    parts = [nla.u32(_IFLA_VXLAN_ID, data.id), nla.u16_big(_IFLA_VXLAN_PORT, data.port)]
    if data.underlay:
        parts.append(nla.u32(_IFLA_VXLAN_LINK, data.underlay))
    if data.remote is not None:
        kind = _IFLA_VXLAN_GROUP if data.remote.version == 4 else _IFLA_VXLAN_GROUP6
        parts.append(nla.attribute(kind, data.remote.packed))
    if data.local is not None:
        kind = _IFLA_VXLAN_LOCAL if data.local.version == 4 else _IFLA_VXLAN_LOCAL6
        parts.append(nla.attribute(kind, data.local.packed))
    return b"".join(parts)


def _encode_veth(data: Veth) -> bytes:
    peer = [bytes(_LINK_HEAD_BYTES)]
    if data.peer_name:
        peer.append(nla.text(_IFLA_IFNAME, data.peer_name))
    if data.peer_netns_fd is not None:
        peer.append(nla.u32(_IFLA_NET_NS_FD, data.peer_netns_fd))
    return nla.nest(_VETH_INFO_PEER, *peer)
