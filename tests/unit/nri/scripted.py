"""Hooks that do what a test says, and a plugin's connection to a runtime in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import attrs
import trio
from trio.testing import memory_stream_pair

from berth.errors import BerthError
from berth.model.pod import Adjustment, Container, Sandbox
from berth.nri.connection import Connection
from berth.nri.events import Event
from berth.nri.handlers import Turn
from berth.nri.messages import Registration
from berth.nri.runtime_peer import RuntimePeer
from berth.nri.runtime_role import NRI_0_12, Manner, RuntimeRole
from berth.nri.session import WANTED_EVENTS, Session
from berth.nri.versions import Runtime

RUNTIME = Runtime(name="containerd", version="2.4.2+unknown", nri_version="v0.12.3")
OLD_RUNTIME = Runtime(name="containerd", version="v1.7.24")


@attrs.define(eq=False)
class ScriptedHooks:
    """Writes down what it is told, and then does what the test says.

    Attributes:
        act: What every hook does; it gets its turn where it has one.
        told: Each call: the hook's name, and what it was given.
        turns: The turns given, in order.
        cancelled: Names of the hooks that were cancelled.
    """

    act: Callable[[Turn | None], Awaitable[Adjustment | None]] | None = None
    told: list[tuple[object, ...]] = attrs.field(factory=list)
    turns: list[Turn] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)

    async def _do(self, name: str, *given: object, turn: Turn | None = None) -> Adjustment | None:
        self.told.append((name, *given))
        if turn is not None:
            self.turns.append(turn)
        try:
            return None if self.act is None else await self.act(turn)
        except trio.Cancelled:
            self.cancelled.append(name)
            raise

    async def synchronize(
        self, sandboxes: Sequence[Sandbox], containers: Sequence[Container]
    ) -> None:
        """See `Hooks`; nothing is scripted for it before a test sets ``act``."""
        await self._do("synchronize", tuple(sandboxes), tuple(containers))

    async def run_pod_sandbox(self, sandbox: Sandbox, turn: Turn) -> None:
        """See `Hooks`."""
        await self._do("run_pod_sandbox", sandbox, turn=turn)

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """See `Hooks`."""
        await self._do("stop_pod_sandbox", sandbox)

    async def remove_pod_sandbox(self, sandbox: Sandbox) -> None:
        """See `Hooks`."""
        await self._do("remove_pod_sandbox", sandbox)

    async def create_container(
        self, sandbox: Sandbox, container: Container, turn: Turn
    ) -> Adjustment | None:
        """See `Hooks`."""
        return await self._do("create_container", sandbox, container, turn=turn)

    async def start_container(self, sandbox: Sandbox, container: Container, turn: Turn) -> None:
        """See `Hooks`."""
        await self._do("start_container", sandbox, container, turn=turn)

    async def stop_container(self, sandbox: Sandbox, container: Container) -> None:
        """See `Hooks`."""
        await self._do("stop_container", sandbox, container)

    async def remove_container(self, sandbox: Sandbox, container: Container) -> None:
        """See `Hooks`."""
        await self._do("remove_container", sandbox, container)


@attrs.define(eq=False)
class Link:
    """A plugin's connection and the runtime at its other end.

    Attributes:
        ended: Set when the connection's run is over.
        fault: What it raised.
        synchronized: Runtimes that the connection told to be synchronized with.
        scope: Cancels the connection, as a stop of the daemon would.
    """

    peer: RuntimePeer
    ended: trio.Event = attrs.field(factory=trio.Event)
    fault: BerthError | None = None
    synchronized: list[Runtime] = attrs.field(factory=list)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self, connection: Connection) -> None:
        """Runs the connection and keeps what becomes of it."""
        with self.scope:
            try:
                await connection.run()
            except BerthError as fault:
                self.fault = fault
        self.ended.set()


def link(
    nursery: trio.Nursery,
    hooks: ScriptedHooks,
    *,
    manner: Manner = NRI_0_12,
    runtime: Runtime = RUNTIME,
    timeout_s: float = 1.5,
    name: str = "nic-agent",
    wanted: Iterable[Event] = WANTED_EVENTS,
) -> Link:
    """Connects a plugin with a runtime; both run in ``nursery`` from now on."""
    ours, theirs = memory_stream_pair()
    role = RuntimeRole(runtime, manner)
    peer = RuntimePeer(theirs, role, request_timeout_s=runtime.request_timeout_s)
    made = Link(peer)
    connection = Connection(
        ours,
        session=Session(Registration(name=name, index="10"), wanted=wanted),
        hooks=hooks,
        timeout_s=timeout_s,
        nursery=nursery,
        on_synchronized=made.synchronized.append,
    )
    nursery.start_soon(peer.run)
    nursery.start_soon(made.run, connection)
    return made
