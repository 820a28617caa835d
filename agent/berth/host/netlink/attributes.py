"""The type-length-value attributes that netlink messages are made of, to bytes and back.

Decoding keeps every attribute, known or not, in its order and with its flag bits, so that what
came can be written again; readers pick what they know. Nothing here recurses: a nest is decoded
when somebody asks for it, one level at a time, to a depth of at most `MAX_DEPTH`.

Invariants: each turn of the parse loop consumes at least four bytes; a length that does not fit
what is there is the peer's fault (`RemoteProtocolError`), a value that does not fit its attribute
is ours (`LocalProtocolError`).

Source: include/uapi/linux/netlink.h, struct nlattr.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from berth.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_DEPTH: Final = 8
"""Nests inside nests that are still read; the kernel's own tables use five."""
MAX_ATTRIBUTES: Final = 65535
"""Attributes in one message or nest that are still read."""
MAX_PAYLOAD: Final = 65531
"""Bytes that one attribute can carry: its length field has 16 bits and counts its own head."""

_NESTED: Final = 0x8000
_TYPE_MASK: Final = 0x3FFF
_HEAD: Final = struct.Struct("=HH")
_WHERE: Final = "netlink"

_U8: Final = struct.Struct("=B")
_U16: Final = struct.Struct("=H")
_U16_BIG: Final = struct.Struct(">H")
_U32: Final = struct.Struct("=I")
_S32: Final = struct.Struct("=i")
_U64: Final = struct.Struct("=Q")


def encode_text(value: str) -> bytes:
    """Give a name as the kernel stores it; bytes that are no UTF-8 come back as they went."""
    return value.encode("utf-8", "surrogateescape")


def decode_text(data: bytes) -> str:
    """Give a kernel string, up to its first NUL; bytes that are no UTF-8 stay recoverable.

    The escape is the one that Python uses for file names, so a link's name fits into a path.
    """
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


class Attributes:
    """The attributes of one message or one nest, in the order in which they came.

    Args:
        items: Pairs of raw type (flag bits included) and payload.
        depth: How many nests lie around these.
    """

    __slots__ = ("_depth", "_last", "items")

    def __init__(self, items: Iterable[tuple[int, bytes]] = (), depth: int = 0) -> None:
        self.items = tuple(items)
        self._depth = depth
        self._last = {kind & _TYPE_MASK: payload for kind, payload in self.items}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)

    def __contains__(self, kind: int) -> bool:
        return kind in self._last

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Give pairs of type (without flag bits) and payload."""
        return ((kind & _TYPE_MASK, payload) for kind, payload in self.items)

    def __repr__(self) -> str:
        return f"Attributes({self.items!r})"

    def raw(self, kind: int) -> bytes:
        """Give an attribute's payload, empty when it is absent; the last of several counts."""
        return self._last.get(kind, b"")

    def each(self, kind: int) -> tuple[bytes, ...]:
        """Give the payloads of all attributes of one type."""
        return tuple(payload for found, payload in self if found == kind)

    def nest(self, kind: int) -> Attributes:
        """Give the attributes inside one of them; none when it is absent.

        Raises:
            RemoteProtocolError: They are malformed or too deep.
        """
        return parse_attributes(self.raw(kind), depth=self._depth + 1)

    def nests(self, kind: int) -> tuple[Attributes, ...]:
        """Give the attributes inside each of those of one type."""
        return tuple(parse_attributes(data, depth=self._depth + 1) for data in self.each(kind))

    def inner(self, payload: bytes) -> Attributes:
        """Give the attributes inside a payload that was found by iterating."""
        return parse_attributes(payload, depth=self._depth + 1)

    def text(self, kind: int) -> str:
        """Give a string, empty when absent."""
        return decode_text(self.raw(kind))

    def u8(self, kind: int, default: int = 0) -> int:
        """Give an 8-bit number."""
        return self._number(_U8, kind, default)

    def u16(self, kind: int, default: int = 0) -> int:
        """Give a 16-bit number in native byte order."""
        return self._number(_U16, kind, default)

    def u16_big(self, kind: int, default: int = 0) -> int:
        """Give a 16-bit number in network byte order: a port or an EtherType."""
        return self._number(_U16_BIG, kind, default)

    def u32(self, kind: int, default: int = 0) -> int:
        """Give a 32-bit number."""
        return self._number(_U32, kind, default)

    def s32(self, kind: int, default: int = 0) -> int:
        """Give a signed 32-bit number."""
        return self._number(_S32, kind, default)

    def u64(self, kind: int, default: int = 0) -> int:
        """Give a 64-bit number."""
        return self._number(_U64, kind, default)

    def _number(self, form: struct.Struct, kind: int, default: int) -> int:
        payload = self._last.get(kind)
        if payload is None:
            return default
        if len(payload) != form.size:
            raise RemoteProtocolError(
                _WHERE,
                f"attribute {kind} carries {len(payload)} bytes",
                rule=f"a number of {form.size} bytes belongs there",
            )
        return int(form.unpack(payload)[0])


def parse_attributes(data: bytes, *, depth: int = 0) -> Attributes:
    """Decode a run of attributes.

    Args:
        data: The bytes after a message's fixed head, or a nest's payload.
        depth: How many nests lie around them.

    Raises:
        RemoteProtocolError: A length lies, bytes are left over, there are too many attributes,
            or the nest is too deep.
    """
    if depth >= MAX_DEPTH:
        raise RemoteProtocolError(
            _WHERE, f"attributes nested {depth} deep", rule=f"at most {MAX_DEPTH - 1} are read"
        )
    items: list[tuple[int, bytes]] = []
    offset, end = 0, len(data)
    while offset < end:
        length, kind = _head(data, offset)
        items.append((kind, bytes(data[offset + 4 : offset + length])))
        offset += (length + 3) & ~3
        if len(items) > MAX_ATTRIBUTES:
            raise RemoteProtocolError(_WHERE, f"more than {MAX_ATTRIBUTES} attributes in a row")
    return Attributes(items, depth)


def _head(data: bytes, offset: int) -> tuple[int, int]:
    """Give length and raw type of the attribute at an offset, the length proven to fit."""
    left = len(data) - offset
    if left < _HEAD.size:
        raise RemoteProtocolError(_WHERE, f"{left} bytes left over after the last attribute")
    length, kind = _HEAD.unpack_from(data, offset)
    if not _HEAD.size <= length <= left:
        raise RemoteProtocolError(
            _WHERE,
            f"attribute {kind & _TYPE_MASK} claims a length of {length} bytes",
            rule=f"it must be from {_HEAD.size} to the {left} that are left",
        )
    return length, kind


def pack_attributes(attributes: Attributes) -> bytes:
    """Give the bytes of decoded attributes again, unknown ones included."""
    return b"".join(attribute(kind, payload) for kind, payload in attributes.items)


def attribute(kind: int, payload: bytes) -> bytes:
    """Give one attribute, padded to a multiple of four bytes.

    Raises:
        LocalProtocolError: The payload is longer than an attribute can carry.
    """
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(
            _WHERE, f"{len(payload)} bytes for attribute {kind}", rule=f"at most {MAX_PAYLOAD} fit"
        )
    return _HEAD.pack(len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)


def nest(kind: int, *parts: bytes) -> bytes:
    """Give an attribute whose payload is attributes."""
    return attribute(kind | _NESTED, b"".join(parts))


def flag(kind: int) -> bytes:
    """Give an attribute whose presence is its meaning."""
    return attribute(kind, b"")


def text(kind: int, value: str) -> bytes:
    """Give a string with its closing NUL.

    Raises:
        LocalProtocolError: The string holds a NUL itself, so it would arrive shortened.
    """
    data = encode_text(value)
    if b"\0" in data:
        raise LocalProtocolError(_WHERE, f"a NUL inside {value!r} for attribute {kind}")
    return attribute(kind, data + b"\0")


def u8(kind: int, value: int) -> bytes:
    """Give an 8-bit number."""
    return _number(_U8, kind, value)


def u16(kind: int, value: int) -> bytes:
    """Give a 16-bit number in native byte order."""
    return _number(_U16, kind, value)


def u16_big(kind: int, value: int) -> bytes:
    """Give a 16-bit number in network byte order."""
    return _number(_U16_BIG, kind, value)


def u32(kind: int, value: int) -> bytes:
    """Give a 32-bit number."""
    return _number(_U32, kind, value)


def s32(kind: int, value: int) -> bytes:
    """Give a signed 32-bit number."""
    return _number(_S32, kind, value)


def _number(form: struct.Struct, kind: int, value: int) -> bytes:
    try:
        return attribute(kind, form.pack(value))
    except struct.error as error:
        raise LocalProtocolError(
            _WHERE, f"{value} for attribute {kind}", rule=f"it must fit {form.size} bytes"
        ) from error
