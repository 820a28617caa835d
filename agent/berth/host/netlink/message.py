"""Netlink messages to bytes and back: heads, the kernel's refusals, and the end of a dump.

A `Request` is what we send, a `Message` what comes back; both are plain values.
One datagram holds several messages; `parse_messages` takes it apart and proves each length.
The kernel refuses by an ERROR message, or by a DONE message with a number, and explains itself in
extended acknowledgement attributes when the socket asked for them: `parse_refusal` reads both.

Source: include/uapi/linux/netlink.h; Documentation/userspace-api/netlink/intro.rst.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError
from berth.host.netlink.attributes import Attributes, parse_attributes

NLMSG_NOOP: Final = 1
NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NLMSG_OVERRUN: Final = 4

NLM_F_REQUEST: Final = 0x1
NLM_F_MULTI: Final = 0x2
NLM_F_ACK: Final = 0x4
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_CAPPED: Final = 0x100
NLM_F_ACK_TLVS: Final = 0x200
NLM_F_DUMP: Final = 0x300
NLM_F_EXCL: Final = 0x200
NLM_F_CREATE: Final = 0x400
NLM_F_APPEND: Final = 0x800

HEAD_BYTES: Final = 16
_HEAD: Final = struct.Struct("=IHHII")
_ERRNO: Final = struct.Struct("=i")
_WHERE: Final = "netlink"

_NLMSGERR_ATTR_MSG: Final = 1
_NLMSGERR_ATTR_OFFS: Final = 2
_NLMSGERR_ATTR_MISS_TYPE: Final = 5


@attrs.frozen(kw_only=True)
class Request:
    """A message to the kernel, before a socket gives it its sequence number.

    Attributes:
        type: Message type, such as RTM_NEWLINK.
        flags: NLM_F_* beyond REQUEST and ACK, which every exchange sets.
        body: Fixed head of the family and attributes.
        label: What an error calls it, such as ``RTM_NEWLINK ens1f0``.
    """

    type: int
    flags: int = 0
    body: bytes = b""
    label: str


@attrs.frozen(kw_only=True)
class Message:
    """A message from the kernel, or ours as sent.

    Attributes:
        type: Message type.
        flags: NLM_F_*.
        sequence: Number of the request that it answers; 0 for events.
        port: Port of the socket that asked; 0 for events.
        body: Everything after the head.
    """

    type: int
    flags: int = 0
    sequence: int = 0
    port: int = 0
    body: bytes = b""


@attrs.frozen(kw_only=True)
class Refusal:
    """The kernel's answer to a request: a refusal, or an acknowledgement when errno is 0.

    Attributes:
        errno: The kernel's number, positive; 0 means done.
        words: The kernel's own explanation; empty when it gave none. A warning when errno is 0.
        offset: Byte offset in the request, head included, of the attribute that it objects to;
            0 when it named none.
        missing: Type of an attribute that the kernel misses; 0 when it named none.
    """

    errno: int
    words: str = ""
    offset: int = 0
    missing: int = 0


def encode_message(message: Message) -> bytes:
    """Give the bytes of one message.

    Raises:
        LocalProtocolError: A field does not fit its place.
    """
    length = HEAD_BYTES + len(message.body)
    try:
        head = _HEAD.pack(length, message.type, message.flags, message.sequence, message.port)
    except struct.error as error:
        raise LocalProtocolError(_WHERE, f"message {message.type} cannot be written") from error
    return head + message.body + bytes(-length % 4)


def parse_messages(data: bytes) -> tuple[Message, ...]:
    """Take a datagram apart.

    Raises:
        RemoteProtocolError: A length lies, or bytes are left over.
    """
    messages = []
    offset, end = 0, len(data)
    while offset < end:
        length, kind, flags, sequence, port = _parse_head(data, offset)
        body = bytes(data[offset + HEAD_BYTES : offset + length])
        messages.append(Message(type=kind, flags=flags, sequence=sequence, port=port, body=body))
        offset += (length + 3) & ~3
    return tuple(messages)


def _parse_head(data: bytes, offset: int) -> tuple[int, int, int, int, int]:
    left = len(data) - offset
    if left < HEAD_BYTES:
        raise RemoteProtocolError(_WHERE, f"{left} bytes left over after the last message")
    length, kind, flags, sequence, port = _HEAD.unpack_from(data, offset)
    if not HEAD_BYTES <= length <= left:
        raise RemoteProtocolError(
            _WHERE,
            f"a message of type {kind} claims a length of {length} bytes",
            rule=f"it must be from {HEAD_BYTES} to the {left} that are left",
        )
    return length, kind, flags, sequence, port


def parse_refusal(message: Message) -> Refusal:
    """Read an ERROR message, or the number in a DONE message.

    Raises:
        RemoteProtocolError: It is too short, its number is not one of an error, or its
            attributes are malformed.
    """
    if message.type == NLMSG_DONE and not message.body:
        return Refusal(errno=0)
    if len(message.body) < _ERRNO.size:
        raise RemoteProtocolError(_WHERE, f"an answer of {len(message.body)} bytes without number")
    number = int(_ERRNO.unpack_from(message.body)[0])
    if message.type == NLMSG_ERROR and number > 0:
        raise RemoteProtocolError(_WHERE, f"error number {number}", rule="it must not be positive")
    told = _explanation(message)
    return Refusal(
        errno=max(-number, 0),
        words=told.text(_NLMSGERR_ATTR_MSG),
        offset=told.u32(_NLMSGERR_ATTR_OFFS),
        missing=told.u32(_NLMSGERR_ATTR_MISS_TYPE),
    )


def _explanation(message: Message) -> Attributes:
    """Give the extended acknowledgement: it follows our request, of which the head is repeated.

    An acknowledgement, or a socket that asked for CAPPED, repeats only the head.
    """
    if not message.flags & NLM_F_ACK_TLVS:
        return Attributes()
    start = _ERRNO.size
    if message.type == NLMSG_ERROR:
        start += _echoed(message)
    return parse_attributes(message.body[start:])


def _echoed(message: Message) -> int:
    """Give the bytes that the answer repeats of our request."""
    left = len(message.body) - _ERRNO.size
    if left < HEAD_BYTES:
        raise RemoteProtocolError(_WHERE, f"an answer that repeats {left} bytes of the request")
    if message.flags & NLM_F_CAPPED:
        return HEAD_BYTES
    length = int(_HEAD.unpack_from(message.body, _ERRNO.size)[0])
    if not HEAD_BYTES <= length <= left:
        raise RemoteProtocolError(_WHERE, f"an answer that repeats a request of {length} bytes")
    return (length + 3) & ~3


def attribute_at(request: bytes, offset: int) -> int | None:
    """Give the type of the attribute at an offset of our request, to name it in an error.

    Args:
        request: The request as sent, head included.
        offset: `Refusal.offset`.

    Returns:
        None when no attribute's head fits there.
    """
    if not HEAD_BYTES <= offset <= len(request) - 4:
        return None
    return int(struct.unpack_from("=HH", request, offset)[1]) & 0x3FFF
