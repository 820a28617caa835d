"""HTTP/1.1 on a trio stream, by h11: requests in, answers and streams out.

One connection is served by one task, request after request. The pump decides nothing; it can also
do to a client what broken servers do, for tests: fall silent, cut, reset.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import attrs
import h11
import trio

BODY_LIMIT: Final = 3 * 1024 * 1024
"""Largest body of a request, in bytes, as at the real server."""

_READ_SIZE: Final = 65536


@attrs.frozen(kw_only=True)
class WebRequest:
    """One request, with its whole body."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Exchange:
    """One request and the means to answer it.

    Args:
        request: The request.
        connection: The protocol's state.
        stream: Where it goes to.
    """

    def __init__(
        self, request: WebRequest, connection: h11.Connection, stream: trio.abc.Stream
    ) -> None:
        self.request = request
        self._connection = connection
        self._stream = stream

    async def answer(self, status: int, body: Mapping[str, Any] | str) -> None:
        """Send a whole answer: JSON, or plain text."""
        text = isinstance(body, str)
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/plain" if text else "application/json"
        headers = [("Content-Type", kind), ("Content-Length", str(len(data)))]
        await self._send(h11.Response(status_code=status, headers=headers))
        await self._send(h11.Data(data=data))
        await self._send(h11.EndOfMessage())

    async def begin(self) -> None:
        """Send the head of a stream."""
        headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        await self._send(h11.Response(status_code=200, headers=headers))

    async def write(self, data: bytes) -> None:
        """Send a piece of a stream."""
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        """End a stream in order."""
        await self._send(h11.EndOfMessage())

    def reset(self) -> None:
        """Let the connection end by RST instead of FIN."""
        if isinstance(self._stream, trio.SocketStream):
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _send(self, event: Any) -> None:
        data = self._connection.send(event)
        if data:
            await self._stream.send_all(data)


Handler: TypeAlias = "Callable[[Exchange], Awaitable[None]]"
"""Answers one exchange; the connection ends if it returns before the answer is complete."""


async def serve_connection(stream: trio.abc.Stream, handler: Handler) -> None:
    """Serve one connection until either side ends it."""
    connection = h11.Connection(h11.SERVER)
    async with stream:
        try:
            while await _serve_request(stream, connection, handler):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, h11.ProtocolError):
            # The client is gone or speaks no HTTP: nobody is left to be told.
            return


async def _serve_request(
    stream: trio.abc.Stream, connection: h11.Connection, handler: Handler
) -> bool:
    """Serve the next request; gives whether there may be another."""
    head = await _next_event(stream, connection)
    if not isinstance(head, h11.Request):
        return False
    body = bytearray()
    while isinstance(event := await _next_event(stream, connection), h11.Data):
        body += event.data
        if len(body) > BODY_LIMIT:
            return False
    await handler(Exchange(_request(head, bytes(body)), connection, stream))
    return connection.our_state is h11.DONE and connection.their_state is h11.DONE


async def _next_event(stream: trio.abc.Stream, connection: h11.Connection) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(_READ_SIZE)))
    return event


def _request(head: h11.Request, body: bytes) -> WebRequest:
    target = urlsplit(head.target.decode("ascii", "replace"))
    return WebRequest(
        method=head.method.decode("ascii"),
        path=target.path,
        params=dict(parse_qsl(target.query, keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        body=body,
    )
