"""The pump: every question is answered once and in time, and what happens when it cannot be."""

from __future__ import annotations

import logging
import threading

import pytest
import trio
from trio.testing import (
    MockClock,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)

from berth.errors import ClaimError, RemoteProtocolError
from berth.model.pod import Adjustment, Sandbox
from berth.nri import connection as pump
from berth.nri.connection import Connection, answer_limit_s
from berth.nri.events import Event
from berth.nri.handlers import Turn
from berth.nri.messages import Registration
from berth.nri.runtime_peer import Outcome
from berth.nri.runtime_role import NRI_0_6, NRI_0_8, NRI_0_12, Manner
from berth.nri.session import Session
from berth.nri.versions import Runtime
from berth.runtime.threads import Verdict, run_in_thread
from tests.unit.nri import vectors
from tests.unit.nri.scripted import OLD_RUNTIME, RUNTIME, Link, ScriptedHooks, link
from tests.unit.nri.values import CONTAINER, SANDBOX

OK = Outcome(asked=True)


@pytest.fixture
async def linked(nursery: trio.Nursery, hooks: ScriptedHooks) -> Link:
    """A plugin that a runtime of NRI 0.12 asks about everything."""
    made = link(nursery, hooks)
    assert await made.peer.admit()
    return made


@pytest.mark.parametrize(
    ("timeout_s", "patience_s", "limit_s"),
    [
        (1.5, None, 1.5),
        (1.5, 2.0, 1.5),
        (1.5, 10.0, 1.5),
        (8.0, 10.0, 9.5 - 1.5),
        (8.0, 2.0, 1.5),
        (1.5, 1.2, 0.7),
        (1.5, 0.4, 0.2),
    ],
)
def test_answer_limit_leaves_the_way_back(
    timeout_s: float, patience_s: float | None, limit_s: float
) -> None:
    """The operator's limit, or half a second less than the runtime's, or half of that."""
    assert limit_s == pytest.approx(answer_limit_s(timeout_s, patience_s))


@pytest.mark.parametrize(
    ("manner", "runtime"), [(NRI_0_6, OLD_RUNTIME), (NRI_0_8, OLD_RUNTIME), (NRI_0_12, RUNTIME)]
)
async def test_plugin_is_synchronized_by_each_version(
    nursery: trio.Nursery,
    hooks: ScriptedHooks,
    manner: Manner,
    runtime: Runtime,
    autojump_clock: MockClock,
) -> None:
    """Pods and containers are told to the hooks, then the runtime to whoever asked."""
    made = link(nursery, hooks, manner=manner, runtime=runtime)

    assert await made.peer.admit([SANDBOX], [CONTAINER])
    assert hooks.told == [("synchronize", (SANDBOX,), (CONTAINER,))]
    assert [found.version for found in made.synchronized] == [runtime.version]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Event.RUN_POD_SANDBOX, "run_pod_sandbox"),
        (Event.STOP_POD_SANDBOX, "stop_pod_sandbox"),
        (Event.REMOVE_POD_SANDBOX, "remove_pod_sandbox"),
    ],
)
async def test_pod_event_reaches_its_hook(
    linked: Link, hooks: ScriptedHooks, kind: Event, name: str, autojump_clock: MockClock
) -> None:
    """Each event is one call of one hook, and its return the runtime's answer."""
    assert await linked.peer.relay(kind, SANDBOX) == OK
    assert hooks.told[1:] == [(name, SANDBOX)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Event.CREATE_CONTAINER, "create_container"),
        (Event.START_CONTAINER, "start_container"),
        (Event.STOP_CONTAINER, "stop_container"),
        (Event.REMOVE_CONTAINER, "remove_container"),
    ],
)
async def test_container_event_reaches_its_hook(
    linked: Link, hooks: ScriptedHooks, kind: Event, name: str, autojump_clock: MockClock
) -> None:
    """The same with the container."""
    assert await linked.peer.relay(kind, SANDBOX, CONTAINER) == OK
    assert hooks.told[1:] == [(name, SANDBOX, CONTAINER)]


@pytest.mark.parametrize("kind", [Event.POST_UPDATE_POD_SANDBOX, Event.POST_START_CONTAINER])
async def test_event_without_a_hook_is_agreed_to(
    nursery: trio.Nursery, hooks: ScriptedHooks, kind: Event, autojump_clock: MockClock
) -> None:
    """Whoever asks for more events than there are hooks gets no error from it."""
    made = link(nursery, hooks, wanted=[Event.RUN_POD_SANDBOX, kind])
    await made.peer.admit()
    container = CONTAINER if kind.is_container_event else None

    assert await made.peer.relay(kind, SANDBOX, container) == OK
    assert [told[0] for told in hooks.told] == ["synchronize"]


async def test_adjustment_reaches_the_runtime(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """What the hook gives is what the container gets."""
    wanted = Adjustment(env={"A": "1"}, cdi_devices=("berth.dev/nic=x",))

    async def adjust(_: Turn | None) -> Adjustment | None:
        await trio.lowlevel.checkpoint()
        return wanted

    hooks.act = adjust
    outcome = await linked.peer.relay(Event.CREATE_CONTAINER, SANDBOX, CONTAINER)

    assert outcome.adjustment == wanted


async def test_berth_error_is_the_runtimes_error(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Its whole text arrives, and the connection stays."""

    async def refuse(_: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        raise ClaimError("claim ns/a", "NIC eth1 is not at home", mend="wait")

    hooks.act = refuse
    outcome = await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)
    assert outcome == Outcome(asked=True, error="claim ns/a: NIC eth1 is not at home; wait", code=9)

    hooks.act = None
    assert await linked.peer.relay(Event.STOP_POD_SANDBOX, SANDBOX) == OK


async def test_any_exception_is_an_error_and_is_logged(
    linked: Link, hooks: ScriptedHooks, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """A defect holds the pod back and shows its traceback; the plugin lives."""

    async def fail(_: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("gone")

    hooks.act = fail
    with caplog.at_level(logging.ERROR):
        outcome = await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)

    assert (outcome.code, "KeyError('gone')" in outcome.error) == (13, True)
    assert [record.exc_info is not None for record in caplog.records] == [True]
    hooks.act = None
    assert await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX) == OK


async def test_too_long_adjustment_refuses_the_container(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Instead of being sent, which would end the connection and let the container start."""

    async def adjust(_: Turn | None) -> Adjustment | None:
        await trio.lowlevel.checkpoint()
        return Adjustment(env={"A": "x" * (4 << 20)})

    hooks.act = adjust
    outcome = await linked.peer.relay(Event.CREATE_CONTAINER, SANDBOX, CONTAINER)

    assert "at most 4194304" in outcome.error
    assert not linked.peer.gone


@pytest.mark.parametrize(
    ("kind", "container"),
    [(Event.RUN_POD_SANDBOX, None), (Event.STOP_POD_SANDBOX, None)],
)
async def test_late_hook_is_answered_for_and_cancelled(
    linked: Link, hooks: ScriptedHooks, kind: Event, container: None, autojump_clock: MockClock
) -> None:
    """The error comes half a second before the runtime would let the pod go."""

    async def sleep(_: Turn | None) -> None:
        await trio.sleep_forever()

    hooks.act = sleep
    began = trio.current_time()
    outcome = await linked.peer.relay(kind, SANDBOX, container)

    assert trio.current_time() - began == pytest.approx(1.5)
    assert "not done within 1.50 s" in outcome.error
    assert len(hooks.cancelled) == 1
    assert not linked.peer.gone


async def test_hook_that_never_ends_delays_no_other(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Case 15: the runtime asks one at a time, and the pods behind it wait for its limit alone."""

    async def block_the_first(_: Turn | None) -> None:
        if len(hooks.turns) == 1:
            await trio.sleep_forever()

    hooks.act = block_the_first
    began = trio.current_time()
    errors: dict[str, str] = {}

    async def start(pod: str) -> None:
        outcome = await linked.peer.relay(Event.RUN_POD_SANDBOX, Sandbox(id=pod))
        errors[pod] = outcome.error

    async with trio.open_nursery() as pods:
        pods.start_soon(start, "blocked")
        await wait_all_tasks_blocked()
        for number in range(19):
            pods.start_soon(start, f"pod{number}")

    assert trio.current_time() - began == pytest.approx(1.5)
    assert "not done within 1.50 s" in errors.pop("blocked")
    assert list(errors.values()) == [""] * 19


async def test_limit_follows_the_runtimes_patience(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """A runtime that waits one second is answered after half of it."""
    runtime = Runtime(name="containerd", version="v2.4.2", request_timeout_s=1.0)
    made = link(nursery, hooks, runtime=runtime)
    await made.peer.admit()
    await made.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)

    assert [turn.limit_s for turn in hooks.turns] == [pytest.approx(0.5)]
    assert hooks.turns[0].runtime.version == "v2.4.2"


async def test_thread_that_settled_in_time_is_reported(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """The hook may return a little after the limit then, as its work counts as done."""

    async def settle(turn: Turn | None) -> None:
        assert turn is not None
        await trio.sleep(1.4)
        assert turn.decision.claim_done()
        await trio.sleep(0.3)

    hooks.act = settle
    began = trio.current_time()

    assert await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX) == OK
    assert trio.current_time() - began == pytest.approx(1.7)


async def test_hook_that_settled_and_stays_is_answered_for_at_last(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Not even then does the runtime wait in vain."""

    async def settle(turn: Turn | None) -> None:
        assert turn is not None
        turn.decision.claim_done()
        await trio.sleep_forever()

    hooks.act = settle
    began = trio.current_time()
    outcome = await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)

    assert outcome.error
    assert trio.current_time() - began == pytest.approx(1.8)


async def test_late_thread_learns_that_it_must_undo(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """It is neither interrupted nor waited for: the next event is served meanwhile."""
    release = threading.Event()
    claims: list[bool] = []
    finished = trio.Event()

    def work(turn: Turn) -> None:
        release.wait(10)
        claims.append(turn.decision.claim_done())

    async def attach(turn: Turn | None) -> None:
        assert turn is not None
        await run_in_thread("test", work, turn)
        finished.set()

    hooks.act = attach
    late = await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)
    hooks.act = None
    next_one = await linked.peer.relay(Event.STOP_POD_SANDBOX, SANDBOX)
    release.set()
    await finished.wait()

    assert (bool(late.error), next_one) == (True, OK)
    assert claims == [False]


async def test_error_of_a_late_hook_is_no_second_answer(
    linked: Link, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """What it says after "too late" is for its own log."""

    async def fail_late(_: Turn | None) -> None:
        with trio.move_on_after(1.7, shield=True):
            await trio.sleep_forever()
        raise ClaimError("claim ns/a", "undone")

    hooks.act = fail_late
    outcome = await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX)
    hooks.act = None
    await trio.sleep(1)

    assert "not done within" in outcome.error
    assert await linked.peer.relay(Event.STOP_POD_SANDBOX, SANDBOX) == OK


async def test_lost_connection_makes_running_hooks_late(
    linked: Link, hooks: ScriptedHooks, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Nobody would hear their answer, so they are cancelled and must undo."""

    async def sleep(_: Turn | None) -> None:
        await trio.sleep_forever()

    hooks.act = sleep
    nursery.start_soon(linked.peer.relay, Event.RUN_POD_SANDBOX, SANDBOX)
    await wait_all_tasks_blocked()
    await linked.peer._stream.aclose()
    await linked.ended.wait()
    await wait_all_tasks_blocked()

    assert hooks.turns[0].decision.verdict is Verdict.LATE
    assert hooks.cancelled == ["run_pod_sandbox"]
    assert linked.fault is None


@pytest.mark.parametrize(("duration_s", "error"), [(1.0, False), (9.0, True)])
async def test_stop_waits_for_the_hook_that_runs(
    *,
    linked: Link,
    hooks: ScriptedHooks,
    nursery: trio.Nursery,
    duration_s: float,
    error: bool,
    autojump_clock: MockClock,
) -> None:
    """A stop of the daemon lets no pod start for want of an answer."""
    outcomes: list[Outcome] = []

    async def sleep(_: Turn | None) -> None:
        await trio.sleep(duration_s)

    async def relay() -> None:
        outcomes.append(await linked.peer.relay(Event.RUN_POD_SANDBOX, SANDBOX))

    hooks.act = sleep
    nursery.start_soon(relay)
    await trio.sleep(0.5)
    linked.scope.cancel()
    await linked.ended.wait()
    await wait_all_tasks_blocked()

    assert [(outcome.asked, bool(outcome.error)) for outcome in outcomes] == [(True, error)]
    assert linked.peer.gone


async def test_stop_at_rest_closes_at_once(linked: Link, autojump_clock: MockClock) -> None:
    """With nothing running there is nothing to wait for."""
    began = trio.current_time()
    linked.scope.cancel()
    await linked.ended.wait()

    assert trio.current_time() == began


async def test_refused_registration_closes_the_connection(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """The runtime would leave it open for ever."""
    made = link(nursery, hooks, name="no good")
    await made.ended.wait()

    assert "invalid plugin name 'no good'" in str(made.fault)
    await wait_all_tasks_blocked()
    assert made.peer.gone


def _bare(stream: trio.abc.Stream, hooks: ScriptedHooks, nursery: trio.Nursery) -> Connection:
    return Connection(
        stream,
        session=Session(Registration(name="nic-agent", index="10")),
        hooks=hooks,
        timeout_s=1.5,
        nursery=nursery,
        on_synchronized=lambda _: None,
    )


@pytest.mark.parametrize(
    ("said", "after_s", "stage"),
    [
        (b"", pump.REGISTRATION_LIMIT_S, "waiting for Configure"),
        (vectors.CONFIGURE, pump.SYNCHRONIZE_LIMIT_S, "waiting for Synchronize"),
    ],
)
async def test_silence_at_the_start_ends_the_connection(
    *,
    nursery: trio.Nursery,
    hooks: ScriptedHooks,
    said: bytes,
    after_s: float,
    stage: str,
    autojump_clock: MockClock,
) -> None:
    """A runtime that does not go on has forgotten us, or never saw us."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(said)
    began = trio.current_time()
    with pytest.raises(RemoteProtocolError, match=stage):
        await _bare(ours, hooks, nursery).run()

    assert trio.current_time() - began == pytest.approx(after_s)


async def test_runtime_that_does_not_read_is_left(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """Half a message would be worse than no connection."""
    ours, _theirs = lockstep_stream_pair()
    with pytest.raises(RemoteProtocolError, match="has read nothing for 5 s"):
        await _bare(ours, hooks, nursery).run()


async def test_broken_framing_ends_the_connection(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """A length that no runtime writes."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(b"\x00\x00\x00\x01\xff\xff\xff\xff")
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        await _bare(ours, hooks, nursery).run()


async def test_end_within_a_frame_is_the_end(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """A runtime that was killed writes no goodbye."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(vectors.CONFIGURE[:20])
    await theirs.send_eof()
    await _bare(ours, hooks, nursery).run()

    assert hooks.told == []


@pytest.mark.parametrize(("manner", "runtime"), [(NRI_0_6, OLD_RUNTIME), (NRI_0_12, RUNTIME)])
async def test_failed_synchronize_closes_the_connection(
    nursery: trio.Nursery,
    hooks: ScriptedHooks,
    manner: Manner,
    runtime: Runtime,
    autojump_clock: MockClock,
) -> None:
    """NRI 0.6 would keep a plugin that never hears of an event."""

    async def fail(_: Turn | None) -> None:
        await trio.lowlevel.checkpoint()
        raise ClaimError("records", "cannot be read")

    hooks.act = fail
    made = link(nursery, hooks, manner=manner, runtime=runtime)

    assert not await made.peer.admit()
    await made.ended.wait()
    assert str(made.fault) == "records: cannot be read"
    assert made.synchronized == []


async def test_late_synchronize_closes_the_connection(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """It has the same limit as an event."""

    async def sleep(_: Turn | None) -> None:
        await trio.sleep_forever()

    hooks.act = sleep
    made = link(nursery, hooks, manner=NRI_0_6, runtime=OLD_RUNTIME)
    began = trio.current_time()

    assert not await made.peer.admit()
    assert trio.current_time() - began == pytest.approx(1.5)
    await made.ended.wait()
    assert "Synchronize: not done within 1.50 s" in str(made.fault)


async def test_synchronize_answered_too_late_closes_the_connection(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """A process that stood still has been forgotten by NRI 0.6 meanwhile."""

    async def stand_still(_: Turn | None) -> None:
        autojump_clock.jump(3)

    hooks.act = stand_still
    made = link(nursery, hooks, manner=NRI_0_6, runtime=OLD_RUNTIME)
    await made.peer.admit()
    await made.ended.wait()

    assert "answered after the runtime's time was over" in str(made.fault)
    assert made.synchronized == []


async def test_thousands_of_pods_arrive(
    nursery: trio.Nursery, hooks: ScriptedHooks, autojump_clock: MockClock
) -> None:
    """In one message of several megabytes, as containerd 1.7 sends it."""
    sandboxes = [Sandbox(id=f"s{n}", labels={"k": "v" * 1000}) for n in range(6000)]
    made = link(nursery, hooks, manner=NRI_0_6, runtime=OLD_RUNTIME)

    assert await made.peer.admit(sandboxes)
    assert hooks.told == [("synchronize", tuple(sandboxes), ())]
