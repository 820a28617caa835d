"""Calls that may not come back, and who waits for what."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from berth.host.nvml.progress import came_back
from berth.host.nvml.registry import Registry
from berth.host.nvml.silence import OpenCall
from berth.host.nvml.values import NoAnswer, Refusal


class Gate:
    """A call that comes back when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.made = 0

    def call(self) -> str:
        """Wait, then answer."""
        self.made += 1
        self.let.wait()
        return "late"


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Give a call that is out until the test ends, at the latest."""
    made = Gate()
    yield made
    made.let.set()


async def test_answer_is_given() -> None:
    """And the call is no longer out."""

    registry = Registry()

    assert await registry.ask("a", "probe", lambda: 7, deadline_s=60) == 7
    assert registry.open_calls() == ()
    assert registry.statistics().calls == {"probe": 1}


async def test_defect_in_a_call_is_raised_to_who_asked() -> None:
    """Errors of NVML are values before they come here; this is another."""

    def fail() -> None:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        await Registry().ask("a", "probe", fail, deadline_s=60)


async def test_caller_goes_on_past_the_deadline(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """The call stays out, and says since when."""

    registry = Registry()
    began_s = trio.current_time()
    answer = await registry.ask("a", "probe", gate.call, deadline_s=4)

    assert isinstance(answer, NoAnswer)
    assert answer.purpose == "probe"
    assert answer.open_s == pytest.approx(4)
    assert registry.open_calls() == (
        OpenCall(key="a", purpose="probe", began_s=began_s, deadline_s=4),
    )


async def test_no_further_call_is_made_while_one_is_out(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """Past its deadline nobody waits for it either."""

    registry = Registry()
    await registry.ask("a", "walk", gate.call, deadline_s=10)
    before_s = trio.current_time()
    answer = await registry.ask("a", "probe", gate.call, deadline_s=4)

    assert isinstance(answer, NoAnswer)
    assert answer.purpose == "walk"
    assert answer.open_s == pytest.approx(10)
    assert trio.current_time() == before_s
    assert gate.made == 1
    assert registry.statistics().unanswered == {"walk": 1, "probe": 1}


async def test_return_clears_the_state_by_itself(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """The next call is made, and whoever wants to know is told."""

    returned = trio.Event()
    registry = Registry(returned.set)
    await registry.ask("a", "walk", gate.call, deadline_s=10)
    gate.let.set()
    autojump_clock.autojump_threshold = float("inf")
    await returned.wait()

    assert await registry.ask("a", "probe", lambda: 7, deadline_s=4) == 7


async def test_classify_takes_the_answer_of_a_probe(gate: Gate) -> None:
    """Two who ask one thing make one call."""

    registry, answers = Registry(), []

    async def ask(purpose: str) -> None:
        answer = await registry.ask("a", purpose, gate.call, deadline_s=60, joins="probe")
        answers.append(answer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "probe")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "classify")
        await trio.testing.wait_all_tasks_blocked()
        gate.let.set()

    assert (answers, gate.made) == (["late", "late"], 1)


async def test_call_may_be_out_longer_than_its_caller_waits(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever comes after waits for it, and does not take it for hung."""

    registry = Registry()
    first = await registry.ask("a", "classify", gate.call, deadline_s=0.5, allowed_s=4)
    began_s = trio.current_time()
    await registry.ask("a", "probe", gate.call, deadline_s=2)
    waited_s = trio.current_time() - began_s
    await registry.ask("a", "probe", gate.call, deadline_s=2)
    at_once = await registry.ask("a", "probe", gate.call, deadline_s=2)

    assert first == NoAnswer(purpose="classify", open_s=0.5)
    assert waited_s == 2
    assert at_once == NoAnswer(purpose="classify", open_s=4.5)
    assert trio.current_time() == began_s + 4
    assert gate.made == 1


async def test_each_step_of_a_call_is_a_sign_of_life(gate: Gate) -> None:
    """Of this call alone: another one's thread tells nothing of it."""

    def walk() -> str:
        came_back()
        return gate.call()

    registry = Registry()
    came_back()
    await registry.ask("a", "walk", walk, deadline_s=0.01, allowed_s=4)
    await registry.ask("b", "walk", gate.call, deadline_s=0.01, allowed_s=4)
    moved, still = registry.open_calls()

    assert moved.since_s == moved.moved_s > moved.began_s
    assert still.since_s == still.began_s


async def test_classify_waits_for_a_probe_no_longer_than_its_own_deadline(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """The probe is not late yet, but the classification is."""

    registry = Registry()
    registry.start_nowait("a", "probe", gate.call, deadline_s=4)
    answer = await registry.ask("a", "classify", gate.call, deadline_s=0.5, joins="probe")

    assert isinstance(answer, NoAnswer)
    assert answer.purpose == "probe"
    assert answer.open_s == pytest.approx(0.5)


async def test_probe_waits_for_a_walk_to_end(gate: Gate) -> None:
    """One call at a time for one GPU; then the next is made."""

    registry, answers = Registry(), []

    async def ask() -> None:
        answers.append(await registry.ask("a", "probe", lambda: 7, deadline_s=60))

    async with trio.open_nursery() as nursery:
        registry.start_nowait("a", "walk", gate.call, deadline_s=60)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        gate.let.set()

    assert answers == [7]


async def test_quiet_does_not_wait_for_what_is_late(
    gate: Gate, autojump_clock: trio.testing.MockClock
) -> None:
    """A call that nobody waits for holds up no stop."""

    registry = Registry()
    registry.start_nowait("a", "probe", gate.call, deadline_s=4)
    before_s = trio.current_time()
    await registry.wait_quiet()

    assert trio.current_time() - before_s == pytest.approx(4)
    assert registry.busy("a")


def test_hung_call_outlives_the_run(gate: Gate) -> None:
    """Its thread is a daemon, and what it answers then goes nowhere."""

    async def main() -> None:
        Registry().start_nowait("a", "probe", gate.call, deadline_s=4)

    trio.run(main)
    gate.let.set()
    threads = [one for one in threading.enumerate() if one.name == "nvml a"]

    assert all(one.daemon for one in threads)
    for one in threads:
        one.join()


async def test_calls_are_counted_by_how_they_came_back(gate: Gate) -> None:
    """One that does not is counted for whoever went on without it, until it returns."""

    def fail() -> None:
        raise RuntimeError("a defect")

    registry = Registry()
    await registry.ask("a", "probe", lambda: 7, deadline_s=60)
    await registry.ask("a", "probe", lambda: Refusal.of(15), deadline_s=60)
    with pytest.raises(RuntimeError):
        await registry.ask("a", "walk", fail, deadline_s=60)
    await registry.ask("a", "probe", gate.call, deadline_s=0.01)
    figures = registry.statistics()

    assert figures.ended.series() == {
        ("probe", "ok"): 1,
        ("probe", "refused"): 1,
        ("walk", "failed"): 1,
    }
    assert figures.unanswered == {"probe": 1}
    assert figures.seconds.counts() == {("probe",): 2, ("walk",): 1}


async def test_call_for_which_there_is_no_thread_is_not_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its subject would else be silent for ever."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    registry = Registry()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await registry.ask("a", "probe", lambda: 7, deadline_s=60)

    assert registry.open_calls() == ()
    assert await registry.ask("a", "probe", lambda: 7, deadline_s=60) == 7
