"""Senders that watch, hinder or answer for the kernel, at the seam of every netlink message."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator

from berth.host.netlink.socket import NETLINK_GENERIC, send_now

_HEAD = struct.Struct("=IHHII")
_LINK_HEAD = struct.Struct("=BxHiII")
# Commands that ask: of the control family, of ethtool's features and flags.
_GENERIC_READS = frozenset({3, 11, 13})
_READS = frozenset({18, 22, 26, 30, 34, 90, 106})
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_NEWADDR = 20
RTM_NEWROUTE = 24
RTM_NEWNEIGH = 28
RTM_NEWLINKPROP = 108
_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_NET_NS_FD = 28


class Message:
    """One message on its way, as far as tests ask.

    Attributes:
        kind: RTM_*; 0 for one of generic netlink, whose numbers mean other things.
    """

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        generic = sock.proto == NETLINK_GENERIC
        self.body = data[_HEAD.size :]
        self.kind = 0 if generic else _HEAD.unpack_from(data)[1]
        self.reads = self.body[0] in _GENERIC_READS if generic else self.kind in _READS

    @property
    def moves(self) -> bool:
        """It is about a link, and names a namespace for it."""
        return self.kind == RTM_NEWLINK and _IFLA_NET_NS_FD in dict(self.attributes())

    def sets(self, attribute: int) -> bytes | None:
        """What it sets a link's attribute to."""
        return dict(self.attributes()).get(attribute) if self.kind == RTM_NEWLINK else None

    def renames_to(self, name: str) -> bool:
        """It is about a link, and gives it a name."""
        return self.sets(_IFLA_IFNAME) == name.encode() + b"\0"

    def attributes(self) -> Iterator[tuple[int, bytes]]:
        """The attributes behind the head of a link message."""
        offset = _LINK_HEAD.size
        while offset + 4 <= len(self.body):
            length, kind = struct.unpack_from("=HH", self.body, offset)
            yield kind & 0x3FFF, self.body[offset + 4 : offset + length]
            offset += (length + 3) & ~3


class Watching:
    """Sends, and keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request."""
        self.sent.append(Message(sock, data))
        send_now(sock, data)

    @property
    def changes(self) -> list[Message]:
        """Messages that were no mere question."""
        return [message for message in self.sent if not message.reads]


class Refusing:
    """Refuses the messages that a test picks, as if the kernel did; sends the others."""

    def __init__(self, picks: Callable[[Message], bool], *, number: int = errno.EPERM) -> None:
        self._picks = picks
        self._number = number
        self.refused = 0

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request, or raise."""
        if self._picks(Message(sock, data)):
            self.refused += 1
            raise OSError(self._number, os.strerror(self._number))
        send_now(sock, data)


class Before:
    """Does something once, right before the first message that a test picks."""

    def __init__(self, picks: Callable[[Message], bool], act: Callable[[], object]) -> None:
        self._picks = picks
        self._act: Callable[[], object] | None = act

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request."""
        self.act_before(Message(sock, data))
        send_now(sock, data)

    def act_before(self, message: Message) -> None:
        """Act, if this is the message and it is the first one."""
        if self._act is not None and self._picks(message):
            act, self._act = self._act, None
            act()


class Chained:
    """Has one sender do what it does before a message, and another decide whether it goes."""

    def __init__(self, first: Before, then: Refusing) -> None:
        self._first = first
        self._then = then

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request, or raise."""
        self._first.act_before(Message(sock, data))
        self._then(sock, data)


class Died(BaseException):
    """The process ends here; nothing may catch it."""


class DyingAfter:
    """Ends all work right after the first message that a test picks was done by the kernel."""

    def __init__(self, picks: Callable[[Message], bool]) -> None:
        self._picks = picks

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request, and perhaps no further one."""
        send_now(sock, data)
        if self._picks(Message(sock, data)):
            raise Died
