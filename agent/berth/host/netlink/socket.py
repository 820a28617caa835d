"""Exchanges with the kernel over a netlink socket, for worker threads.

`send` runs the whole operation under the kernel's rtnl lock, and reading a dump may wait for that
lock too: every method here blocks, so none belongs on the trio thread.

Only the kernel (port 0) is listened to; what counts as an answer decides `exchange.Exchange`.
Nothing is timed here, except that a kernel which does not answer at all within `ANSWER_LIMIT_S`
is a fault.

Knowingly left out: several exchanges at once on one socket. A socket has one user at a time.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Final, Protocol

from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink.exchange import Exchange
from berth.host.netlink.namespace import Netns, run_in_netns

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from berth.host.netlink.message import Message, Request

NETLINK_ROUTE: Final = 0
NETLINK_GENERIC: Final = 16
NETLINK_RDMA: Final = 20

SOL_NETLINK: Final = 270
_NETLINK_EXT_ACK: Final = 11
_NETLINK_GET_STRICT_CHK: Final = 12

BUFFER_BYTES: Final = 32 * 1024
"""What the kernel fills at most in one part of a dump."""
LARGEST_BYTES: Final = 4 * 1024 * 1024
"""A single answer above this is not read; the longest known, 254 virtual functions, has 64 KiB."""
DUMP_RETRIES: Final = 5
"""How often an interrupted dump is taken again at once."""
ANSWER_LIMIT_S: Final = 30


class Sender(Protocol):
    """How bytes leave a socket; a crash test counts here, and ends the process before or after."""

    def __call__(self, sock: socket.socket, data: bytes, /) -> None:
        """Send one request; returns when the kernel has worked on it."""


def send_now(sock: socket.socket, data: bytes, /) -> None:
    """Send as the daemon does."""
    sock.send(data)


class Netlink:
    """A blocking netlink socket in the namespace of the thread that makes it.

    Args:
        protocol: `NETLINK_ROUTE`, `NETLINK_GENERIC` or `NETLINK_RDMA`.
        where: What errors call its namespace: ``host`` or ``pod``.
        send: How requests leave.

    Raises:
        HostError: The kernel gives no such socket.
    """

    def __init__(
        self, protocol: int = NETLINK_ROUTE, *, where: str = "host", send: Sender = send_now
    ) -> None:
        self.where = where
        self._send = send
        self._sequence = 0
        self._probe = bytearray(1)
        try:
            self._sock = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol
            )
        except OSError as error:
            raise self._told(f"{where}: socket", error) from error
        self._prepare(strict=protocol == NETLINK_ROUTE)

    def _prepare(self, *, strict: bool) -> None:
        try:
            self._sock.setsockopt(SOL_NETLINK, _NETLINK_EXT_ACK, 1)
            if strict:
                self._sock.setsockopt(SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)
            limit = struct.pack("@ll", ANSWER_LIMIT_S, 0)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._sock.bind((0, 0))
            self._port: int = self._sock.getsockname()[0]
        except OSError as error:
            self._sock.close()
            raise self._told(f"{self.where}: socket", error) from error

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
        """Close the socket, which keeps its namespace alive until then. May be called twice."""
        self._sock.close()

    def request(self, request: Request) -> tuple[Message, ...]:
        """Do one exchange and give the kernel's answers, without the acknowledgement.

        Raises:
            HostError: The kernel refused; `errno` is its number, the text has its words.
            RemoteProtocolError: An answer is malformed.
        """
        return tuple(self._exchange(request).answers)

    def dump(self, request: Request) -> tuple[Message, ...]:
        """Take a whole table; one that changed meanwhile is taken again, `DUMP_RETRIES` times.

        Raises:
            HostError: The kernel refused, or every try was interrupted (`errno` is EINTR then).
            RemoteProtocolError: An answer is malformed.
        """
        for _ in range(1 + DUMP_RETRIES):
            exchange = self._exchange(request)
            if not exchange.interrupted:
                return tuple(exchange.answers)
        raise HostError(
            self._place(request),
            f"the dump was interrupted {1 + DUMP_RETRIES} times by changes of its table",
            errno=errno.EINTR,
        )

    def _exchange(self, request: Request) -> Exchange:
        """Do one exchange to its end."""
        self._sequence = self._sequence % 0x7FFFFFFF + 1
        exchange = Exchange(request, sequence=self._sequence, port=self._port)
        try:
            self._send(self._sock, exchange.data)
            while not exchange.feed(self._receive(request)):
                pass
        except OSError as error:
            raise self._told(self._place(request), error) from error
        if exchange.refusal is not None and exchange.refusal.errno:
            raise self._refused(request, exchange, exchange.refusal.errno)
        return exchange

    def _receive(self, request: Request) -> bytes:
        """Give the kernel's next datagram; empty for one of somebody else's."""
        length = self._sock.recv_into(self._probe, 1, socket.MSG_PEEK | socket.MSG_TRUNC)
        size = min(max(length, BUFFER_BYTES), LARGEST_BYTES)
        data, _, flags, sender = self._sock.recvmsg(size)
        if sender[0] != 0:
            return b""
        if flags & socket.MSG_TRUNC:
            raise RemoteProtocolError(
                self._place(request),
                f"an answer of {length} bytes",
                rule=f"at most {LARGEST_BYTES} are read",
            )
        return data

    def _place(self, request: Request) -> str:
        return f"{self.where}: {request.label}"

    def _refused(self, request: Request, exchange: Exchange, number: int) -> HostError:
        blame = exchange.blame()
        found = os.strerror(number)
        return HostError(
            self._place(request), f"{found}: {blame}" if blame else found, errno=number
        )

    def _told(self, where: str, error: OSError) -> HostError:
        number = error.errno or 0
        found = error.strerror or str(error)
        if number == errno.EAGAIN:
            found, number = f"no answer within {ANSWER_LIMIT_S} s", errno.ETIMEDOUT
        return HostError(where, found, errno=number)


def open_in(
    netns: Netns, protocol: int = NETLINK_ROUTE, *, where: str = "pod", send: Sender = send_now
) -> Netlink:
    """Give a socket in another namespace, made by a fresh thread that then ends.

    The socket keeps the namespace alive: close it before the work on the namespace is over.

    Args:
        netns: Path or descriptor of the namespace.
        protocol: As for `Netlink`.
        where: As for `Netlink`.
        send: As for `Netlink`.

    Raises:
        HostError: The namespace cannot be entered, or the kernel gives no such socket.
    """
    return run_in_netns(netns, lambda: Netlink(protocol, where=where, send=send))
