"""The NRI plugin: connects, runs a session, and connects again as soon as the runtime is back.

While it is away the runtime starts pods without asking (NRI lets everything through that no plugin
objects to), so the way back is short: the kernel tells when the socket's file is made, a file on
which nobody listens is tried every 50 ms, and a session that had been working is followed by the
next at once. Whoever prepares devices has to know whether the plugin is in place: `PluginState`
says so.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from berth.errors import BerthError, HostError
from berth.nri.connection import Connection
from berth.nri.handlers import Hooks
from berth.nri.messages import Registration
from berth.nri.session import NRI_VERSION, Session, Stage
from berth.nri.versions import Runtime
from berth.runtime.inotify import Inotify
from berth.runtime.logs import get_log
from berth.runtime.sockets import connect_unix, wait_socket

TRY_EVERY_S = 0.05
"""Between two tries while there is a socket and nobody listens on it."""

LOOK_EVERY_S = 5.0
"""Between two tries while there is no socket, should its coming not be told: behind a link, say."""

LONGEST_PAUSE_S = 5.0
"""Between two sessions, when one after another fails."""

STEADY_S = 1.0
"""A session that was synchronized for so long counts as no failure when it ends."""

_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class PluginState:
    """Whether pods are seen by us before they start.

    Attributes:
        synchronized: Events come; every pod started from now on is told.
        runtime: Who is on the other side, or was last; ``None`` before the first session.
        reason: Why the plugin is not in place; empty when it is.
    """

    synchronized: bool
    runtime: Runtime | None = None
    reason: str = ""


CONNECTING = PluginState(synchronized=False, reason="not connected yet")
"""Before anything is known: nothing has failed yet."""


def pause_s(failures: int) -> float:
    """Gives the wait before the next session: none after the first failure, then doubling."""
    doublings = min(failures - 2, 10)
    return min(0.1 * 2.0**doublings, LONGEST_PAUSE_S) if failures > 1 else 0.0


class Plugin:
    """The plugin over all its connections.

    Args:
        socket: The runtime's NRI socket.
        inotify: Tells when it is made.
        name: The plugin's name: letters, digits, ``_ . + -``.
        index: Two digits; plugins are asked in this order.
        timeout_s: The operator's limit for an answer to an event.
        hooks: What each event does.
        tell: Called with each new state, never with the same twice; must not block or raise
            (`Latest.set` is one).
    """

    def __init__(
        self,
        *,
        socket: Path,
        inotify: Inotify,
        name: str,
        index: str,
        timeout_s: float,
        hooks: Hooks,
        tell: Callable[[PluginState], object],
    ) -> None:
        self._socket = socket
        self._inotify = inotify
        self._registration = Registration(name=name, index=index, nri_version=NRI_VERSION)
        self._timeout_s = timeout_s
        self._hooks = hooks
        self._tell = tell
        self._state: PluginState | None = None
        self._failures = 0
        self._old_events_only = False
        self._missed = False
        self._synchronized_at: float | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until it is cancelled; started as soon as it waits for the runtime.

        A cancel closes the connection after the hooks that run have been answered for.
        """
        self._set_state(CONNECTING)
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                stream = await self._connect()
                await self._run_session(stream, nursery)
                await trio.sleep(pause_s(self._failures))

    async def _connect(self) -> trio.abc.Stream:
        while True:
            try:
                return await connect_unix(self._socket)
            except HostError as error:
                self._miss(f"{error}; the runtime is down, or has NRI switched off")
                missing = error.errno == errno.ENOENT
            if missing:
                with trio.move_on_after(LOOK_EVERY_S):
                    await wait_socket(self._inotify, self._socket)
            else:
                await trio.sleep(TRY_EVERY_S)

    async def _run_session(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        session = Session(self._registration, old_events_only=self._old_events_only)
        self._synchronized_at = None
        connection = Connection(
            stream,
            session=session,
            hooks=self._hooks,
            timeout_s=self._timeout_s,
            nursery=nursery,
            on_synchronized=self._synchronized,
        )
        reason = "the runtime closed the connection"
        try:
            await connection.run()
        except BerthError as error:
            reason = str(error)
        self._ended(session.reached, reason)

    def _synchronized(self, runtime: Runtime) -> None:
        self._synchronized_at = trio.current_time()
        _log.info("NRI synchronized", runtime=runtime)
        self._set_state(PluginState(synchronized=True, runtime=runtime))

    def _ended(self, reached: Stage, reason: str) -> None:
        since = self._synchronized_at
        steady = since is not None and trio.current_time() - since >= STEADY_S
        self._failures = 1 if steady else self._failures + 1
        # A runtime that knows fewer events than it says closes right behind Configure.
        self._old_events_only ^= reached is Stage.CONFIGURED
        self._missed = True
        _log.warning("NRI connection ended, connecting again", reason=reason, while_=reached.value)
        self._lose(f"{reason} while {reached.value}")

    def _miss(self, reason: str) -> None:
        if not self._missed:
            self._missed = True
            _log.warning("NRI has no runtime yet, waiting for it", reason=reason)
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        runtime = None if self._state is None else self._state.runtime
        self._set_state(PluginState(synchronized=False, runtime=runtime, reason=reason))

    def _set_state(self, state: PluginState) -> None:
        if state == self._state:
            return
        self._state = state
        self._tell(state)
