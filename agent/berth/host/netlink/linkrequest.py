"""Requests that read, make, change, move and remove links.

What the kernel does with one message in one go is one builder here; what only looks like one step
is left to the caller. A move with other changes is such a case: it is not atomic (a refused
name leaves the link in the other namespace), so after an error look in both.

Source: include/uapi/linux/if_link.h, net/core/rtnetlink.c (do_setlink, rtnl_newlink).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from berth.errors import LocalProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink import link as ifla
from berth.host.netlink.devconf import encode_devconf
from berth.host.netlink.kinds import KindData, encode_kind, kind_name
from berth.host.netlink.link import IFF_UP, LINK_HEAD, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK
from berth.host.netlink.mac import pack_mac
from berth.host.netlink.message import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    Request,
)
from berth.host.netlink.vf import vf_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RTM_NEWLINKPROP: Final = 108
RTM_DELLINKPROP: Final = 109

_EXT_MASK_VF: Final = 1
_EXT_MASK_NO_STATISTICS: Final = 8
_IFLA_XDP_FD: Final = 1
_IFLA_XDP_FLAGS: Final = 3
# IFLA_XDP_ATTACHED's modes to the flag that addresses the same attachment.
_XDP_FLAGS: Final = {1: 4, 2: 2, 3: 8}


@attrs.frozen(kw_only=True)
class LinkChange:
    """What shall become of a link; None leaves a thing as it is.

    Attributes:
        name: New name.
        mtu: In bytes.
        mac: Hardware address.
        broadcast: Hardware broadcast address.
        txqlen: Queue length in packets.
        group: Number of the link group.
        alias: Free text; empty takes it away.
        master: Interface index of the master; 0 takes it out.
        netns_fd: Descriptor of the namespace to move it to, open until the kernel answered.
        new_index: Interface index to take in that namespace.
        flags_on: IFF_* to set.
        flags_off: IFF_* to clear.
        offload: Packet sizes; those that are 0 are left as they are.
        xdp_detach: Mode (`Xdp.mode`) of the XDP program to take off.
        ipv4_conf: IPv4 settings by name, of `devconf.IPV4_CONF`.
        addr_gen_mode: How IPv6 makes link-local addresses.
    """

    name: str | None = None
    mtu: int | None = None
    mac: str | None = None
    broadcast: str | None = None
    txqlen: int | None = None
    group: int | None = None
    alias: str | None = None
    master: int | None = None
    netns_fd: int | None = None
    new_index: int | None = None
    flags_on: int = 0
    flags_off: int = 0
    offload: ifla.Offload = attrs.field(factory=ifla.Offload)
    xdp_detach: int | None = None
    ipv4_conf: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    addr_gen_mode: int | None = None


UP: Final = LinkChange(flags_on=IFF_UP)
DOWN: Final = LinkChange(flags_off=IFF_UP)


def dump_links(*, nsid: int | None = None, master: int = 0) -> Request:
    """Ask for all links, without statistics and virtual functions.

    Args:
        nsid: Namespace id to look into, None for the socket's own namespace.
        master: Interface index of the master whose ports alone are wanted.
    """
    parts = nla.u32(ifla.IFLA_EXT_MASK, _EXT_MASK_NO_STATISTICS) + _target(nsid)
    if master:
        parts += nla.u32(ifla.IFLA_MASTER, master)
    body = LINK_HEAD.pack(0, 0, 0, 0, 0) + parts
    return Request(type=RTM_GETLINK, flags=NLM_F_DUMP, body=body, label="RTM_GETLINK")


def get_link(
    *, index: int = 0, name: str = "", nsid: int | None = None, vfs: bool = False
) -> Request:
    """Ask for one link, by index or by any of its names; ENODEV when there is none.

    Args:
        index: Interface index; it counts where a name is given as well.
        name: Name or altname.
        nsid: Namespace id to look into, None for the socket's own namespace.
        vfs: Tell its virtual functions too.
    """
    mask = _EXT_MASK_NO_STATISTICS | (_EXT_MASK_VF if vfs else 0)
    parts = nla.u32(ifla.IFLA_EXT_MASK, mask) + _target(nsid)
    if not index:
        # The kernel takes an altname here, and finds by it names as well.
        parts += nla.text(ifla.IFLA_ALT_IFNAME, name)
    body = LINK_HEAD.pack(0, 0, index, 0, 0) + parts
    label = f"RTM_GETLINK {name or index}"
    return Request(type=RTM_GETLINK, body=body, label=label)


def _target(nsid: int | None) -> bytes:
    return b"" if nsid is None else nla.s32(ifla.IFLA_TARGET_NETNSID, nsid)


def set_link(index: int, change: LinkChange, *, label: str = "") -> Request:
    """Change a link; several changes are applied one by one and not undone by a later refusal.

    Args:
        index: Interface index.
        change: What shall change.
        label: The link's name, for errors.
    """
    head = LINK_HEAD.pack(0, 0, index, *_flags(change))
    body = head + b"".join(_change_attributes(change))
    return Request(type=RTM_NEWLINK, body=body, label=f"RTM_NEWLINK {label or index}")


def new_link(
    name: str,
    kind: str | KindData,
    *,
    parent: int = 0,
    change: LinkChange | None = None,
) -> Request:
    """Make a link; EEXIST when the name is taken. On an error nothing was made.

    Args:
        name: Its name, in the namespace where it is made.
        kind: What it says of its kind, or the kind's word alone.
        parent: Interface index, in the socket's namespace, of the link under it.
        change: What it shall be from the first moment; `netns_fd` is where it is made. The
            kernel takes no `ipv4_conf` and no `addr_gen_mode` here.
    """
    change = LinkChange() if change is None else change
    parts = [nla.text(ifla.IFLA_IFNAME, name), _link_info(kind)]
    if parent:
        parts.append(nla.u32(ifla.IFLA_LINK, parent))
    body = LINK_HEAD.pack(0, 0, 0, *_flags(change))
    body += b"".join([*parts, *_change_attributes(change)])
    return Request(
        type=RTM_NEWLINK,
        flags=NLM_F_CREATE | NLM_F_EXCL,
        body=body,
        label=f"RTM_NEWLINK {name} (new)",
    )


def _link_info(kind: str | KindData) -> bytes:
    if isinstance(kind, str):
        return nla.nest(ifla.IFLA_LINKINFO, nla.text(ifla.IFLA_INFO_KIND, kind))
    return nla.nest(
        ifla.IFLA_LINKINFO,
        nla.text(ifla.IFLA_INFO_KIND, kind_name(kind)),
        nla.nest(ifla.IFLA_INFO_DATA, encode_kind(kind)),
    )


def delete_link(index: int, *, label: str = "") -> Request:
    """Remove a link; ENODEV when there is none, EOPNOTSUPP for hardware."""
    body = LINK_HEAD.pack(0, 0, index, 0, 0)
    return Request(type=RTM_DELLINK, body=body, label=f"RTM_DELLINK {label or index}")


def add_altnames(index: int, names: Iterable[str]) -> Request:
    """Give a link further names; EEXIST when one of them finds any link already."""
    flags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND
    return _altnames(RTM_NEWLINKPROP, flags, index, names)


def delete_altnames(index: int, names: Iterable[str]) -> Request:
    """Take names from a link; ENOENT when nobody has one of them, EINVAL when another has."""
    return _altnames(RTM_DELLINKPROP, 0, index, names)


def _altnames(kind: int, flags: int, index: int, names: Iterable[str]) -> Request:
    listed = tuple(names)
    properties = [nla.text(ifla.IFLA_ALT_IFNAME, name) for name in listed]
    body = LINK_HEAD.pack(0, 0, index, 0, 0) + nla.nest(ifla.IFLA_PROP_LIST, *properties)
    word = "RTM_NEWLINKPROP" if kind == RTM_NEWLINKPROP else "RTM_DELLINKPROP"
    return Request(type=kind, flags=flags, body=body, label=f"{word} {', '.join(listed)}")


def set_vf(index: int, value: bytes, *, label: str = "") -> Request:
    """Set one administrative value of a virtual function, through its physical function.

    Args:
        index: Interface index of the physical function.
        value: One value of the functions ``vf.vf_*``.
        label: The physical function's name, for errors.
    """
    body = LINK_HEAD.pack(0, 0, index, 0, 0) + nla.nest(ifla.IFLA_VFINFO_LIST, vf_info(value))
    return Request(type=RTM_NEWLINK, body=body, label=f"RTM_NEWLINK {label or index} (VF)")


def _flags(change: LinkChange) -> tuple[int, int]:
    """Give flags and the mask of those that count."""
    if change.flags_on & change.flags_off:
        raise LocalProtocolError("netlink", "a link flag to set and to clear in one request")
    return change.flags_on, change.flags_on | change.flags_off


def _change_attributes(change: LinkChange) -> list[bytes]:
    offload = change.offload
    numbers = (
        (ifla.IFLA_MTU, change.mtu),
        (ifla.IFLA_TXQLEN, change.txqlen),
        (ifla.IFLA_GROUP, change.group),
        (ifla.IFLA_MASTER, change.master),
        (ifla.IFLA_NET_NS_FD, change.netns_fd),
        (ifla.IFLA_NEW_IFINDEX, change.new_index),
        (ifla.IFLA_GSO_MAX_SIZE, offload.gso_max_size or None),
        (ifla.IFLA_GRO_MAX_SIZE, offload.gro_max_size or None),
        (ifla.IFLA_GSO_IPV4_MAX_SIZE, offload.gso_ipv4_max_size or None),
        (ifla.IFLA_GRO_IPV4_MAX_SIZE, offload.gro_ipv4_max_size or None),
    )
    parts = [nla.u32(kind, number) for kind, number in numbers if number is not None]
    return parts + _text_attributes(change) + _nested_attributes(change)


def _text_attributes(change: LinkChange) -> list[bytes]:
    parts = []
    if change.name is not None:
        parts.append(nla.text(ifla.IFLA_IFNAME, change.name))
    if change.mac is not None:
        parts.append(nla.attribute(ifla.IFLA_ADDRESS, pack_mac(change.mac)))
    if change.broadcast is not None:
        parts.append(nla.attribute(ifla.IFLA_BROADCAST, pack_mac(change.broadcast)))
    if change.alias is not None:
        parts.append(nla.text(ifla.IFLA_IFALIAS, change.alias))
    return parts


def _nested_attributes(change: LinkChange) -> list[bytes]:
    parts = []
    spec = encode_devconf(change.ipv4_conf, change.addr_gen_mode)
    if spec:
        parts.append(nla.nest(ifla.IFLA_AF_SPEC, spec))
    if change.xdp_detach is not None:
        flags = _XDP_FLAGS.get(change.xdp_detach, 0)
        detach = nla.s32(_IFLA_XDP_FD, -1) + nla.u32(_IFLA_XDP_FLAGS, flags)
        parts.append(nla.nest(ifla.IFLA_XDP, detach))
    return parts
