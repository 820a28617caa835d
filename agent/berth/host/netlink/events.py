"""Changes of the kernel's network tables, as they happen, for a trio task.

Reading an event socket takes no lock of the kernel's, so this one belongs on the trio thread.
When the reader was too slow the kernel drops events and says so once: `Overflow`. Its reader then
reads the tables anew; it is never told that something is gone.

With `all_nsids` the socket also hears other namespaces that have an id in its own (see `nsid`).
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink import address, link, neighbor, nexthop, nsid, route, rule
from berth.host.netlink.message import Message, parse_messages
from berth.host.netlink.socket import BUFFER_BYTES, NETLINK_ROUTE, SOL_NETLINK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self

GROUP_LINK: Final = 1
GROUP_NEIGHBOR: Final = 3
GROUP_IPV4_ADDRESS: Final = 5
GROUP_IPV4_ROUTE: Final = 7
GROUP_IPV4_RULE: Final = 8
GROUP_IPV6_ADDRESS: Final = 9
GROUP_IPV6_ROUTE: Final = 11
GROUP_IPV6_RULE: Final = 19
GROUP_NSID: Final = 28
GROUP_NEXTHOP: Final = 32

_NETLINK_ADD_MEMBERSHIP: Final = 1
_NETLINK_LISTEN_ALL_NSID: Final = 8
# Python has no name for it. Source: include/uapi/asm-generic/socket.h.
_SO_RCVBUFFORCE: Final = 33
_NSID: Final = struct.Struct("=i")
_DATAGRAMS_AT_ONCE: Final = 64

Value: TypeAlias = (
    link.Link
    | address.Address
    | route.Route
    | rule.Rule
    | neighbor.Neighbor
    | nexthop.NextHop
    | nsid.Nsid
)


@attrs.frozen(kw_only=True)
class Changed:
    """Something is there, new or different.

    Attributes:
        value: What is there now. Of a link, only what its event carries; altnames are among it.
        nsid: Id of the namespace where it happened, None for the socket's own.
    """

    value: Value
    nsid: int | None = None


@attrs.frozen(kw_only=True)
class Removed:
    """Something is gone from a namespace: removed, or moved to another.

    Attributes:
        value: What it was.
        nsid: Id of the namespace where it happened, None for the socket's own.
    """

    value: Value
    nsid: int | None = None


@attrs.frozen
class Overflow:
    """Events were lost; read the tables anew."""


Event: TypeAlias = Changed | Removed | Overflow


def _parse_link(message: Message) -> link.Link | None:
    """Decode a link event; None for one of a protocol family.

    A bridge reports its ports in the same group and with the same types: a port that leaves its
    bridge is a RTM_DELLINK there, though the link lives on.
    """
    return link.parse_link(message) if link.link_family(message) == 0 else None


_PARSERS: Final[Mapping[int, tuple[Callable[[Message], Value | None], type[Changed | Removed]]]] = {
    link.RTM_NEWLINK: (_parse_link, Changed),
    link.RTM_DELLINK: (_parse_link, Removed),
    address.RTM_NEWADDR: (address.parse_address, Changed),
    address.RTM_DELADDR: (address.parse_address, Removed),
    route.RTM_NEWROUTE: (route.parse_route, Changed),
    route.RTM_DELROUTE: (route.parse_route, Removed),
    rule.RTM_NEWRULE: (rule.parse_rule, Changed),
    rule.RTM_DELRULE: (rule.parse_rule, Removed),
    neighbor.RTM_NEWNEIGH: (neighbor.parse_neighbor, Changed),
    neighbor.RTM_DELNEIGH: (neighbor.parse_neighbor, Removed),
    nexthop.RTM_NEWNEXTHOP: (nexthop.parse_next_hop, Changed),
    nexthop.RTM_DELNEXTHOP: (nexthop.parse_next_hop, Removed),
    nsid.RTM_NEWNSID: (nsid.parse_nsid, Changed),
    nsid.RTM_DELNSID: (nsid.parse_nsid, Removed),
}


def parse_event(message: Message, namespace: int | None = None) -> Event | None:
    """Decode one event; None for one that concerns no table known here.

    Raises:
        RemoteProtocolError: The message is malformed.
    """
    entry = _PARSERS.get(message.type)
    if entry is None:
        return None
    parse, event = entry
    value = parse(message)
    return None if value is None else event(value=value, nsid=namespace)


class EventSocket:
    """A socket that hears changes in the namespace of the thread that makes it.

    Args:
        groups: GROUP_* to hear.
        all_nsids: Hear other namespaces with an id too; needs CAP_NET_BROADCAST.
        buffer_bytes: Room for events not yet read; 0 for the system's default. Without
            CAP_NET_ADMIN the system's limit holds.

    Raises:
        HostError: The kernel gives no such socket; EPERM where the capability is missing.
    """

    def __init__(
        self, groups: Iterable[int], *, all_nsids: bool = False, buffer_bytes: int = 0
    ) -> None:
        try:
            self._sock = socket.socket(
                socket.AF_NETLINK,
                socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
                NETLINK_ROUTE,
            )
        except OSError as error:
            raise _told(error) from error
        try:
            self._prepare(groups, all_nsids=all_nsids, buffer_bytes=buffer_bytes)
        except OSError as error:
            self._sock.close()
            raise _told(error) from error

    def _prepare(self, groups: Iterable[int], *, all_nsids: bool, buffer_bytes: int) -> None:
        if buffer_bytes:
            self._make_room(buffer_bytes)
        self._sock.bind((0, 0))
        if all_nsids:
            self._sock.setsockopt(SOL_NETLINK, _NETLINK_LISTEN_ALL_NSID, 1)
        for group in groups:
            self._sock.setsockopt(SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)

    def _make_room(self, buffer_bytes: int) -> None:
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
        except PermissionError:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; a task that waits in `receive` gets trio's ClosedResourceError."""
        if self._sock.fileno() >= 0 and trio.lowlevel.in_trio_run():
            trio.lowlevel.notify_closing(self._sock)
        self._sock.close()

    async def receive(self) -> tuple[Event, ...]:
        """Wait for events and give those that are there, never none, in their order.

        A cancel loses nothing.

        Raises:
            HostError: The socket is broken.
            RemoteProtocolError: An event is malformed.
            trio.ClosedResourceError: The socket was closed meanwhile.
        """
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            events = self.receive_nowait()
            if events:
                return events

    def receive_nowait(self) -> tuple[Event, ...]:
        """Give the events that are there, none if none are.

        Raises:
            HostError: The socket is broken.
            RemoteProtocolError: An event is malformed.
        """
        events: list[Event] = []
        for _ in range(_DATAGRAMS_AT_ONCE):
            found = self._read_datagram()
            if found is None:
                break
            events.extend(found)
        return tuple(events)

    def _read_datagram(self) -> list[Event] | None:
        """Give the events of the next datagram; None when there is no further one."""
        try:
            data, ancillary, flags, sender = self._sock.recvmsg(
                BUFFER_BYTES, socket.CMSG_SPACE(_NSID.size)
            )
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return [Overflow()]
            raise _told(error) from error
        if sender[0] != 0:
            return []
        if flags & socket.MSG_TRUNC:
            raise RemoteProtocolError(
                "netlink events",
                "an event that was cut",
                rule=f"at most {BUFFER_BYTES} bytes are read",
            )
        namespace = _nsid_in(ancillary)
        found = [parse_event(message, namespace) for message in parse_messages(data)]
        return [event for event in found if event is not None]


def _nsid_in(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """Give the namespace id that came beside an event."""
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_NETLINK, _NETLINK_LISTEN_ALL_NSID) and len(data) == _NSID.size:
            return int(_NSID.unpack(data)[0])
    return None


def _told(error: OSError) -> HostError:
    return HostError("netlink events", error.strerror or str(error), errno=error.errno or 0)
