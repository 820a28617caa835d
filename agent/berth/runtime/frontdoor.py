"""Public unix sockets: kept open while plugins come and go, and copied to grpcio's private ones.

grpcio can serve no socket that it is handed, and removes whatever lies at its path when it stops.
So the public socket is ours: inherited from systemd, else bound here. A `FrontDoor` lives as long
as the daemon, and listens from `open` on. `serve` lets connections in while the plugin behind is
ready, two copying tasks for each; meanwhile and otherwise clients wait in the kernel's backlog,
which kubelet takes for a connection (20 s long) and so does not notice a restart. Before the
plugin stops `dismiss` has the clients leave for that backlog, so that no call of theirs is cut.

`keep` watches the file at the path. Nobody is told that a socket file was removed, and kubelet
removes those of device plugins when it starts; the door is then bound anew.

Invariants: a file at the path is removed only when it is a socket of our user on which nobody
listens, or the very one bound here; an inherited socket's file is left to who made it.

Source: kubelet-contracts §1.5, §1.8 (seen on kubelet 1.37.2).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import attrs
import trio
from trio.socket import SocketType

from berth.errors import HostError, LocalProtocolError
from berth.runtime.backoff import BackOff
from berth.runtime.goaway import GOAWAY, Frames
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from berth.runtime.listeners import Occupant, bind_listener, probe_path, release_path
from berth.runtime.logs import get_log
from berth.runtime.sockets import SocketId, connect_unix, find_socket, watch_inode

CONNECTION_LIMIT: Final = 64
"""Connections of one door at a time; further ones wait in the kernel's backlog."""

ACCEPT_PAUSE_S: Final = 0.5
"""Pause after the kernel refused to accept, usually for want of descriptors, in seconds."""

DISMISS_S: Final = 1.0
"""What clients have for leaving, in seconds; those with calls under way leave when they end."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class DoorStatistics:
    """What can be seen of a door from outside.

    Attributes:
        inherited: Whether a socket was handed in.
        accepting: Whether connections are let in now.
        connections: Connections that are copied now.
        accepted: Connections let in so far.
        bound: How often the path was bound here.
    """

    inherited: bool
    accepting: bool
    connections: int
    accepted: int
    bound: int


class FrontDoor:
    """One public socket; made once and open as long as the daemon runs. All of it is used in trio.

    Args:
        path: Where clients look for it.
        inherited: A listening socket handed in that was bound to ``path``; the door owns it.
        make_parent: Whether a missing folder is made.
        connections: Most connections at a time.
    """

    def __init__(
        self,
        *,
        path: Path,
        inherited: socket.socket | None = None,
        make_parent: bool = False,
        connections: int = CONNECTION_LIMIT,
    ) -> None:
        self.path = path
        self.bound: Latest[int] = Latest(0)
        """How often the path was bound here; a change says that the file is a new one."""
        self._inherited = inherited
        self._make_parent = make_parent
        self._slots = trio.Semaphore(connections)
        self._listeners: Latest[tuple[SocketType, ...]] = Latest(())
        self._identity: SocketId | None = None
        self._letting_in: trio.CancelScope | None = None
        self.connections: Latest[int] = Latest(0)
        """Connections that are copied now."""
        self._accepted = 0
        self._relays: set[_Relay] = set()
        self.heard: Latest[bool] = Latest(False)
        """Whether a client has said something: who only looks whether somebody listens does not."""

    def open(self) -> None:
        """Take over the inherited socket, or bind the path; clients can connect from then on.

        When the file of the inherited socket is gone, the path is bound beside it.

        Raises:
            HostError: The path cannot be bound.
        """
        if self._inherited is not None:
            self._listeners.set((trio.socket.from_stdlib_socket(self._inherited),))
            if probe_path(self.path) is Occupant.LISTENING:
                self._identity = find_socket(self.path)
                return
            _log.warning("file of the inherited socket is gone, binding it here", path=self.path)
        self._bind()

    def close(self) -> None:
        """Stop listening, and remove the file if it was bound here and is still the same."""
        if self.bound.get() and self._identity is not None:
            try:
                release_path(self.path, self._identity)
            except HostError as error:
                _log.warning("socket file stays", path=self.path, reason=error)
        self._identity = None
        for listener in self._listeners.get():
            listener.close()
        self._listeners.set(())

    async def keep(self, inotify: Inotify) -> None:
        """Watch the file at the path, and bind it anew whenever it is not ours, until cancelled."""
        with watch_inode(inotify, self.path) as changes:
            async for found in changes:
                if found != self._identity:
                    await self._reclaim()

    async def _reclaim(self) -> None:
        back_off = BackOff()
        while find_socket(self.path) != self._identity:
            back_off, delay_s = back_off.next_delay()
            if not self._bind_anew(retry_s=delay_s):
                await trio.sleep(delay_s)

    def _bind_anew(self, *, retry_s: float) -> bool:
        try:
            self._bind()
        except HostError as error:
            _log.warning("public socket is lost", reason=error, retry_s=retry_s)
            return False
        _log.warning("public socket was removed, bound anew", path=self.path)
        return True

    def _bind(self) -> None:
        listener, self._identity = bind_listener(self.path, make_parent=self._make_parent)
        before = self._listeners.get()
        # One that was handed in may still have clients in its backlog; one of ours has lost them
        # with its file, and they will connect again.
        kept = before[:1] if self._inherited is not None else ()
        self._listeners.set((*kept, trio.socket.from_stdlib_socket(listener)))
        for old in before[len(kept) :]:
            old.close()
        self.bound.set(self.bound.get() + 1)

    async def serve(
        self, backend: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Let connections in and copy them to the private socket ``backend``.

        To be called when the plugin behind is ready. A cancel ends the connections; after
        `stop_accepting` it returns by itself, once the last one has ended.
        """
        if self._letting_in is not None:
            raise LocalProtocolError(f"front door {self.path}", "was served twice at a time")
        self._letting_in = trio.CancelScope()
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                with self._letting_in:
                    await self._let_in(backend, nursery)
        finally:
            self._letting_in = None

    def stop_accepting(self) -> None:
        """Let no further connection in; clients wait in the backlog. For a drain."""
        if self._letting_in is not None:
            self._letting_in.cancel()

    async def dismiss(self) -> None:
        """Let no further connection in and have clients leave, for at most `DISMISS_S`."""
        self.stop_accepting()
        with trio.move_on_after(DISMISS_S):
            async with trio.open_nursery() as nursery:
                for relay in self._relays:
                    nursery.start_soon(relay.dismiss)
            await self.connections.wait_value(lambda count: not count)

    def statistics(self) -> DoorStatistics:
        """Give figures for tests and for the operator."""
        scope = self._letting_in
        return DoorStatistics(
            inherited=self._inherited is not None,
            accepting=scope is not None and not scope.cancel_called,
            connections=self.connections.get(),
            accepted=self._accepted,
            bound=self.bound.get(),
        )

    async def _let_in(self, backend: Path, connections: trio.Nursery) -> None:
        """Accept on every listener there is, and on those that come."""
        known: set[SocketType] = set()
        async with trio.open_nursery() as nursery:
            async for listeners in self._listeners.changes():
                for listener in set(listeners) - known:
                    nursery.start_soon(self._accept, listener, backend, connections)
                known = set(listeners)

    async def _accept(self, listener: SocketType, backend: Path, connections: trio.Nursery) -> None:
        with contextlib.suppress(trio.ClosedResourceError):  # another listener took its place
            while True:
                await self._accept_one(listener, backend, connections)

    async def _accept_one(
        self, listener: SocketType, backend: Path, connections: trio.Nursery
    ) -> None:
        reason = None
        try:
            await connections.start(self._connection, listener, backend)
        except OSError as error:
            reason = error
        if reason is not None:
            _log.warning("cannot accept", path=self.path, reason=reason, retry_s=ACCEPT_PAUSE_S)
            await trio.sleep(ACCEPT_PAUSE_S)

    async def _connection(
        self, listener: SocketType, backend: Path, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Wait for a place and a client; ``started()`` when it is there, then copy to its end."""
        async with self._slots:
            connection, _ = await listener.accept()
            self._accepted += 1
            self.connections.set(self.connections.get() + 1)
            try:
                async with trio.SocketStream(connection) as client:
                    task_status.started()
                    await self._relay(client, backend)
            finally:
                self.connections.set(self.connections.get() - 1)

    async def _relay(self, client: trio.SocketStream, backend: Path) -> None:
        try:
            server = await connect_unix(backend)
        except HostError as error:
            _log.warning("connection is dropped, its plugin does not answer", reason=error)
            return
        relay = _Relay(client, server, heard=self._hear)
        self._relays.add(relay)
        try:
            await relay.run()
        finally:
            self._relays.discard(relay)

    def _hear(self) -> None:
        self.heard.set(True)


class _Relay:
    """One connection: two copying tasks, and the word to its client that it shall leave.

    Args:
        heard: Called when the client has said something.
    """

    def __init__(
        self, client: trio.SocketStream, server: trio.SocketStream, *, heard: Callable[[], None]
    ) -> None:
        self._client = client
        self._server = server
        self._heard = heard
        self._frames = Frames()
        self._spoken = False
        self._leaving = False
        self._sending = trio.Lock()

    async def run(self) -> None:
        """Copy until both sides have ended; an error ends the connection alone."""
        async with self._server, trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, self._in, nursery.cancel_scope)
            nursery.start_soon(self._copy, self._out, nursery.cancel_scope)

    async def dismiss(self) -> None:
        """Tell the client to leave: now, or where the frame ends that is being sent."""
        self._leaving = True
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._sending:
                if self._leaving and self._spoken and self._frames.is_between:
                    self._leaving = False
                    await self._client.send_all(GOAWAY)

    async def _copy(
        self, direction: Callable[[], Awaitable[None]], connection: trio.CancelScope
    ) -> None:
        try:
            await direction()
        except trio.BrokenResourceError:
            connection.cancel()

    async def _in(self) -> None:
        async for data in self._client:
            self._heard()
            await self._server.send_all(data)
        await self._server.send_eof()

    async def _out(self) -> None:
        async for data in self._server:
            async with self._sending:
                end = self._frames.passed(data)
                self._spoken = self._spoken or end > 0
                told = GOAWAY if self._leaving and end else b""
                self._leaving = self._leaving and not told
                await self._client.send_all(data[:end] + told + data[end:] if told else data)
        async with self._sending:
            await self._client.send_eof()
