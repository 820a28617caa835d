"""Neighbors: which hardware address answers for an IP address on a link.

Source: include/uapi/linux/neighbour.h.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.ip import IpAddress, family_known, family_of, parse_ip
from berth.host.netlink.mac import pack_mac, parse_mac
from berth.host.netlink.message import NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Message, Request

RTM_NEWNEIGH: Final = 28
RTM_DELNEIGH: Final = 29
RTM_GETNEIGH: Final = 30

NUD_PERMANENT: Final = 0x80
NUD_NONE: Final = 0x00
NTF_USE: Final = 0x01
NTF_PROXY: Final = 0x08

_NDA_DST: Final = 1
_NDA_LLADDR: Final = 2
_NDA_IFINDEX: Final = 8

_HEAD: Final = struct.Struct("=BxxxiHBB")


@attrs.frozen(kw_only=True)
class Neighbor:
    """A neighbor entry.

    Attributes:
        index: Interface index of the link.
        ip: The neighbor's IP address.
        mac: Its hardware address, empty while unresolved.
        state: NUD_* bits; only `NUD_PERMANENT` entries are anyone's wish.
        flags: NTF_* bits.
    """

    index: int
    ip: IpAddress
    mac: str = ""
    state: int = NUD_PERMANENT
    flags: int = 0

    @property
    def permanent(self) -> bool:
        """Set by somebody, not learnt."""
        return bool(self.state & NUD_PERMANENT)


def parse_neighbor(message: Message) -> Neighbor | None:
    """Decode RTM_NEWNEIGH or RTM_DELNEIGH; None for one that is no IP neighbor (a bridge's).

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError("netlink", f"a neighbor message of {len(message.body)} bytes")
    family, index, state, flags, _kind = _HEAD.unpack_from(message.body)
    if not family_known(family):
        return None
    found = nla.parse_attributes(message.body[_HEAD.size :])
    return Neighbor(
        index=index,
        ip=parse_ip(found.raw(_NDA_DST)),
        mac=parse_mac(found.raw(_NDA_LLADDR)),
        state=state,
        flags=flags,
    )


def dump_neighbors(*, index: int = 0, family: int = 0) -> Request:
    """Ask for all neighbors, or those of one link or family."""
    parts = nla.u32(_NDA_IFINDEX, index) if index else b""
    body = _HEAD.pack(family, 0, 0, 0, 0) + parts
    return Request(type=RTM_GETNEIGH, flags=NLM_F_DUMP, body=body, label="RTM_GETNEIGH")


def new_neighbor(neighbor: Neighbor) -> Request:
    """Add an entry; EEXIST when the address has one on the link, learnt ones included."""
    parts = [nla.attribute(_NDA_DST, neighbor.ip.packed)]
    if neighbor.mac:
        parts.append(nla.attribute(_NDA_LLADDR, pack_mac(neighbor.mac)))
    return _request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, neighbor, parts)


def delete_neighbor(neighbor: Neighbor) -> Request:
    """Take an entry away; ENOENT when there is none."""
    return _request(RTM_DELNEIGH, 0, neighbor, [nla.attribute(_NDA_DST, neighbor.ip.packed)])


def ask_for(index: int, ip: IpAddress) -> Request:
    """Have the kernel ask the link who has an address; EEXIST when that has an entry.

    Of an address that the link has itself, the question is a gratuitous ARP: it tells who has it.
    It is asked at once and, by default, twice more a second apart; the entry stays as one that
    failed, until it is deleted. One that is there already must not be asked for: since 5.16 a
    permanent one is not permanent afterwards.

    Source: ``neigh_add`` and ``__neigh_update`` in Linux ``net/core/neighbour.c``, ``arp_solicit``
    in ``net/ipv4/arp.c``; seen on 6.18.
    """
    unknown = Neighbor(index=index, ip=ip, state=NUD_NONE, flags=NTF_USE)
    parts = [nla.attribute(_NDA_DST, ip.packed)]
    return _request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, unknown, parts)


def _request(kind: int, flags: int, neighbor: Neighbor, parts: list[bytes]) -> Request:
    head = _HEAD.pack(family_of(neighbor.ip), neighbor.index, neighbor.state, neighbor.flags, 0)
    name = "RTM_NEWNEIGH" if kind == RTM_NEWNEIGH else "RTM_DELNEIGH"
    return Request(
        type=kind, flags=flags, body=head + b"".join(parts), label=f"{name} {neighbor.ip}"
    )
