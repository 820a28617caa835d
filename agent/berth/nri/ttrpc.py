"""ttrpc over one byte stream: the server's and the client's half, for unary calls.

A frame is ten bytes of header (data length, stream id, type, flags) and a protobuf envelope. Stream
ids are the client's, odd and rising; an answer bears the id of its request. There is no handshake,
no cancelling and no flow control. Source: containerd/ttrpc, PROTOCOL.md and channel.go.

Both halves are fed bytes and give calls or answers; what they have to say is fetched with
``messages_to_send``. A fault of the peer in one frame is answered as Go's server answers it, and
the stream goes on behind it.

Left out: streaming calls, which NRI has none of (their frames are answered or skipped).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

import attrs
from google.protobuf.message import DecodeError

from berth.errors import LocalProtocolError
from berth.pb import rpcstatus_pb2, ttrpc_pb2

MAX_DATA_BYTES = 4 << 20
"""What may be sent in one frame; Go's reader answers or drops what is longer."""

MAX_INBOUND_BYTES = 16 << 20
"""What is taken in one frame: ttrpc 1.2.5 (containerd 1.7) does not keep to its own limit."""

MAX_OPEN_CALLS = 256
"""Calls that may wait for our answer; a runtime has a handful at most."""

MAX_TEXT_CHARACTERS = 16384
"""Where an error text is cut, so that a refusal always fits."""

_REQUEST, _RESPONSE, _DATA = 1, 2, 3
_HEADER = struct.Struct(">IIBB")
_MAX_STREAM = (1 << 32) - 1


class Code(IntEnum):
    """gRPC's status codes, as far as they are sent or told apart here."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


@attrs.frozen(kw_only=True)
class Call:
    """The peer calls us; each gets one `Server.reply` or `Server.refuse`.

    Attributes:
        timeout_s: What was left of the caller's patience when it sent this; ``None`` for no limit.
    """

    stream: int
    service: str
    method: str
    payload: bytes = b""
    timeout_s: float | None = None


@attrs.frozen(kw_only=True)
class Reply:
    """A call of ours succeeded."""

    stream: int
    payload: bytes = b""


@attrs.frozen(kw_only=True)
class Refusal:
    """A call of ours was answered by an error.

    Attributes:
        code: gRPC's status code, as it came.
    """

    stream: int
    code: int
    message: str = ""


@attrs.frozen
class _Frame:
    """One frame; ``data`` is ``None`` where it was too long to keep."""

    stream: int
    kind: int
    length: int
    data: bytes | None


class _FrameReader:
    """Cuts a byte stream into frames; drops the data of those that are too long as it comes."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._buffer = bytearray()
        self._skip = 0

    @property
    def inside_frame(self) -> bool:
        return bool(self._buffer or self._skip)

    def receive(self, data: bytes) -> Iterator[_Frame]:
        self._buffer += data
        while True:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            if self._skip or len(self._buffer) < _HEADER.size:
                return
            length, stream, kind, _ = _HEADER.unpack_from(self._buffer)
            if length > self._max:
                self._skip = _HEADER.size + length
                yield _Frame(stream, kind, length, None)
                continue
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            data = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield _Frame(stream, kind, length, data)


class _Half:
    """What server and client share: frames in, frames out."""

    def __init__(self, *, max_out_bytes: int, max_in_bytes: int) -> None:
        self._max_out = max_out_bytes
        self._max_in = max_in_bytes
        self._reader = _FrameReader(max_in_bytes)
        self._out: list[bytes] = []

    @property
    def inside_frame(self) -> bool:
        """Whether the bytes so far end within a frame."""
        return self._reader.inside_frame

    def messages_to_send(self) -> list[bytes]:
        """Gives the frames due, each whole, and forgets them."""
        out, self._out = self._out, []
        return out

    def _send(self, stream: int, kind: int, data: bytes) -> None:
        if len(data) > self._max_out:
            raise LocalProtocolError(
                "ttrpc", f"a message of {len(data)} bytes", rule=f"at most {self._max_out}"
            )
        self._out.append(_HEADER.pack(len(data), stream, kind, 0) + data)


class Server(_Half):
    """The half that is called.

    Args:
        max_in_bytes: Frames above this are answered by an error, their data is dropped.
    """

    def __init__(
        self, *, max_out_bytes: int = MAX_DATA_BYTES, max_in_bytes: int = MAX_INBOUND_BYTES
    ) -> None:
        super().__init__(max_out_bytes=max_out_bytes, max_in_bytes=max_in_bytes)
        self._last = 0
        self._open: set[int] = set()

    def receive(self, data: bytes) -> list[Call]:
        """Gives the calls that ``data`` completes; answers by itself what is none."""
        calls = (self._take(frame) for frame in self._reader.receive(data))
        return [call for call in calls if call is not None]

    def reply(self, stream: int, payload: bytes) -> None:
        """Answers a call with its result.

        Raises:
            LocalProtocolError: No such call is open, or the result is too long; in the latter
                case the call stays open and can be refused.
        """
        self._check_open(stream)
        envelope = ttrpc_pb2.Response(payload=payload)
        self._send(stream, _RESPONSE, envelope.SerializeToString())
        self._open.remove(stream)

    def refuse(self, stream: int, code: Code, message: str) -> None:
        """Answers a call by an error.

        Raises:
            LocalProtocolError: No such call is open.
        """
        self._check_open(stream)
        self._send_status(stream, code, message)
        self._open.remove(stream)

    def _check_open(self, stream: int) -> None:
        if stream not in self._open:
            raise LocalProtocolError("ttrpc", f"an answer to call {stream}, which is not open")

    def _take(self, frame: _Frame) -> Call | None:
        code, fault = self._fault(frame)
        if fault:
            self._send_status(frame.stream, code, fault)
            return None
        if frame.kind != _REQUEST or frame.data is None:
            return None
        self._last = frame.stream
        return self._open_call(frame.stream, frame.data)

    def _fault(self, frame: _Frame) -> tuple[Code, str]:
        """What Go's server objects to in such a frame (codes and order as in its server.go)."""
        if frame.data is None:
            return Code.RESOURCE_EXHAUSTED, (
                f"message length {frame.length} exceed maximum message size of {self._max_in}"
            )
        if frame.stream % 2 != 1:
            return Code.INVALID_ARGUMENT, "StreamID must be odd for client initiated streams"
        if frame.kind == _DATA:
            return Code.INVALID_ARGUMENT, "StreamID is no longer active"
        if frame.kind == _REQUEST and frame.stream <= self._last:
            return Code.INVALID_ARGUMENT, "StreamID was used before and must increment"
        return Code.OK, ""

    def _open_call(self, stream: int, data: bytes) -> Call | None:
        try:
            request = ttrpc_pb2.Request.FromString(data)
        except DecodeError as error:
            self._send_status(stream, Code.INVALID_ARGUMENT, f"unmarshal request error: {error}")
            return None
        if len(self._open) >= MAX_OPEN_CALLS:
            self._send_status(stream, Code.RESOURCE_EXHAUSTED, "too many calls wait for an answer")
            return None
        self._open.add(stream)
        return Call(
            stream=stream,
            service=request.service,
            method=request.method,
            payload=request.payload,
            timeout_s=request.timeout_nano / 1e9 if request.timeout_nano > 0 else None,
        )

    def _send_status(self, stream: int, code: Code, message: str) -> None:
        text = message[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()
        status = rpcstatus_pb2.Status(code=code, message=text)
        self._send(stream, _RESPONSE, ttrpc_pb2.Response(status=status).SerializeToString())


class Client(_Half):
    """The half that calls.

    Args:
        max_out_bytes: Requests above this are not sent.
    """

    def __init__(
        self, *, max_out_bytes: int = MAX_DATA_BYTES, max_in_bytes: int = MAX_INBOUND_BYTES
    ) -> None:
        super().__init__(max_out_bytes=max_out_bytes, max_in_bytes=max_in_bytes)
        self._next = 1
        self._waiting: set[int] = set()

    def call(
        self, service: str, method: str, payload: bytes, *, timeout_s: float | None = None
    ) -> int:
        """Calls the peer.

        Args:
            service: The service's full protobuf name.
            method: The method's bare name.
            payload: The serialized request.
            timeout_s: Told to the peer; nothing here watches it.

        Returns:
            The stream id, which the answer will bear.

        Raises:
            LocalProtocolError: The request is too long, or all ids are used up.
        """
        if self._next > _MAX_STREAM:
            raise LocalProtocolError("ttrpc", "no stream ids are left on this connection")
        request = ttrpc_pb2.Request(
            service=service,
            method=method,
            payload=payload,
            timeout_nano=round(timeout_s * 1e9) if timeout_s else 0,
        )
        stream = self._next
        self._send(stream, _REQUEST, request.SerializeToString())
        self._next += 2
        self._waiting.add(stream)
        return stream

    def receive(self, data: bytes) -> list[Reply | Refusal]:
        """Gives the answers that ``data`` completes; drops those that nobody waits for."""
        return [
            self._answer(frame)
            for frame in self._reader.receive(data)
            if frame.kind == _RESPONSE and self._is_awaited(frame.stream)
        ]

    def _is_awaited(self, stream: int) -> bool:
        awaited = stream in self._waiting
        self._waiting.discard(stream)
        return awaited

    def _answer(self, frame: _Frame) -> Reply | Refusal:
        if frame.data is None:
            text = f"an answer of {frame.length} bytes, above the limit of {self._max_in}"
            return Refusal(stream=frame.stream, code=Code.RESOURCE_EXHAUSTED, message=text)
        try:
            response = ttrpc_pb2.Response.FromString(frame.data)
        except DecodeError as error:
            text = f"the answer cannot be read: {error}"
            return Refusal(stream=frame.stream, code=Code.INTERNAL, message=text)
        if response.status.code != Code.OK:
            status = response.status
            return Refusal(stream=frame.stream, code=status.code, message=status.message)
        return Reply(stream=frame.stream, payload=response.payload)
