"""One exchange with the kernel: a request, and the answers up to the one that ends it.

Theory: each request has a number of its own. Its answers carry that number and the asking
socket's port; a single request ends with an ERROR message (number 0 acknowledges), a dump with
DONE. Whatever bears another number answers an exchange that was cut short before, and is passed
over. A dump whose table changed meanwhile says so on one of its parts: it must still be read to
its end, and is void.

Invariant: after the end, or after an error, an exchange takes nothing more.
"""

from __future__ import annotations

from typing import Final

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP,
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

_WHERE: Final = "netlink"


class Exchange:
    """A request on its way, and its answers.

    Args:
        request: What is asked.
        sequence: A number that no other exchange of the socket's lifetime near this one had.
        port: The socket's port.

    Attributes:
        data: The bytes to send.
        answers: The answers so far, without the one that ends the exchange.
        interrupted: A part said that the table changed under the dump.
        refusal: How the exchange ended; None while it goes on.
    """

    def __init__(self, request: Request, *, sequence: int, port: int) -> None:
        # A dump ends by DONE; an acknowledgement on top would answer nothing.
        ack = 0 if request.flags & NLM_F_DUMP == NLM_F_DUMP else NLM_F_ACK
        self.data = encode_message(
            Message(
                type=request.type,
                flags=request.flags | NLM_F_REQUEST | ack,
                sequence=sequence,
                port=port,
                body=request.body,
            )
        )
        self.answers: list[Message] = []
        self.interrupted = False
        self.refusal: Refusal | None = None
        self._key = (sequence, port)
        self._over = False

    def feed(self, datagram: bytes) -> bool:
        """Take a datagram of the kernel's, and tell whether it ended the exchange.

        Raises:
            RemoteProtocolError: It is malformed, or says that the kernel lost data.
            LocalProtocolError: The exchange was over already.
        """
        if self._over:
            raise LocalProtocolError(_WHERE, "an exchange was fed after its end")
        self._over = True
        self._over = any(self._take(message) for message in parse_messages(datagram))
        return self._over

    def _take(self, message: Message) -> bool:
        """Take one message, and tell whether it ends the exchange."""
        if message.type == NLMSG_OVERRUN:
            raise RemoteProtocolError(_WHERE, "the kernel reports that it lost data")
        if (message.sequence, message.port) != self._key or message.type == NLMSG_NOOP:
            return False
        self.interrupted = self.interrupted or bool(message.flags & NLM_F_DUMP_INTR)
        if message.type not in {NLMSG_ERROR, NLMSG_DONE}:
            self.answers.append(message)
            return False
        self.refusal = parse_refusal(message)
        return True

    def blame(self) -> str:
        """Give the kernel's words for a refusal, and the attribute that it names; may be empty."""
        if self.refusal is None:
            return ""
        parts = [self.refusal.words] if self.refusal.words else []
        blamed = attribute_at(self.data, self.refusal.offset)
        if blamed is not None:
            parts.append(f"(attribute {blamed})")
        if self.refusal.missing:
            parts.append(f"(attribute {self.refusal.missing} is missing)")
        return " ".join(parts)
