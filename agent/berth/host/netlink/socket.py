"""Exchanges with the kernel over a netlink socket, for worker threads.

`send` runs the whole operation under the kernel's rtnl lock, and reading a dump may wait for that
lock too: every method here blocks, so none belongs on the trio thread.

Theory: an exchange is one request with a sequence number of its own, and all messages with that
number up to the acknowledgement (or the end of the dump). Answers to an earlier exchange that was
cut short are passed over. Only the kernel (port 0) is listened to. Nothing is timed here, except
that a kernel which does not answer at all within `ANSWER_LIMIT_S` is a fault.

Knowingly left out: several exchanges at once on one socket. A socket has one user at a time.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Final, Protocol

from berth.errors import HostError, RemoteProtocolError
from berth.host.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    NLMSG_NOOP,
    NLMSG_OVERRUN,
    Message,
    Refusal,
    Request,
    attribute_at,
    encode_message,
    parse_messages,
    parse_refusal,
)
from berth.host.netlink.namespace import Netns, run_in_netns

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

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
        self._send_bytes = send
        self._sequence = 0
        self._probe = bytearray(1)
        try:
            self._sock = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol
            )
        except OSError as error:
            raise self._told("socket", error) from error
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
            raise self._told("socket", error) from error

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
        sent = self._send(request, NLM_F_ACK)
        answers: list[Message] = []
        while True:
            for message in self._receive(request):
                if message.type in {NLMSG_ERROR, NLMSG_DONE}:
                    self._check(request, sent, parse_refusal(message))
                    return tuple(answers)
                answers.append(message)

    def dump(self, request: Request) -> tuple[Message, ...]:
        """Take a whole table; one that changed meanwhile is taken again, `DUMP_RETRIES` times.

        Raises:
            HostError: The kernel refused, or every try was interrupted (`errno` is EINTR then).
            RemoteProtocolError: An answer is malformed.
        """
        for _ in range(1 + DUMP_RETRIES):
            parts, interrupted = self._dump_once(request)
            if not interrupted:
                return parts
        raise HostError(
            f"{self.where}: {request.label}",
            f"the dump was interrupted {1 + DUMP_RETRIES} times by changes of its table",
            errno=errno.EINTR,
        )

    def _dump_once(self, request: Request) -> tuple[tuple[Message, ...], bool]:
        """Give the parts of a dump, read to its end, and whether it was interrupted."""
        sent = self._send(request, 0)
        parts: list[Message] = []
        interrupted = False
        while True:
            for message in self._receive(request):
                interrupted = interrupted or bool(message.flags & NLM_F_DUMP_INTR)
                if message.type in {NLMSG_ERROR, NLMSG_DONE}:
                    self._check(request, sent, parse_refusal(message))
                    return tuple(parts), interrupted
                parts.append(message)

    def _send(self, request: Request, flags: int) -> bytes:
        """Send a request and give its bytes; returns when the kernel is through with it."""
        self._sequence = self._sequence % 0x7FFFFFFF + 1
        data = encode_message(
            Message(
                type=request.type,
                flags=request.flags | NLM_F_REQUEST | flags,
                sequence=self._sequence,
                port=self._port,
                body=request.body,
            )
        )
        try:
            self._send_bytes(self._sock, data)
        except OSError as error:
            raise self._told(request.label, error) from error
        return data

    def _receive(self, request: Request) -> tuple[Message, ...]:
        """Give those messages of the next datagram that answer the running exchange."""
        try:
            length = self._sock.recv_into(self._probe, 1, socket.MSG_PEEK | socket.MSG_TRUNC)
            size = min(max(length, BUFFER_BYTES), LARGEST_BYTES)
            data, _, flags, sender = self._sock.recvmsg(size)
        except OSError as error:
            raise self._told(request.label, error) from error
        if flags & socket.MSG_TRUNC:
            raise RemoteProtocolError(
                f"{self.where}: {request.label}",
                f"an answer of {length} bytes",
                rule=f"at most {LARGEST_BYTES} are read",
            )
        if sender[0] != 0:
            return ()
        return tuple(filter(self._is_answer, parse_messages(data)))

    def _is_answer(self, message: Message) -> bool:
        if message.type == NLMSG_OVERRUN:
            raise RemoteProtocolError(self.where, "the kernel reports lost netlink data")
        ours = (message.sequence, message.port) == (self._sequence, self._port)
        return ours and message.type != NLMSG_NOOP

    def _check(self, request: Request, sent: bytes, refusal: Refusal) -> None:
        """Raise the kernel's refusal, in its own words."""
        if not refusal.errno:
            return
        found = os.strerror(refusal.errno)
        if refusal.words:
            found = f"{found}: {refusal.words}"
        blamed = attribute_at(sent, refusal.offset)
        if blamed is not None:
            found = f"{found} (attribute {blamed})"
        if refusal.missing:
            found = f"{found} (attribute {refusal.missing} is missing)"
        raise HostError(f"{self.where}: {request.label}", found, errno=refusal.errno)

    def _told(self, label: str, error: OSError) -> HostError:
        number = error.errno or 0
        found = error.strerror or str(error)
        if number == errno.EAGAIN:
            found, number = f"no answer within {ANSWER_LIMIT_S} s", errno.ETIMEDOUT
        return HostError(f"{self.where}: {label}", found, errno=number)


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
