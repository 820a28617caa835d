"""The socket by which the operator's command talks to the daemon.

One JSON object per line each way. A request is ``{"id", "verb", …}``; its answer is
``{"id", "ok", …}``, before which any number of ``{"id", "event", …}`` may come. Lines are bounded,
the peer must be root or the daemon's own user, and one connection's fault is that connection's:
whatever a peer sends, or leaves unread, or however a verb ends, the next peer is answered.

It is served outside the plugins, so that it answers while they restart.

Source: the project's own protocol (docs/reference/control.md); ``unix(7)`` for ``SO_PEERCRED``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from berth.errors import BerthError, Faults, HostError, LocalProtocolError, RemoteProtocolError
from berth.model import jsontext
from berth.runtime.backoff import BackOff
from berth.runtime.files import FOLDER_MODE, host_error, make_folder
from berth.runtime.inotify import Inotify
from berth.runtime.listeners import bind_listener, release_path
from berth.runtime.logs import get_log
from berth.runtime.sockets import InodeChanges, SocketId, check_path, watch_inode

FOLDER: Final = Path("/run/berth")
"""Where the daemon has its socket unless told otherwise."""

NAME: Final = "control.sock"

LINE_LIMIT: Final = 1 << 20
"""Longest line of a request, in bytes."""

ANSWER_LIMIT: Final = 16 << 20
"""Longest line of an answer, in bytes: thousands of devices in one."""

CONNECTION_LIMIT: Final = 16
"""Connections at a time; further ones wait in the kernel's backlog."""

LINE_S: Final = 10.0
"""How long a peer may take to send a whole line, or to read one, in seconds."""

ACCEPT_PAUSE_S: Final = 0.5
"""Pause after the kernel refused to accept, usually for want of descriptors, in seconds."""

Event: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
Verb: TypeAlias = Callable[[Mapping[str, Any], Event], Awaitable[Mapping[str, Any]]]

_SHOWN: Final = 60
_PEER: Final = struct.Struct("=iII")
_WHERE: Final = "control"
_log = get_log(__name__)


class ControlServer:
    """Answers the operator's command.

    Args:
        folder: Where the socket is made; only root may enter it.
        verbs: What each verb does: request and a way to tell progress in, answer out.
        inotify: Tells when the socket's file is removed.
    """

    def __init__(self, folder: Path, verbs: Mapping[str, Verb], *, inotify: Inotify) -> None:
        self._path = folder / NAME
        self._inotify = inotify
        self._verbs = dict(verbs)
        self._limiter = trio.CapacityLimiter(CONNECTION_LIMIT)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started when the socket listens.

        A socket whose file was removed is made anew. A cancel ends every connection at once.

        Raises:
            HostError: The socket cannot be made.
        """
        make_folder(self._path.parent, mode=FOLDER_MODE)
        bound, identity = bind_listener(self._path, make_parent=False)
        with watch_inode(self._inotify, self._path) as changes:
            async with trio.open_nursery() as connections:
                task_status.started()
                while True:
                    await self._serve(bound, identity, changes, connections)
                    bound, identity = await self._bind_anew()

    async def _serve(
        self,
        bound: socket.socket,
        identity: SocketId,
        changes: InodeChanges,
        connections: trio.Nursery,
    ) -> None:
        """Let connections in until the socket's file is another one, or gone."""
        try:
            with trio.socket.from_stdlib_socket(bound) as listener:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._accept, listener, connections)
                    while await changes.wait_next() == identity:
                        pass
                    nursery.cancel_scope.cancel()
        finally:
            _release(self._path, identity)

    async def _bind_anew(self) -> tuple[socket.socket, SocketId]:
        back_off = BackOff()
        while True:
            try:
                make_folder(self._path.parent, mode=FOLDER_MODE)
                bound = bind_listener(self._path, make_parent=False)
            except HostError as error:
                back_off, delay_s = back_off.next_delay()
                _log.warning("control socket is lost", reason=error, retry_s=delay_s)
                await trio.sleep(delay_s)
            else:
                _log.warning("control socket was removed, bound anew", path=self._path)
                return bound

    async def _accept(self, listener: trio.socket.SocketType, connections: trio.Nursery) -> None:
        while True:
            token = object()
            await self._limiter.acquire_on_behalf_of(token)
            accepted = None
            try:
                accepted, _ = await listener.accept()
            except OSError as error:
                _log.warning("cannot accept", path=self._path, reason=error, retry_s=ACCEPT_PAUSE_S)
                await trio.sleep(ACCEPT_PAUSE_S)
            finally:
                if accepted is None:
                    self._limiter.release_on_behalf_of(token)
            if accepted is not None:
                connections.start_soon(self._connection, accepted, token)

    async def _connection(self, accepted: trio.socket.SocketType, token: object) -> None:
        try:
            async with trio.SocketStream(accepted) as stream:
                _require_peer(accepted)
                await converse(stream, self._verbs)
        except BerthError as error:
            _log.warning("control connection ended", reason=error)
        finally:
            self._limiter.release_on_behalf_of(token)


async def converse(stream: trio.abc.Stream, verbs: Mapping[str, Verb]) -> None:
    """Answer one peer until it ends the connection, or is silent for too long.

    Raises:
        RemoteProtocolError: It sent what is no request; it was told so.
    """
    peer = _Peer(stream)
    try:
        await _take_requests(stream, peer, verbs)
    except RemoteProtocolError as error:
        fault = error
    except trio.BrokenResourceError:
        return
    else:
        return
    await peer.send({"id": None, **_refusal(fault)})
    raise fault


async def _take_requests(
    stream: trio.abc.ReceiveStream, peer: _Peer, verbs: Mapping[str, Verb]
) -> None:
    lines = _Lines(stream)
    while not peer.gone and (line := await lines.next()) is not None:
        request = _parse(line)
        _require_id(request)
        await peer.send(await _answer(peer, request, verbs))


class _Peer:
    """Who is told answers and events; one who has gone is told nothing more.

    A verb is not cut short by it: what was asked for is done all the same.
    """

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self.gone = False
        self._stream = stream

    async def send(self, value: Mapping[str, Any]) -> None:
        """Send one line, unless the peer does not read it."""
        line = _encode(value)
        if self.gone:
            return
        # Whatever ends this before its time leaves half a line behind.
        self.gone = True
        with trio.move_on_after(LINE_S) as scope, contextlib.suppress(trio.BrokenResourceError):
            await self._stream.send_all(line)
            self.gone = False
        if scope.cancelled_caught:
            _log.warning("control peer left its answer unread", for_s=LINE_S)


async def _answer(
    peer: _Peer, request: Mapping[str, Any], verbs: Mapping[str, Verb]
) -> Mapping[str, Any]:
    number = request.get("id")
    word = request.get("verb")
    verb = verbs.get(word) if isinstance(word, str) else None
    if verb is None:
        known = ", ".join(sorted(verbs))
        found = f"no verb {repr(word)[:_SHOWN]}"
        return {"id": number, **_refusal(BerthError("", found, rule=f"it must be one of {known}"))}

    async def tell(event: Mapping[str, Any]) -> None:
        await peer.send({**event, "id": number})

    try:
        answer = {**await verb(request, tell), "id": number, "ok": True}
        _encode(answer)
    except BerthError as error:
        return {"id": number, **_refusal(error)}
    except Exception as error:  # noqa: BLE001 - a defect of one verb must not end all of control
        _log.exception("control verb has a defect", verb=word)
        mend = "the daemon's journal has the traceback"
        defect = LocalProtocolError(f"verb {word}", f"has a defect: {error!r}", mend=mend)
        return {"id": number, **_refusal(defect)}
    return answer


def _release(path: Path, identity: SocketId) -> None:
    try:
        release_path(path, identity)
    except HostError as error:
        _log.warning("control socket's file stays", path=path, reason=error)


def _refusal(error: BerthError) -> Mapping[str, Any]:
    """The answer that tells an error; one of several faults tells them one by one too."""
    faults = [str(fault) for fault in error.faults] if isinstance(error, Faults) else []
    return {"ok": False, "error": str(error), **({"faults": faults} if faults else {})}


class Ended(RemoteProtocolError):
    """The daemon ended the connection before it answered: it is being stopped, or it died."""


class ControlClient:
    """Asks the daemon; blocks, for the command.

    Args:
        folder: The daemon's runtime folder.
        timeout_s: How long each line of an answer may take.

    Raises:
        HostError: No daemon listens there (errno ENOENT or ECONNREFUSED), or it may not be asked.
    """

    def __init__(self, folder: Path, *, timeout_s: float = 30.0) -> None:
        path = check_path(folder / NAME)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise host_error(error, path, "cannot connect") from error
        self._path = path
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
            Ended: The daemon ended before it answered.
            RemoteProtocolError: What came is no answer.
            HostError: The connection broke, or nothing came in time.
        """
        request = json.dumps({**fields, "id": 1, "verb": verb}).encode() + b"\n"
        try:
            self._socket.sendall(request)
            while "ok" not in (answer := self._next()):
                if told is not None:
                    told(answer)
        except OSError as error:
            raise host_error(error, self._path, "no answer") from error
        return answer

    def _next(self) -> Mapping[str, Any]:
        line = self._file.readline(ANSWER_LIMIT + 1)
        if not line.endswith(b"\n"):
            if len(line) > ANSWER_LIMIT:
                raise RemoteProtocolError(_WHERE, _too_long(ANSWER_LIMIT))
            raise Ended(_WHERE, "the daemon ended the connection")
        return _parse(line)


class _Lines:
    """Lines of a stream, bounded in length and in time."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._searched = 0

    async def next(self) -> bytes | None:
        """The next line; ``None`` at the end of the stream, or when none is begun in time.

        Raises:
            RemoteProtocolError: The line is too long, too slow, or cut off.
        """
        with trio.move_on_after(LINE_S) as scope:
            while (line := self._take()) is None:
                data = await self._stream.receive_some(65536)
                if not data:
                    break
                self._buffer += data
        if line is None and self._buffer:
            found = f"a line that took more than {LINE_S:.0f} s" if scope.cancelled_caught else ""
            raise RemoteProtocolError(_WHERE, found or "a line without its end")
        return line

    def _take(self) -> bytes | None:
        # What was searched before is not searched again: a peer may send byte by byte.
        end = self._buffer.find(b"\n", self._searched)
        self._searched = len(self._buffer) if end < 0 else 0
        if max(end, self._searched) >= LINE_LIMIT:
            raise RemoteProtocolError(_WHERE, _too_long(LINE_LIMIT))
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def _too_long(limit: int) -> str:
    return f"a line of more than {limit} bytes"


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        value = jsontext.loads(line)
    except ValueError as error:
        raise RemoteProtocolError(_WHERE, f"a line that is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise RemoteProtocolError(_WHERE, "a line that is no JSON object")
    return value


def _require_id(request: Mapping[str, Any]) -> None:
    """Refuse an id that nests: what could just be read may be too deep to be written back."""
    if isinstance(request.get("id"), dict | list):
        raise RemoteProtocolError(_WHERE, "an id that nests", rule="it must be a number or a text")


def _encode(value: Mapping[str, Any]) -> bytes:
    line = json.dumps(value, default=str).encode() + b"\n"
    if len(line) > ANSWER_LIMIT:
        raise LocalProtocolError(_WHERE, _too_long(ANSWER_LIMIT), mend="ask for less at a time")
    return line


def _require_peer(accepted: trio.socket.SocketType) -> None:
    raw = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(raw)
    if uid not in (0, os.getuid()):
        raise RemoteProtocolError(_WHERE, f"user {uid} asked", rule="only root may")
