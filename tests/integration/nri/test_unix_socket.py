"""The plugin over a real unix socket, with a runtime that comes, goes and comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from berth.errors import ClaimError
from berth.model.pod import Sandbox
from berth.nri.events import Event
from berth.nri.handlers import Turn
from berth.nri.plugin import Plugin, PluginState
from berth.nri.runtime_peer import Outcome, RuntimePeer
from berth.nri.runtime_role import NRI_0_6, NRI_0_8, NRI_0_12, Manner, RuntimeRole
from berth.runtime.inotify import Inotify
from berth.runtime.latest import Latest
from tests.unit.nri.scripted import OLD_RUNTIME, RUNTIME, ScriptedHooks
from tests.unit.nri.values import CONTAINER, SANDBOX


@attrs.define(eq=False)
class Bench:
    """A plugin at work on a socket, and the runtimes that listen there one after another."""

    socket: Path
    hooks: ScriptedHooks
    nursery: trio.Nursery
    inotify: Inotify
    state: Latest[PluginState | None] = attrs.field(factory=lambda: Latest(None))
    listeners: list[trio.SocketListener] = attrs.field(factory=list)

    async def start_plugin(self) -> None:
        """Starts the plugin; it need not find anybody yet."""
        made = Plugin(
            socket=self.socket,
            inotify=self.inotify,
            name="berth",
            index="10",
            timeout_s=1.5,
            hooks=self.hooks,
            tell=self.state.set,
        )
        await self.nursery.start(made.run)

    async def listen(self) -> trio.SocketListener:
        """Listens as a runtime does: over whatever the last one left."""
        self.socket.unlink(missing_ok=True)
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(str(self.socket))
        listening.listen()
        self.listeners.append(trio.SocketListener(listening))
        return self.listeners[-1]

    async def admit(
        self, listener: trio.SocketListener, manner: Manner, sandboxes: list[Sandbox]
    ) -> RuntimePeer:
        """Takes the next plugin that connects."""
        runtime = RUNTIME if manner is NRI_0_12 else OLD_RUNTIME
        peer = RuntimePeer(await listener.accept(), RuntimeRole(runtime, manner))
        self.nursery.start_soon(peer.run)
        assert await peer.admit(sandboxes, [CONTAINER])
        return peer


@pytest.fixture
async def bench(tmp_path: Path, inotify: Inotify, nursery: trio.Nursery) -> AsyncIterator[Bench]:
    """No runtime yet, no plugin yet."""
    with trio.fail_after(30):
        made = Bench(tmp_path / "nri.sock", ScriptedHooks(), nursery, inotify)
        yield made
    nursery.cancel_scope.cancel()
    for listener in made.listeners:
        listener.socket.close()


@pytest.mark.parametrize("manner", [NRI_0_6, NRI_0_8, NRI_0_12])
async def test_plugin_serves_a_runtime_that_comes_later(bench: Bench, manner: Manner) -> None:
    """It waits for the socket, is told all pods, answers events, refuses by its own words."""
    await bench.start_plugin()
    listener = await bench.listen()
    many = [Sandbox(id=f"s{n}", annotations={"k": "v" * 900}) for n in range(6000)]
    peer = await bench.admit(listener, manner, many)
    assert bench.hooks.told == [("synchronize", tuple(many), (CONTAINER,))]

    created = await peer.relay(Event.CREATE_CONTAINER, SANDBOX, CONTAINER)
    assert created == Outcome(asked=True)

    async def refuse(_: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        raise ClaimError("pod ns/p", "no NIC" * 2000)

    bench.hooks.act = refuse
    refused = await peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)
    assert refused.error == "pod ns/p: " + "no NIC" * 2000


async def test_plugin_is_back_soon_after_a_restart(bench: Bench) -> None:
    """The old socket's file stays for a while, as a killed runtime leaves it."""
    await bench.start_plugin()
    listener = await bench.listen()
    peer = await bench.admit(listener, NRI_0_12, [SANDBOX])
    await listener.aclose()
    await peer._stream.aclose()
    await bench.state.wait_value(lambda state: state is not None and not state.synchronized)
    listener = await bench.listen()
    began = trio.current_time()
    await bench.admit(listener, NRI_0_12, [])

    await bench.state.wait_value(lambda state: state is not None and state.synchronized)
    # 50 ms between two looks; the rest is for a busy machine.
    assert trio.current_time() - began < 5
    assert bench.hooks.told[1] == ("synchronize", (), (CONTAINER,))


async def test_reset_is_the_end_of_a_connection(bench: Bench) -> None:
    """A runtime that dies with our bytes unread gives a reset instead of an end."""
    listener = await bench.listen()
    await bench.start_plugin()
    stream = await listener.accept()
    await trio.testing.wait_all_tasks_blocked(0.05)
    await stream.aclose()
    state = await bench.state.wait_value(
        lambda state: state is not None and "closed" in state.reason
    )

    assert state is not None
    assert state.reason == "the runtime closed the connection while waiting for Configure"
