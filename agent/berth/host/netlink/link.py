"""Links: the value, and its decoding from RTM_NEWLINK and RTM_DELLINK.

Requests that read, make, change and move links are in `linkrequest`.

Source: include/uapi/linux/if_link.h, net/core/rtnetlink.c (rtnl_fill_ifinfo).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink.attributes import Attributes, decode_text, parse_attributes
from berth.host.netlink.devconf import parse_addr_gen_mode, parse_ipv4_conf
from berth.host.netlink.kinds import KindData, parse_kind
from berth.host.netlink.mac import parse_mac
from berth.host.netlink.vf import Vf, parse_vfs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.host.netlink.message import Message

RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18

IFF_UP: Final = 0x1
IFF_BROADCAST: Final = 0x2
IFF_LOOPBACK: Final = 0x8
IFF_POINTOPOINT: Final = 0x10
IFF_RUNNING: Final = 0x40
IFF_NOARP: Final = 0x80
IFF_PROMISC: Final = 0x100
IFF_ALLMULTI: Final = 0x200
IFF_MULTICAST: Final = 0x1000
IFF_LOWER_UP: Final = 0x10000

ARPHRD_ETHER: Final = 1
ARPHRD_INFINIBAND: Final = 32
ARPHRD_LOOPBACK: Final = 772

IFLA_ADDRESS: Final = 1
IFLA_BROADCAST: Final = 2
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_LINK: Final = 5
IFLA_MASTER: Final = 10
IFLA_TXQLEN: Final = 13
IFLA_OPERSTATE: Final = 16
IFLA_LINKINFO: Final = 18
IFLA_IFALIAS: Final = 20
IFLA_NUM_VF: Final = 21
IFLA_VFINFO_LIST: Final = 22
IFLA_AF_SPEC: Final = 26
IFLA_GROUP: Final = 27
IFLA_NET_NS_FD: Final = 28
IFLA_EXT_MASK: Final = 29
IFLA_PROMISCUITY: Final = 30
IFLA_CARRIER: Final = 33
IFLA_CARRIER_CHANGES: Final = 35
IFLA_PHYS_SWITCH_ID: Final = 36
IFLA_LINK_NETNSID: Final = 37
IFLA_PHYS_PORT_NAME: Final = 38
IFLA_GSO_MAX_SIZE: Final = 41
IFLA_XDP: Final = 43
IFLA_TARGET_NETNSID: Final = 46
IFLA_CARRIER_UP_COUNT: Final = 47
IFLA_CARRIER_DOWN_COUNT: Final = 48
IFLA_NEW_IFINDEX: Final = 49
IFLA_MIN_MTU: Final = 50
IFLA_MAX_MTU: Final = 51
IFLA_PROP_LIST: Final = 52
IFLA_ALT_IFNAME: Final = 53
IFLA_PERM_ADDRESS: Final = 54
IFLA_PARENT_DEV_NAME: Final = 56
IFLA_PARENT_DEV_BUS_NAME: Final = 57
IFLA_GRO_MAX_SIZE: Final = 58
IFLA_ALLMULTI: Final = 61
IFLA_GSO_IPV4_MAX_SIZE: Final = 63
IFLA_GRO_IPV4_MAX_SIZE: Final = 64
IFLA_NETNS_IMMUTABLE: Final = 67
IFLA_INFO_KIND: Final = 1
IFLA_INFO_DATA: Final = 2
IFLA_INFO_SLAVE_KIND: Final = 4
IFLA_XDP_ATTACHED: Final = 2
IFLA_XDP_PROG_ID: Final = 4

OPERSTATES: Final = (
    "unknown",
    "notpresent",
    "down",
    "lowerlayerdown",
    "testing",
    "dormant",
    "up",
)
"""Words for IFLA_OPERSTATE, by its number. Source: RFC 2863, section 3.1.14."""

LINK_HEAD: Final = struct.Struct("=BxHiII")


@attrs.frozen(kw_only=True)
class Offload:
    """Largest packets that a link's segmentation and receive offloads build, in bytes.

    0 where the kernel does not tell (before 5.19, and 6.3 for the two of IPv4).
    """

    gso_max_size: int = 0
    gro_max_size: int = 0
    gso_ipv4_max_size: int = 0
    gro_ipv4_max_size: int = 0


@attrs.frozen(kw_only=True)
class Xdp:
    """An XDP program on a link.

    Attributes:
        mode: 1 driver, 2 generic, 3 hardware, 4 several at once.
        program_id: The program's number, 0 where several are attached.
    """

    mode: int
    program_id: int = 0


@attrs.frozen(kw_only=True)
class Link:
    """A network interface, as one namespace saw it at one moment.

    Attributes:
        index: Interface index, unique in its namespace only.
        name: Its name; proves nothing of its identity.
        altnames: Its further names.
        hardware_type: ARPHRD_*; 1 is Ethernet.
        flags: IFF_*.
        mtu: In bytes.
        min_mtu: Least MTU that its driver takes.
        max_mtu: Largest MTU that its driver takes, 0 when it sets no limit.
        mac: Hardware address in use, lower case with colons; empty for none.
        perm_mac: Hardware address burnt in, empty for none.
        broadcast: Hardware broadcast address.
        master: Interface index of its master, 0 for none.
        parent: Interface index of the link under it, or of a veth's other end; 0 for none.
        parent_netnsid: Namespace id in which `parent` counts, None for the link's own namespace.
        operstate: One of `OPERSTATES`.
        kind: Word for its kind, such as ``macvlan``; empty for hardware.
        kind_data: What it says of its kind, None when its name says all.
        port_kind: Word for the kind of its master, as ``bond``; empty without one.
        alias: Free text.
        vf_count: Virtual functions that exist, told when they were asked for.
        vfs: Their administrative values, told when they were asked for.
        group: Number of its link group.
        promiscuity: How many users want all packets.
        allmulti: How many users want all multicast packets, 0 where the kernel does not tell.
        carrier: The cable answers.
        carrier_changes: How often that changed.
        carrier_up_count: How often it came.
        carrier_down_count: How often it went.
        switch_id: Identifier of the switch that it is a port of, in hexadecimal.
        port_name: Name of its port on that switch, such as ``p0`` or ``pf0vf1``.
        offload: Its packet sizes.
        xdp: The XDP program on it, None for none.
        txqlen: Length of its queue in packets.
        parent_device: Name of the device that carries it, such as ``0000:41:00.0``; the same in
            each namespace.
        parent_bus: That device's bus, such as ``pci``.
        immovable: The kernel lets it change namespace never; None where the kernel does not tell.
        ipv4_conf: IPv4 settings by name.
        addr_gen_mode: How IPv6 makes link-local addresses; None where IPv6 is off.
    """

    index: int
    name: str
    altnames: tuple[str, ...] = ()
    hardware_type: int = ARPHRD_ETHER
    flags: int = 0
    mtu: int = 0
    min_mtu: int = 0
    max_mtu: int = 0
    mac: str = ""
    perm_mac: str = ""
    broadcast: str = ""
    master: int = 0
    parent: int = 0
    parent_netnsid: int | None = None
    operstate: str = "unknown"
    kind: str = ""
    kind_data: KindData | None = None
    port_kind: str = ""
    alias: str = ""
    vf_count: int = 0
    vfs: tuple[Vf, ...] = ()
    group: int = 0
    promiscuity: int = 0
    allmulti: int = 0
    carrier: bool = False
    carrier_changes: int = 0
    carrier_up_count: int = 0
    carrier_down_count: int = 0
    switch_id: str = ""
    port_name: str = ""
    offload: Offload = attrs.field(factory=Offload)
    xdp: Xdp | None = None
    txqlen: int = 0
    parent_device: str = ""
    parent_bus: str = ""
    immovable: bool | None = None
    ipv4_conf: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    addr_gen_mode: int | None = None

    @property
    def up(self) -> bool:
        """Set up by somebody; says nothing of the cable."""
        return bool(self.flags & IFF_UP)

    @property
    def loopback(self) -> bool:
        """The namespace's loopback."""
        return bool(self.flags & IFF_LOOPBACK)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that finds it: its own first, then its altnames."""
        return (self.name, *self.altnames)


def link_family(message: Message) -> int:
    """Give the family that speaks in a link message: 0 for the link itself, 7 for a bridge.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    return int(_head(message)[0])


def parse_link(message: Message) -> Link:
    """Decode RTM_NEWLINK or RTM_DELLINK.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    _family, hardware_type, index, flags, _change = _head(message)
    found = parse_attributes(message.body[LINK_HEAD.size :])
    info = found.nest(IFLA_LINKINFO)
    kind = info.text(IFLA_INFO_KIND)
    spec = found.nest(IFLA_AF_SPEC)
    return Link(
        index=index,
        name=found.text(IFLA_IFNAME),
        altnames=tuple(map(decode_text, found.nest(IFLA_PROP_LIST).each(IFLA_ALT_IFNAME))),
        hardware_type=hardware_type,
        flags=flags,
        mtu=found.u32(IFLA_MTU),
        min_mtu=found.u32(IFLA_MIN_MTU),
        max_mtu=found.u32(IFLA_MAX_MTU),
        mac=parse_mac(found.raw(IFLA_ADDRESS)),
        perm_mac=parse_mac(found.raw(IFLA_PERM_ADDRESS)),
        broadcast=parse_mac(found.raw(IFLA_BROADCAST)),
        master=found.u32(IFLA_MASTER),
        parent=found.s32(IFLA_LINK),
        parent_netnsid=found.s32(IFLA_LINK_NETNSID) if IFLA_LINK_NETNSID in found else None,
        operstate=_operstate(found.u8(IFLA_OPERSTATE)),
        kind=kind,
        kind_data=parse_kind(kind, info.nest(IFLA_INFO_DATA)),
        port_kind=info.text(IFLA_INFO_SLAVE_KIND),
        alias=found.text(IFLA_IFALIAS),
        vf_count=found.u32(IFLA_NUM_VF),
        vfs=parse_vfs(found.nest(IFLA_VFINFO_LIST), len(found.raw(IFLA_ADDRESS))),
        group=found.u32(IFLA_GROUP),
        promiscuity=found.u32(IFLA_PROMISCUITY),
        allmulti=found.u32(IFLA_ALLMULTI),
        carrier=bool(found.u8(IFLA_CARRIER)),
        carrier_changes=found.u32(IFLA_CARRIER_CHANGES),
        carrier_up_count=found.u32(IFLA_CARRIER_UP_COUNT),
        carrier_down_count=found.u32(IFLA_CARRIER_DOWN_COUNT),
        switch_id=found.raw(IFLA_PHYS_SWITCH_ID).hex(),
        port_name=found.text(IFLA_PHYS_PORT_NAME),
        offload=_parse_offload(found),
        xdp=_parse_xdp(found.nest(IFLA_XDP)),
        txqlen=found.u32(IFLA_TXQLEN),
        parent_device=found.text(IFLA_PARENT_DEV_NAME),
        parent_bus=found.text(IFLA_PARENT_DEV_BUS_NAME),
        immovable=bool(found.u8(IFLA_NETNS_IMMUTABLE)) if IFLA_NETNS_IMMUTABLE in found else None,
        ipv4_conf=parse_ipv4_conf(spec),
        addr_gen_mode=parse_addr_gen_mode(spec),
    )


def _head(message: Message) -> tuple[int, int, int, int, int]:
    if len(message.body) < LINK_HEAD.size:
        raise RemoteProtocolError("netlink", f"a link message of {len(message.body)} bytes")
    family, hardware_type, index, flags, change = LINK_HEAD.unpack_from(message.body)
    return family, hardware_type, index, flags, change


def _operstate(number: int) -> str:
    return OPERSTATES[number] if number < len(OPERSTATES) else OPERSTATES[0]


def _parse_offload(found: Attributes) -> Offload:
    return Offload(
        gso_max_size=found.u32(IFLA_GSO_MAX_SIZE),
        gro_max_size=found.u32(IFLA_GRO_MAX_SIZE),
        gso_ipv4_max_size=found.u32(IFLA_GSO_IPV4_MAX_SIZE),
        gro_ipv4_max_size=found.u32(IFLA_GRO_IPV4_MAX_SIZE),
    )


def _parse_xdp(found: Attributes) -> Xdp | None:
    mode = found.u8(IFLA_XDP_ATTACHED)
    return Xdp(mode=mode, program_id=found.u32(IFLA_XDP_PROG_ID)) if mode else None
