"""The runtime's side over a stream: patience, failing open, and what validation changes."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from berth.nri.events import Event
from berth.nri.handlers import Turn
from berth.nri.runtime_peer import Outcome, RuntimePeer
from berth.nri.runtime_role import NRI_0_6, NRI_0_8, NRI_0_12, Manner, RuntimeRole
from berth.nri.versions import Runtime
from tests.unit.nri import vectors
from tests.unit.nri.scripted import OLD_RUNTIME, RUNTIME, ScriptedHooks, link
from tests.unit.nri.values import CONTAINER, SANDBOX


async def _stay_silent(turn: Turn | None) -> None:
    """Keeps a hook from answering for longer than any runtime waits, whatever our watch does."""
    if turn is not None:
        turn.decision.claim_done()
    with trio.move_on_after(60, shield=True):
        await trio.sleep_forever()


async def test_plugin_that_never_registers_is_dropped(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """After five seconds, so that the next one is served."""
    ours, theirs = memory_stream_pair()
    peer = RuntimePeer(theirs, RuntimeRole(RUNTIME))
    nursery.start_soon(peer.run)

    assert not await peer.admit()
    assert trio.current_time() == pytest.approx(5.0)
    assert await ours.receive_some(1) == b""


async def test_plugin_that_never_answers_configure_is_dropped(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """After two seconds."""
    ours, theirs = memory_stream_pair()
    peer = RuntimePeer(theirs, RuntimeRole(RUNTIME))
    nursery.start_soon(peer.run)
    await ours.send_all(vectors.REGISTER)

    assert not await peer.admit()
    assert trio.current_time() == pytest.approx(2.0)


async def test_plugin_that_hangs_up_is_gone(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The pod's start goes on without it."""
    ours, theirs = memory_stream_pair()
    peer = RuntimePeer(theirs, RuntimeRole(RUNTIME))
    nursery.start_soon(peer.run)
    await ours.aclose()

    assert not await peer.admit()
    assert peer.gone
    assert await peer.relay(Event.RUN_POD_SANDBOX, SANDBOX) == Outcome()


async def test_plugin_that_breaks_the_framing_is_dropped(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """As if it had hung up."""
    ours, theirs = memory_stream_pair()
    peer = RuntimePeer(theirs, RuntimeRole(RUNTIME))
    nursery.start_soon(peer.run)
    await ours.send_all(b"\x00\x00\x00\x01\xff\xff\xff\xff")

    assert not await peer.admit()
    assert await ours.receive_some(1) == b""


async def test_silence_drops_the_plugin_and_lets_the_pod_go(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """NRI fails open: this is what our own limit guards against."""
    slow = Runtime(name="containerd", version="v1.7.24", request_timeout_s=0.2)
    made = link(nursery, hooks, manner=NRI_0_8, runtime=slow)
    await made.peer.admit()
    hooks.act = _stay_silent
    outcome = await made.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)

    assert outcome == Outcome(asked=False, error="")
    await made.ended.wait()
    assert made.peer.gone


@pytest.mark.parametrize(
    ("manner", "runtime", "error"),
    [
        (NRI_0_8, OLD_RUNTIME, ""),
        (NRI_0_12, RUNTIME, "validator plugin failed: ttrpc: closed"),
    ],
)
async def test_container_is_not_made_when_its_validator_went_away(
    *,
    nursery: trio.Nursery,
    hooks: ScriptedHooks,
    manner: Manner,
    runtime: Runtime,
    error: str,
    autojump_clock: MockClock,
) -> None:
    """That is why we ask to validate; before 0.10 nobody could."""
    made = link(nursery, hooks, manner=manner, runtime=runtime)
    await made.peer.admit()

    async def hang_up(_: Turn | None) -> None:
        await made.peer._stream.aclose()
        await trio.sleep_forever()

    hooks.act = hang_up
    outcome = await made.peer.relay(Event.CREATE_CONTAINER, SANDBOX, CONTAINER)

    assert (outcome.asked, outcome.error) == (False, error)


async def test_refused_container_is_not_validated(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """The first no is the answer."""
    made = link(nursery, hooks)
    await made.peer.admit()

    async def fail(_: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("x")

    hooks.act = fail
    outcome = await made.peer.relay(Event.CREATE_CONTAINER, SANDBOX, CONTAINER)

    assert outcome.code == 13


async def test_oldest_runtime_keeps_a_plugin_it_has_forgotten(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The connection stays open after a Synchronize that nobody answered."""
    ours, theirs = memory_stream_pair()
    peer = RuntimePeer(theirs, RuntimeRole(OLD_RUNTIME, NRI_0_6))
    nursery.start_soon(peer.run)
    await ours.send_all(vectors.REGISTER + vectors.CONFIGURE_ANSWER_OLD_EVENTS)

    assert not await peer.admit()
    assert not peer.gone
    assert await peer.relay(Event.RUN_POD_SANDBOX, SANDBOX) == Outcome()
