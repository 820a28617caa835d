"""Namespace ids: the numbers by which one network namespace knows others.

An id lives in the namespace that asks, names the other one by a descriptor when it is made, and
keeps nothing alive. The kernel tells of its end (`RTM_DELNSID`, group 28).

Source: include/uapi/linux/net_namespace.h, net/core/net_namespace.c.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.message import NLM_F_DUMP, Message, Request

RTM_NEWNSID: Final = 88
RTM_DELNSID: Final = 89
RTM_GETNSID: Final = 90

NO_NSID: Final = -1
"""What the kernel answers for a namespace without id, and takes for "choose one"."""

_NETNSA_NSID: Final = 1
_NETNSA_FD: Final = 3

_HEAD: Final = struct.Struct("=Bxxx")


@attrs.frozen(kw_only=True)
class Nsid:
    """A namespace id.

    Attributes:
        number: The id, `NO_NSID` for a namespace that has none.
    """

    number: int


def parse_nsid(message: Message) -> Nsid:
    """Decode RTM_NEWNSID or RTM_DELNSID.

    Raises:
        RemoteProtocolError: The message is malformed or tells no id.
    """
    if len(message.body) < _HEAD.size:
        raise RemoteProtocolError("netlink", f"a namespace id message of {len(message.body)} bytes")
    found = nla.parse_attributes(message.body[_HEAD.size :])
    if _NETNSA_NSID not in found:
        raise RemoteProtocolError("netlink", "a namespace id message without an id")
    return Nsid(number=found.s32(_NETNSA_NSID))


def new_nsid(netns_fd: int, *, number: int = NO_NSID) -> Request:
    """Give the namespace behind a descriptor an id here; EEXIST when it has one."""
    body = _HEAD.pack(0) + nla.s32(_NETNSA_NSID, number) + nla.u32(_NETNSA_FD, netns_fd)
    return Request(type=RTM_NEWNSID, body=body, label="RTM_NEWNSID")


def get_nsid(netns_fd: int) -> Request:
    """Ask for the id of the namespace behind a descriptor; `NO_NSID` when it has none."""
    body = _HEAD.pack(0) + nla.u32(_NETNSA_FD, netns_fd)
    return Request(type=RTM_GETNSID, body=body, label="RTM_GETNSID")


def dump_nsids() -> Request:
    """Ask for all ids known here."""
    return Request(type=RTM_GETNSID, flags=NLM_F_DUMP, body=_HEAD.pack(0), label="RTM_GETNSID")
