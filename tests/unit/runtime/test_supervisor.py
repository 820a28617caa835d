"""Plugins that start, fail, rest, start again and stop, in order."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.errors import ClaimError, ConfigError, Faults, HostError
from berth.runtime.supervisor import Phase, Plugin, Run, Supervisor

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


class Story:
    """What happened, in order, with the time on the clock of the test."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.times: list[float] = []

    def tell(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)
        self.times.append(round(trio.current_time(), 3))


def steady(story: Story, name: str) -> Plugin:
    """Make a plugin that serves until cancelled, and tells what it is asked."""

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        story.tell(f"{name} starts")
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            story.tell(f"{name} ends")

    async def drain() -> None:
        story.tell(f"{name} drains")
        await trio.sleep(1)

    return Plugin(name=name, run=run, drain=drain)


def failing(story: Story, error: Exception, *, times: int, serves_s: float | None = None) -> Plugin:
    """Make a plugin whose first runs fail, after serving for a while or before."""

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        story.tell("starts")
        if story.lines.count("starts") > times:
            task_status.started()
            await trio.sleep_forever()
        if serves_s is not None:
            task_status.started()
            await trio.sleep(serves_s)
        raise error

    return Plugin(name="shaky", run=run)


def no_chance() -> float:
    """Give the full delay each time."""
    return 0.0


async def test_start_when_all_serve(autojump_clock: MockClock) -> None:
    """Plugins start in order, and the supervisor has started when the last one serves."""

    story = Story()
    supervisor = Supervisor([steady(story, "nri"), steady(story, "dra")])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)

        assert story.lines == ["nri starts", "dra starts"]
        assert supervisor.statistics().serving
        assert str(supervisor.statistics()) == "nri serving; dra serving"
        nursery.cancel_scope.cancel()

    assert [status.phase for status in supervisor.statistics().plugins] == [Phase.STOPPED] * 2


async def test_start_when_the_first_cannot(autojump_clock: MockClock) -> None:
    """One that fails holds up the next only until its first failure."""

    story = Story()
    shaky = failing(story, HostError("nri.sock", "is missing"), times=99)
    supervisor = Supervisor([shaky, steady(story, "dra")], chance=no_chance)
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)

        assert story.lines == ["starts", "dra starts"]
        assert not supervisor.statistics().serving
        text = "shaky resting 1 s (nri.sock: is missing); dra serving"
        assert str(supervisor.statistics()) == text
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("serves_s", [None, 0.0])
async def test_restart_when_runs_fail_in_a_row(
    autojump_clock: MockClock, serves_s: float | None
) -> None:
    """Pauses double from one second, whether the run served before it failed or not."""

    story = Story()
    plugin = failing(story, OSError("boom"), times=7, serves_s=serves_s)
    supervisor = Supervisor([plugin], chance=no_chance)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await wait_all_tasks_blocked()
        await trio.sleep(1000)
        nursery.cancel_scope.cancel()

    starts = [time - story.times[0] for time in story.times]
    assert starts == [0, 1, 3, 7, 15, 31, 63, 123]
    assert supervisor.statistics().plugins[0].failures == 7


async def test_restart_when_it_ran_steadily(autojump_clock: MockClock) -> None:
    """Two minutes of serving forgive the failures before."""

    story = Story()
    plugin = failing(story, OSError("boom"), times=3, serves_s=120)
    supervisor = Supervisor([plugin], chance=no_chance)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await trio.sleep(1000)
        nursery.cancel_scope.cancel()

    assert [time - story.times[0] for time in story.times] == [0, 121, 242, 363]


async def test_restart_when_chance_shortens_the_pause(autojump_clock: MockClock) -> None:
    """Chance takes up to a fifth off each pause, so that many nodes spread out."""

    story = Story()
    plugin = failing(story, OSError("boom"), times=1)
    supervisor = Supervisor([plugin], chance=lambda: 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert story.times[1] - story.times[0] == pytest.approx(0.9)


async def _returns(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.lowlevel.checkpoint()


async def _returns_unstarted(**_task_status: object) -> None:
    await trio.lowlevel.checkpoint()


async def _fails_twice_at_once(*, task_status: trio.TaskStatus[None]) -> None:
    async def fail(text: str) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        raise HostError(text, "failed")

    task_status.started()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail, "a")
        nursery.start_soon(fail, "b")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (_returns, {"its run ended by itself"}),
        (
            _returns_unstarted,
            {"RuntimeError('child exited without calling task_status.started()')"},
        ),
        (_fails_twice_at_once, {"a: failed; b: failed", "b: failed; a: failed"}),
    ],
)
async def test_reason_of_each_way_to_end(
    autojump_clock: MockClock, run: Run, reason: set[str]
) -> None:
    """A return is a failure too, and several errors are told together."""

    supervisor = Supervisor([Plugin(name="x", run=run)], chance=no_chance)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        state = await supervisor.state.wait_value(
            lambda state: state.plugins[0].phase is Phase.RESTING
        )

        assert state.plugins[0].reason in reason
        assert state.plugins[0].retry_s == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: ExceptionGroup("", [error])])
async def test_config_error_goes_up(
    autojump_clock: MockClock, wrap: Callable[[Exception], Exception]
) -> None:
    """An error of the configuration ends all plugins and reaches the caller bare."""

    story = Story()
    shaky = failing(story, wrap(ConfigError("agent.toml", "is bad")), times=1)
    supervisor = Supervisor([steady(story, "nri"), shaky])

    with pytest.raises(ConfigError, match=r"agent\.toml: is bad"):
        await supervisor.run()

    assert story.lines == ["nri starts", "starts", "nri ends"]


async def test_faults_of_a_claim_do_not_go_up(autojump_clock: MockClock) -> None:
    """What is wrong with one claim's configuration ends a run, never the daemon."""

    story = Story()
    shaky = failing(story, Faults("ns/claim", [ClaimError("mtu", "is 0")]), times=1)
    supervisor = Supervisor([shaky], chance=no_chance)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await supervisor.wait_serving()
        nursery.cancel_scope.cancel()

    assert supervisor.statistics().plugins[0].failures == 1


async def test_defect_is_logged_with_its_traceback(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that is none of ours leaves its traceback in the log; one of ours does not."""

    story = Story()
    for error in (OSError("boom"), HostError("x", "failed")):
        plugin = failing(story, error, times=99)
        with trio.move_on_after(0.5):
            await Supervisor([plugin]).run()

    traces = [record.exc_info is not None for record in caplog.records]
    assert traces == [True, False, False]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_stop_drains_in_reverse_order(autojump_clock: MockClock) -> None:
    """The last started is drained and ended before the one before it is drained."""

    story = Story()
    supervisor = Supervisor([steady(story, "nri"), steady(story, "dra")])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        await supervisor.stop(grace_s=15)

    assert story.lines[2:] == ["dra drains", "dra ends", "nri drains", "nri ends"]
    assert story.times[-1] - story.times[0] == 2


async def test_stop_when_a_drain_takes_too_long(autojump_clock: MockClock) -> None:
    """One time is shared by all drains; what is not drained then ends all the same, in order."""

    story = Story()
    supervisor = Supervisor([steady(story, "nri"), steady(story, "dra")])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        await supervisor.stop(grace_s=0.5)

    assert story.lines[2:] == ["dra drains", "dra ends", "nri drains", "nri ends"]
    assert story.times[-1] - story.times[0] == 0.5


async def test_stop_when_a_drain_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A drain that fails keeps no plugin from being stopped."""

    story = Story()

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("boom")

    bad = Plugin(name="bad", run=steady(story, "bad").run, drain=fail)
    supervisor = Supervisor([steady(story, "nri"), bad])
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        await supervisor.stop(grace_s=15)

    assert story.lines[2:] == ["bad ends", "nri drains", "nri ends"]
    assert "drain failed" in caplog.text


async def test_stop_when_one_rests(autojump_clock: MockClock) -> None:
    """One that rests after a failure is not drained and does not hold up the end."""

    story = Story()
    shaky = failing(story, OSError("boom"), times=99)
    supervisor = Supervisor([steady(story, "nri"), shaky], chance=no_chance)
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        await supervisor.stop(grace_s=15)

    assert story.lines == ["nri starts", "starts", "nri drains", "nri ends"]


async def test_stop_while_it_still_starts(autojump_clock: MockClock) -> None:
    """A stop that comes while the first one starts keeps the rest from starting."""

    story = Story()

    async def slow(**_task_status: object) -> None:
        await trio.sleep_forever()

    supervisor = Supervisor([Plugin(name="slow", run=slow), steady(story, "dra")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await wait_all_tasks_blocked()
        await supervisor.stop(grace_s=15)

    assert story.lines == []
    assert [status.phase for status in supervisor.statistics().plugins] == [Phase.STOPPED] * 2


async def test_cancel_when_a_run_fails_while_it_ends(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An error on the way out is told, and the cancel is not lost for it."""

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        async def linger() -> None:
            await trio.sleep_forever()

        async def trip() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise HostError("x", "failed")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(linger)
            nursery.start_soon(trip)
            task_status.started()

    supervisor = Supervisor([Plugin(name="x", run=run)])
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            scope.cancel()

    assert scope.cancelled_caught
    assert "plugin failed" in caplog.text


async def test_wait_serving_when_it_comes_back(autojump_clock: MockClock) -> None:
    """A caller may wait until all serve at once."""

    story = Story()
    supervisor = Supervisor([failing(story, OSError("boom"), times=2)], chance=no_chance)
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(supervisor.run)
        await supervisor.wait_serving()

        assert trio.current_time() - start == 3
        nursery.cancel_scope.cancel()
