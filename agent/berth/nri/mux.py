"""NRI's multiplexer: two byte streams over one socket.

A frame is a connection id and a length, both four bytes and big-endian, and that much of the
connection's byte stream. Opening a connection sends nothing, nothing closes one, and the frames cut
the stream anywhere. Source: containerd/nri, pkg/net/multiplex/mux.go.

How the *writer* cuts is no matter of taste, though: Go hands out one whole frame per read and fails
when the buffer is smaller, and it looks for each message's header with a buffer of 4096 bytes. So a
message either fits in one frame of 4096 bytes, or its first 4096 bytes are a frame and all the rest
is the second one. More and smaller frames would overflow Go's queue of 256. Each break of this rule
makes the runtime drop the plugin and go on as if it had agreed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

import attrs

from berth.errors import LocalProtocolError, RemoteProtocolError

PLUGIN_CONNECTION = 1
"""Where the plugin serves and the runtime calls."""

RUNTIME_CONNECTION = 2
"""Where the runtime serves and the plugin calls."""

MAX_FRAME_BYTES = 1 << 24
"""The longest payload that any runtime writes in one frame (NRI 0.6.1)."""

FIRST_FRAME_BYTES = 4096
"""The buffer with which Go looks for a message's header."""

_HEADER = struct.Struct(">II")


@attrs.frozen
class Piece:
    """The next bytes of one connection's stream."""

    connection: int
    data: bytes


def frames(connection: int, message: bytes) -> bytes:
    """Gives the frame or the two frames that carry one whole ttrpc message.

    The result must reach the socket in one piece: nothing may come between the two frames on this
    connection.
    """
    parts = (message[:FIRST_FRAME_BYTES], message[FIRST_FRAME_BYTES:])
    return b"".join(_HEADER.pack(connection, len(part)) + part for part in parts if part)


class Demultiplexer:
    """Cuts the socket's bytes into pieces of the connections' streams.

    It holds no more than half a header: payload goes through as it comes.

    Args:
        connections: Ids that are open here; frames for others are read and dropped.
    """

    def __init__(self, connections: Collection[int]) -> None:
        self._open = frozenset(connections)
        self._header = b""
        self._connection = 0
        self._left = 0
        self._broken = False

    @property
    def inside_frame(self) -> bool:
        """Whether the bytes so far end within a frame."""
        return bool(self._header or self._left)

    def receive(self, data: bytes) -> list[Piece]:
        """Gives what the open connections got by ``data``, in order, without empty pieces.

        Raises:
            RemoteProtocolError: A frame is longer than any runtime writes; the stream is lost.
            LocalProtocolError: It is called again after that.
        """
        if self._broken:
            raise LocalProtocolError("NRI multiplexer", "used after its stream broke")
        pieces: list[Piece] = []
        rest = memoryview(data)
        while rest:
            rest = self._take_payload(rest, pieces) if self._left else self._take_header(rest)
        return pieces

    def _take_payload(self, rest: memoryview, pieces: list[Piece]) -> memoryview:
        part = rest[: self._left]
        self._left -= len(part)
        if self._connection in self._open:
            pieces.append(Piece(self._connection, bytes(part)))
        return rest[len(part) :]

    def _take_header(self, rest: memoryview) -> memoryview:
        missing = _HEADER.size - len(self._header)
        self._header += bytes(rest[:missing])
        if len(self._header) == _HEADER.size:
            self._connection, self._left = _HEADER.unpack(self._header)
            self._header = b""
            self._check_length()
        return rest[missing:]

    def _check_length(self) -> None:
        if self._left > MAX_FRAME_BYTES:
            self._broken = True
            raise RemoteProtocolError(
                "NRI multiplexer",
                f"a frame of {self._left} bytes for connection {self._connection}",
                rule=f"no runtime writes more than {MAX_FRAME_BYTES}",
            )
