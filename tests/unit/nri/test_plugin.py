"""The plugin over its connections: how soon it is back, and what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from berth.errors import HostError
from berth.nri import plugin as nri_plugin
from berth.nri.events import Event
from berth.nri.plugin import Plugin, PluginState, pause_s
from berth.nri.runtime_peer import Outcome, RuntimePeer
from berth.nri.runtime_role import NRI_0_12, Manner, RuntimeRole
from berth.nri.versions import EVENTS_BEFORE_0_10
from berth.runtime.inotify import Inotify
from tests.unit.nri.scripted import RUNTIME, ScriptedHooks
from tests.unit.nri.values import SANDBOX


@attrs.define(eq=False)
class RuntimeStand:
    """A runtime whose socket is there or not, as the test says.

    Attributes:
        up: Whether a connection is taken.
        tries: When a connection was tried.
        peers: The connections taken, admitted by and by.
        states: What the plugin said of itself.
    """

    nursery: trio.Nursery
    manner: Manner = NRI_0_12
    up: bool = True
    tries: list[float] = attrs.field(factory=list)
    peers: list[RuntimePeer] = attrs.field(factory=list)
    states: list[PluginState] = attrs.field(factory=list)

    async def connect(self, path: Path) -> trio.abc.Stream:
        """Stands for `connect_unix`."""
        self.tries.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if not self.up:
            raise HostError(str(path), "cannot connect: Connection refused")
        ours, theirs = memory_stream_pair()
        peer = RuntimePeer(theirs, RuntimeRole(RUNTIME, self.manner))
        self.peers.append(peer)
        self.nursery.start_soon(peer.run)
        self.nursery.start_soon(peer.admit)
        return ours

    async def hang_up(self) -> None:
        """Closes the newest connection, as a runtime that stops does."""
        await self.peers[-1]._stream.aclose()


@pytest.fixture
async def stand(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeStand]:
    """A runtime that is up."""
    made = RuntimeStand(nursery)
    monkeypatch.setattr(nri_plugin, "connect_unix", made.connect)
    yield made
    nursery.cancel_scope.cancel()


async def start(stand: RuntimeStand, hooks: ScriptedHooks, *, name: str = "berth") -> None:
    """Starts a plugin and waits until nothing more happens at once."""
    made = Plugin(
        socket=Path("/var/run/nri/nri.sock"),
        inotify=Inotify(),
        name=name,
        index="10",
        timeout_s=1.5,
        hooks=hooks,
        tell=stand.states.append,
    )
    await stand.nursery.start(made.run)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0), (1, 0), (2, 0.1), (3, 0.2), (4, 0.4), (8, 5), (2000, 5)]
)
def test_pause_grows_with_failures(failures: int, pause: float) -> None:
    """Nothing after the first, then doubling, up to five seconds."""
    assert pause == pytest.approx(pause_s(failures))


async def test_plugin_says_when_it_is_in_place(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Not when connected, but when synchronized."""
    await start(stand, hooks)

    assert stand.states == [
        PluginState(synchronized=False, reason="not connected yet"),
        PluginState(synchronized=True, runtime=stand.states[-1].runtime),
    ]
    assert str(stand.states[-1].runtime) == "containerd 2.4.2+unknown"


async def test_absent_runtime_is_tried_every_fifty_milliseconds(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """And said once."""
    stand.up = False
    await start(stand, hooks)
    await trio.sleep(0.499)
    assert len(stand.tries) == 10

    assert [state.synchronized for state in stand.states] == [False, False]
    assert "Connection refused; the runtime is down, or has NRI switched off" in (
        stand.states[-1].reason
    )
    stand.up = True
    await trio.sleep(0.05)
    await wait_all_tasks_blocked()
    assert stand.states[-1].synchronized


async def test_restarted_runtime_is_followed_at_once(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """No pause after a session that had been working; the next one tells all pods anew."""
    await start(stand, hooks)
    for _ in range(3):
        await trio.sleep(nri_plugin.STEADY_S)
        now = trio.current_time()
        await stand.hang_up()
        await wait_all_tasks_blocked()
        assert stand.tries[-1] == now

    assert [state.synchronized for state in stand.states] == [False, True] * 4
    assert stand.states[-2].reason == "the runtime closed the connection while synchronized"
    assert [told[0] for told in hooks.told] == ["synchronize"] * 4


async def test_sessions_that_end_soon_are_tried_ever_slower(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """A runtime that throws us out each time is not worn out."""
    await start(stand, hooks, name="no good")
    await trio.sleep(60)
    gaps = [after - before for before, after in zip(stand.tries, stand.tries[1:], strict=False)]

    assert gaps[:5] == pytest.approx([0, 0.1, 0.2, 0.4, 0.8])
    assert gaps[-1] == pytest.approx(5)
    assert "invalid plugin name" in stand.states[-1].reason


async def test_runtime_that_knows_fewer_events_than_it_says_is_asked_for_less(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Thrown out right behind Configure, the next try keeps to the old events."""
    stand.manner = attrs.evolve(NRI_0_12, events=EVENTS_BEFORE_0_10)
    await start(stand, hooks)
    await trio.sleep(1)

    assert [state.synchronized for state in stand.states] == [False, False, True]
    assert "while waiting for Synchronize" in stand.states[1].reason
    assert len(stand.peers) == 2


async def test_late_hook_does_not_hold_up_the_next_connection(
    stand: RuntimeStand, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """It finishes beside it."""
    await start(stand, hooks)

    async def undo_slowly(_: object) -> None:
        with trio.move_on_after(5, shield=True):
            await trio.sleep_forever()

    hooks.act = undo_slowly
    stand.nursery.start_soon(stand.peers[-1].relay, Event.RUN_POD_SANDBOX, SANDBOX)
    await trio.sleep(0.1)
    hooks.act = None
    await stand.hang_up()
    await wait_all_tasks_blocked()

    assert trio.current_time() == pytest.approx(0.1)
    assert stand.states[-1].synchronized
    outcome = await stand.peers[-1].relay(Event.STOP_POD_SANDBOX, SANDBOX)
    assert outcome == Outcome(asked=True)
