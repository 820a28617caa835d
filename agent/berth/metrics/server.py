"""Serves figures by HTTP: one request per connection, ``GET /metrics``.

Whoever can reach the port may be anybody, so each connection has little room, little time and one
answer, and of connections there are few at a time. What goes wrong with one is that client's alone;
nothing is told of it to the journal, which strangers must not be able to fill.

Source: RFC 9112 through h11; Prometheus' exposition format for the answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs
import h11
import trio

from berth.config.listen import Listen
from berth.errors import HostError
from berth.metrics.page import CONTENT_TYPE
from berth.runtime.logs import get_log

CONNECTION_LIMIT: Final = 8
"""Connections at a time; further ones wait in the kernel's backlog."""

BACKLOG: Final = 16

CONNECTION_S: Final = 10.0
"""How long one may take in all, in seconds."""

HEAD_LIMIT: Final = 8192
"""Largest head of a request, in bytes."""

ACCEPT_PAUSE_S: Final = 0.5
"""Pause after the kernel refused to accept, usually for want of descriptors, in seconds."""

_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
# A machine without IPv6 says so by these.

METRICS: Final = "/metrics"

_PLAIN: Final = "text/plain; charset=utf-8"
_HINT: Final = f"The figures of berthd are at {METRICS}.\n".encode()
_log = get_log(__name__)

Text: TypeAlias = Callable[[], bytes]
"""Gives the page of now."""


@attrs.frozen(kw_only=True)
class Answer:
    """What a client is sent."""

    status: int
    body: bytes
    content_type: str = _PLAIN
    headers: tuple[tuple[str, str], ...] = ()


class MetricsServer:
    """Serves one page.

    Args:
        listen: Where.
        text: Gives the page.
    """

    def __init__(self, listen: Listen, text: Text) -> None:
        self._listen = listen
        self._text = text
        self._limiter = trio.CapacityLimiter(CONNECTION_LIMIT)
        self.addresses: tuple[tuple[str, int], ...] = ()
        """What is listened on, once it is."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started when it listens.

        Raises:
            HostError: The address cannot be listened on.
        """
        async with contextlib.AsyncExitStack() as stack:
            listeners = await self._bind(stack)
            self.addresses = tuple(each.socket.getsockname()[:2] for each in listeners)
            _log.info("figures are served", at=self._listen)
            async with trio.open_nursery() as nursery:
                task_status.started()
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, nursery)

    async def _bind(self, stack: contextlib.AsyncExitStack) -> tuple[trio.SocketListener, ...]:
        """Listen on what there is of the addresses; on one at least."""
        found: list[trio.SocketListener] = []
        faults: list[HostError] = []
        for address in self._listen.addresses:
            try:
                listeners = await trio.open_tcp_listeners(
                    self._listen.port, host=address, backlog=BACKLOG
                )
            except OSError as error:
                faults.append(self._refused(address, error))
                continue
            for listener in listeners:
                await stack.enter_async_context(listener)
            found += listeners
        if not found:
            raise faults[0]
        for fault in faults:
            if fault.errno not in _NO_SUCH_ADDRESS:
                _log.warning("figures are served by one address alone", reason=fault)
        return tuple(found)

    def _refused(self, address: str, error: OSError) -> HostError:
        number = error.errno or 0
        return HostError(
            f"[metrics] listen {self._listen}",
            f"cannot listen on {address}: {os.strerror(number) if number else error}",
            mend="does another program have the port, and does this machine have the address?",
            errno=number,
        )

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        while True:
            token = object()
            await self._limiter.acquire_on_behalf_of(token)
            stream: trio.SocketStream | None = None
            try:
                stream = await listener.accept()
            except OSError as error:
                _log.warning("cannot accept", at=self._listen, reason=error, retry_s=ACCEPT_PAUSE_S)
                await trio.sleep(ACCEPT_PAUSE_S)
            finally:
                if stream is None:
                    self._limiter.release_on_behalf_of(token)
            if stream is not None:
                nursery.start_soon(self._connection, stream, token)

    async def _connection(self, stream: trio.SocketStream, token: object) -> None:
        try:
            await serve(stream, self._text)
        finally:
            self._limiter.release_on_behalf_of(token)


async def serve(stream: trio.abc.Stream, text: Text) -> None:
    """Answer the one request of a connection, and end it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    with (
        trio.move_on_after(CONNECTION_S),
        contextlib.suppress(trio.BrokenResourceError, h11.LocalProtocolError),
    ):
        async with stream:
            answer = await _answer(stream, connection, text)
            if answer is not None:
                await stream.send_all(b"".join(_encoded(connection, answer)))


async def _answer(
    stream: trio.abc.ReceiveStream, connection: h11.Connection, text: Text
) -> Answer | None:
    """What the client's request is answered by; ``None`` where there is none."""
    try:
        request = await _next_event(stream, connection)
    except h11.RemoteProtocolError as error:
        return Answer(status=error.error_status_hint, body=b"This is no request.\n")
    if not isinstance(request, h11.Request):
        return None
    if request.method != b"GET":
        # An answer to HEAD has no body, whatever it says.
        body = b"" if request.method == b"HEAD" else b"Only GET is served.\n"
        return Answer(status=405, body=body, headers=(("Allow", "GET"),))
    path = request.target.partition(b"?")[0].decode("ascii", "replace")
    if path == METRICS:
        return Answer(status=200, body=text(), content_type=CONTENT_TYPE)
    return Answer(status=200 if path == "/" else 404, body=_HINT)


async def _next_event(stream: trio.abc.ReceiveStream, connection: h11.Connection) -> Any:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(HEAD_LIMIT)))
    return event


def _encoded(connection: h11.Connection, answer: Answer) -> Iterable[bytes]:
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
        *answer.headers,
    ]
    events = (
        h11.Response(status_code=answer.status, headers=headers),
        h11.Data(data=answer.body),
        h11.EndOfMessage(),
    )
    return [connection.send(event) or b"" for event in events]
