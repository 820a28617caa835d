"""How a client on HTTP/2 is told to connect anew, by whoever only copies its bytes.

A server that stops cuts what reaches it after it began to, and a client that spoke in that moment
hears that its call was cancelled, which is an answer, and is not repeated. Told by a frame of this
kind a client sends further calls by another connection, has those that are under way answered on
this one, and then closes it. So nothing is cut when it is told before the server stops.

The frame may stand wherever another ends; that the server says the same when it stops is allowed.

Source: RFC 9113 §3.4, §4.1, §6.8.
"""

from __future__ import annotations

import struct
from typing import Final

_HEAD: Final = struct.Struct(">BHBBI")
_TYPE: Final = 7
_LAST_STREAM: Final = 2**31 - 1
# "No stream is refused": the number that a server gives while calls may still be on their way.

GOAWAY: Final = _HEAD.pack(0, 8, _TYPE, 0, 0) + struct.pack(">II", _LAST_STREAM, 0)
"""The frame, without error."""


class Frames:
    """Where the frames of one direction end, by the bytes that pass; it begins between two."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def passed(self, data: bytes | bytearray) -> int:
        """Take note of bytes; gives how many of them the last whole frame ends after, 0 if none."""
        at, end = 0, 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            else:
                more = data[at : at + _HEAD.size - len(self._head)]
                self._head += more
                at += len(more)
                if len(self._head) < _HEAD.size:
                    break
                high, low, *_ = _HEAD.unpack(self._head)
                self._head, self._left = b"", (high << 16) + low
            if not self._left:
                end = at
        return end

    @property
    def is_between(self) -> bool:
        """Whether the last byte that passed was the last of a frame."""
        return not self._head and not self._left
