"""The socket by which the operator's command talks to the daemon.

One JSON object per line each way. A request is ``{"id", "verb", …}``; its answer is
``{"id", "ok", …}``, before which any number of ``{"id", "event", …}`` may come. Lines are bounded,
the peer must be root or the daemon's own user, and one connection's fault is that connection's.

It is served outside the plugins, so that it answers while they restart.

Source: the project's own protocol; ``unix(7)`` for ``SO_PEERCRED``.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from berth.errors import BerthError, RemoteProtocolError
from berth.runtime.files import host_error
from berth.runtime.listeners import bind_listener, release_path
from berth.runtime.logs import get_log

LINE_LIMIT: Final = 1 << 20
"""Longest line, in bytes."""

CONNECTION_LIMIT: Final = 16
"""Connections at a time; further ones wait."""

IDLE_S: Final = 60.0
"""How long a peer may be silent, in seconds."""

NAME: Final = "control.sock"

Event: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
Verb: TypeAlias = Callable[[Mapping[str, Any], Event], Awaitable[Mapping[str, Any]]]

_PEER: Final = struct.Struct("=iII")
_log = get_log(__name__)


class ControlServer:
    """Answers the operator's command.

    Args:
        folder: Where the socket is made; only root may enter it.
        verbs: What each verb does: request and a way to tell progress in, answer out.
    """

    def __init__(self, folder: Path, verbs: Mapping[str, Verb]) -> None:
        self._path = folder / NAME
        self._verbs = dict(verbs)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started when the socket listens.

        Raises:
            HostError: The socket cannot be made.
        """
        bound, identity = bind_listener(self._path)
        listener = trio.socket.from_stdlib_socket(bound)
        limiter = trio.CapacityLimiter(CONNECTION_LIMIT)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    await limiter.acquire_on_behalf_of(token := object())
                    stream, _ = await listener.accept()
                    nursery.start_soon(self._connection, stream, limiter, token)
        finally:
            listener.close()
            release_path(self._path, identity)

    async def _connection(
        self, accepted: trio.socket.SocketType, limiter: trio.CapacityLimiter, token: object
    ) -> None:
        try:
            async with trio.SocketStream(accepted) as stream:
                _require_peer(accepted)
                await self._converse(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except BerthError as error:
            _log.warning("control connection refused", reason=error)
        finally:
            limiter.release_on_behalf_of(token)

    async def _converse(self, stream: trio.SocketStream) -> None:
        reader = _Lines(stream)
        while (line := await reader.next()) is not None:
            request = _parse(line)
            await self._answer(stream, request)

    async def _answer(self, stream: trio.SocketStream, request: Mapping[str, Any]) -> None:
        number = request.get("id")

        async def tell(event: Mapping[str, Any]) -> None:
            await _send(stream, {"id": number, **event})

        verb = self._verbs.get(str(request.get("verb")))
        if verb is None:
            known = ", ".join(sorted(self._verbs))
            fault = f"no verb {request.get('verb')!r}: it must be one of {known}"
            await _send(stream, {"id": number, "ok": False, "error": fault})
            return
        try:
            answer = await verb(request, tell)
        except BerthError as error:
            await _send(stream, {"id": number, "ok": False, "error": str(error)})
        else:
            await _send(stream, {"id": number, "ok": True, **answer})


class ControlClient:
    """Asks the daemon; blocks, for the command.

    Args:
        folder: The daemon's runtime folder.

    Raises:
        HostError: No daemon listens there (errno ENOENT or ECONNREFUSED).
    """

    def __init__(self, folder: Path, *, timeout_s: float = 30.0) -> None:
        path = folder / NAME
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise host_error(error, path, "cannot connect") from error
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()

    def ask(
        self,
        verb: str,
        *,
        told: Callable[[Mapping[str, Any]], None] | None = None,
        **fields: Any,
    ) -> Mapping[str, Any]:
        """Ask one question and give its answer, which has ``ok``.

        Args:
            told: Called with each event before the answer.

        Raises:
            RemoteProtocolError: What came is no answer.
            HostError: The connection broke, or nothing came in time.
        """
        request = json.dumps({"id": 1, "verb": verb, **fields}).encode() + b"\n"
        try:
            self._socket.sendall(request)
            while True:
                line = self._file.readline(LINE_LIMIT + 1)
                if not line:
                    raise RemoteProtocolError("control", "the daemon ended the connection")
                answer = _parse(line)
                if "ok" in answer:
                    return answer
                if told is not None:
                    told(answer)
        except OSError as error:
            raise host_error(error, Path(NAME), "no answer") from error


class _Lines:
    """Lines of a stream, bounded."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """The next line; ``None`` at the end of the stream or after too long a silence."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_LIMIT:
                raise RemoteProtocolError("control", f"a line of more than {LINE_LIMIT} bytes")
            with trio.move_on_after(IDLE_S) as scope:
                data = await self._stream.receive_some(65536)
            if scope.cancelled_caught or not data:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise RemoteProtocolError("control", f"a line that is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise RemoteProtocolError("control", "a line that is no JSON object")
    return value


async def _send(stream: trio.SocketStream, value: Mapping[str, Any]) -> None:
    await stream.send_all(json.dumps(value, default=str).encode() + b"\n")


def _require_peer(accepted: trio.socket.SocketType) -> None:
    raw = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(raw)
    if uid not in (0, os.getuid()):
        raise RemoteProtocolError("control", f"user {uid} asked", rule="only root may")
