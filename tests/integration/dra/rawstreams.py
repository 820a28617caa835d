"""A client of gRPC streams that need not behave: frames by hand, on a socket that nobody reads.

Source: RFC 9113 (HTTP/2 frames), RFC 7541 §6.2.2 (literal headers), gRPC over HTTP/2.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from berth.runtime.sockets import connect_unix

_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    head = struct.pack(">I", len(content))[1:] + bytes((kind, flags)) + struct.pack(">I", stream)
    return head + content


def _header(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def opening() -> bytes:
    """Give what a connection begins with."""
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0)


def call(number: int, method: str) -> bytes:
    """Give a call with an empty request; ``number`` counts the calls of a connection from 0."""
    headers = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", method.encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
    block = b"".join(_header(name, value) for name, value in headers)
    stream = 2 * number + 1
    return _frame(_HEADERS, _END_HEADERS, stream, block) + _frame(
        _DATA, _END_STREAM, stream, b"\0" * 5
    )


@asynccontextmanager
async def calling(
    path: Path, method: str, numbers: Iterable[int] = (0,)
) -> AsyncIterator[trio.SocketStream]:
    """Make calls, and read of the answers what the block reads."""
    async with await connect_unix(path) as stream:
        await stream.send_all(opening() + b"".join(call(number, method) for number in numbers))
        yield stream
