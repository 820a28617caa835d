"""RDMA devices, their ports, character devices and namespaces.

Messages of this family have no fixed head: attributes begin at once.

Source: include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c.
"""

from __future__ import annotations

from typing import Final

import attrs

from berth.errors import RemoteProtocolError
from berth.host.netlink import attributes as nla
from berth.host.netlink.attributes import parse_attributes
from berth.host.netlink.message import NLM_F_DUMP, Message, Request

_NLDEV: Final = 5 << 10
_CMD_GET: Final = _NLDEV | 1
_CMD_SET: Final = _NLDEV | 2
_CMD_PORT_GET: Final = _NLDEV | 5
_CMD_SYS_GET: Final = _NLDEV | 6
_CMD_GET_CHARDEV: Final = _NLDEV | 15

_DEV_INDEX: Final = 1
_DEV_NAME: Final = 2
_PORT_INDEX: Final = 3
_NODE_GUID: Final = 6
_PORT_STATE: Final = 12
_NDEV_INDEX: Final = 50
_NETNS_MODE: Final = 66
_NET_NS_FD: Final = 68
_CHARDEV_TYPE: Final = 69
_CHARDEV_NAME: Final = 70
_CHARDEV: Final = 72

PORT_ACTIVE: Final = 4
"""State of a port that carries data. Source: InfiniBand Architecture, PortInfo.PortState."""


@attrs.frozen(kw_only=True)
class RdmaDevice:
    """An RDMA device that the socket's namespace sees.

    Attributes:
        index: Its number.
        name: Its name, such as ``mlx5_0``.
        ports: How many ports it has, numbered from 1.
        node_guid: Its GUID.
    """

    index: int
    name: str
    ports: int = 0
    node_guid: int = 0


@attrs.frozen(kw_only=True)
class RdmaPort:
    """One port of an RDMA device.

    Attributes:
        device: Number of the device.
        port: Number of the port, from 1.
        state: Its state; `PORT_ACTIVE` is the one that carries data.
        link: Interface index of the link on it, 0 for none in this namespace.
    """

    device: int
    port: int
    state: int = 0
    link: int = 0


@attrs.frozen(kw_only=True)
class CharacterDevice:
    """A node under ``/dev/infiniband``.

    Attributes:
        name: File name, such as ``uverbs0``.
        number: Major and minor, packed as in ``st_rdev``.
    """

    name: str
    number: int


def dump_devices() -> Request:
    """Ask for all RDMA devices."""
    return Request(type=_CMD_GET, flags=NLM_F_DUMP, label="RDMA_NLDEV_CMD_GET")


def parse_device(message: Message) -> RdmaDevice:
    """Decode an answer to `dump_devices`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = parse_attributes(message.body)
    return RdmaDevice(
        index=found.u32(_DEV_INDEX),
        name=found.text(_DEV_NAME),
        ports=found.u32(_PORT_INDEX),
        node_guid=found.u64(_NODE_GUID),
    )


def get_port(device: int, port: int) -> Request:
    """Ask for one port of a device."""
    body = nla.u32(_DEV_INDEX, device) + nla.u32(_PORT_INDEX, port)
    return Request(type=_CMD_PORT_GET, body=body, label=f"RDMA_NLDEV_CMD_PORT_GET {device}/{port}")


def parse_port(message: Message) -> RdmaPort:
    """Decode the answer to `get_port`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = parse_attributes(message.body)
    return RdmaPort(
        device=found.u32(_DEV_INDEX),
        port=found.u32(_PORT_INDEX),
        state=found.u8(_PORT_STATE),
        link=found.u32(_NDEV_INDEX),
    )


def get_system() -> Request:
    """Ask whether all namespaces share the devices."""
    return Request(type=_CMD_SYS_GET, label="RDMA_NLDEV_CMD_SYS_GET")


def parse_shared(message: Message) -> bool:
    """Tell from the answer to `get_system` whether all namespaces share the devices.

    Raises:
        RemoteProtocolError: It is malformed, or tells nothing of it.
    """
    found = parse_attributes(message.body)
    if _NETNS_MODE not in found:
        raise RemoteProtocolError("netlink", "an RDMA system answer without the namespace mode")
    return bool(found.u8(_NETNS_MODE))


def move_device(device: int, netns_fd: int, *, label: str = "") -> Request:
    """Move a device to the namespace behind a descriptor; only where they are not shared."""
    body = nla.u32(_DEV_INDEX, device) + nla.u32(_NET_NS_FD, netns_fd)
    return Request(type=_CMD_SET, body=body, label=f"RDMA_NLDEV_CMD_SET {label or device}")


def get_character_device(device: int, kind: str, *, port: int = 0) -> Request:
    """Ask for a device's node of a kind, such as ``uverbs``, or ``umad`` of a port."""
    parts = nla.text(_CHARDEV_TYPE, kind) + nla.u32(_DEV_INDEX, device)
    if port:
        parts += nla.u32(_PORT_INDEX, port)
    return Request(
        type=_CMD_GET_CHARDEV, body=parts, label=f"RDMA_NLDEV_CMD_GET_CHARDEV {kind} of {device}"
    )


def parse_character_device(message: Message) -> CharacterDevice:
    """Decode the answer to `get_character_device`.

    Raises:
        RemoteProtocolError: It is malformed.
    """
    found = parse_attributes(message.body)
    return CharacterDevice(name=found.text(_CHARDEV_NAME), number=found.u64(_CHARDEV))
