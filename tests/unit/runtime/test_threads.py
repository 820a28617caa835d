"""Limiters, and the decision between done and late."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from berth.errors import HostError
from berth.runtime.threads import (
    Decision,
    Verdict,
    end_waits_at,
    probe_threads,
    run_in_thread,
    run_in_time,
    thread_limiter,
)


async def test_limiter_of_a_kind_is_one() -> None:
    """Each kind of work has one limiter in a run, with the size it was first asked with."""

    first = thread_limiter("disk", total=2)
    await trio.lowlevel.checkpoint()

    assert first is thread_limiter("disk", total=9)
    assert first is not thread_limiter("netlink")
    assert (first.total_tokens, thread_limiter("netlink").total_tokens) == (2, 4)


async def test_run_in_thread_is_limited_by_kind() -> None:
    """A kind whose threads all hang does not hold up another kind."""

    thread_limiter("disk", total=1)
    release = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_in_thread, "disk", release.wait)
        nursery.start_soon(run_in_thread, "disk", release.wait)
        await trio.testing.wait_all_tasks_blocked()

        assert thread_limiter("disk").statistics().tasks_waiting == 1
        assert await run_in_thread("netlink", lambda: 7) == 7
        release.set()


async def test_cancel_waits_for_the_thread() -> None:
    """Nothing is left half done."""

    release, done = threading.Event(), threading.Event()

    def work() -> None:
        release.wait()
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_in_thread, "disk", work)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        threading.Timer(0.1, release.set).start()

    assert done.is_set()


async def test_cancel_waits_for_no_thread_that_is_not_begun() -> None:
    """Behind one that hangs."""

    thread_limiter("disk", total=1)
    release = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_in_thread, "disk", release.wait)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await run_in_thread("disk", release.wait)
        release.set()


async def test_end_waits_for_no_thread(autojump_clock: MockClock) -> None:
    """Neither who waits already nor who comes later, shielded or not, waits for one that hangs."""

    release = threading.Event()
    ended: list[float] = []

    async def wait() -> None:
        with pytest.raises(HostError, match="disk: gave no answer before the end"):
            await run_in_thread("disk", release.wait)
        ended.append(trio.current_time())

    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope(shield=True):
            nursery.start_soon(wait)
            await trio.sleep(1)
            end_waits_at(began_s + 5)
            end_waits_at(began_s + 9)
            nursery.start_soon(wait)
            await trio.sleep(6)
        await wait()
    release.set()

    assert [at_s - began_s for at_s in ended] == pytest.approx([5, 5, 7])


def test_decision_when_done_first() -> None:
    """What is done cannot become late."""

    decision = Decision()

    assert decision.verdict is None
    assert (decision.claim_done(), decision.claim_late()) == (True, False)
    assert decision.claim_done()
    assert decision.verdict is Verdict.DONE


def test_decision_when_late_first() -> None:
    """What is late cannot become done."""

    decision = Decision()

    assert (decision.claim_late(), decision.claim_done()) == (True, False)
    assert decision.verdict is Verdict.LATE


def _claim(claim: Callable[[], bool], barrier: threading.Barrier, told: list[bool]) -> None:
    barrier.wait()
    told.append(claim())


def test_decision_when_both_claim_at_once() -> None:
    """Of two threads that claim in one moment exactly one is told yes, each time."""

    for _ in range(200):
        decision = Decision()
        barrier = threading.Barrier(2)
        told: list[bool] = []

        def claim(
            late: bool, barrier: threading.Barrier, decision: Decision, told: list[bool]
        ) -> None:
            barrier.wait()
            told.append(decision.claim_late() if late else decision.claim_done())

        threads = [
            threading.Thread(target=claim, args=(late, barrier, decision, told))
            for late in (True, False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [False, True]


async def test_run_in_time_when_in_time() -> None:
    """Work that ends in time gives its result."""

    def work(decision: Decision) -> str:
        assert decision.claim_done()
        return "attached"

    async with trio.open_nursery() as nursery:
        assert await run_in_time(nursery, work, limit_s=60, kind="x") == "attached"


async def test_run_in_time_when_it_fails_in_time() -> None:
    """What the work raises in time reaches the caller."""

    def work(_decision: Decision) -> str:
        raise OSError("boom")

    async with trio.open_nursery() as nursery:
        with pytest.raises(OSError, match="boom"):
            await run_in_time(nursery, work, limit_s=60, kind="x")


async def test_run_in_time_when_late() -> None:
    """The caller is answered when the time is over, and the work undoes itself afterwards."""

    release = threading.Event()
    undone: list[bool] = []

    def work(decision: Decision) -> str:
        release.wait()
        if not decision.claim_done():
            undone.append(True)
        return "attached"

    async with trio.open_nursery() as nursery:
        assert await run_in_time(nursery, work, limit_s=0, kind="x") is None
        assert undone == []
        release.set()

    assert undone == [True]


async def test_run_in_time_when_it_fails_late(caplog: pytest.LogCaptureFixture) -> None:
    """What late work raises is logged, since nobody waits for it."""

    release = threading.Event()

    def work(_decision: Decision) -> str:
        release.wait()
        raise OSError("boom")

    async with trio.open_nursery() as nursery:
        assert await run_in_time(nursery, work, limit_s=0, kind="x") is None
        release.set()

    assert "late work failed" in caplog.text
    assert "boom" in caplog.text


async def test_run_in_time_when_done_is_claimed_just_before(mock_clock: MockClock) -> None:
    """Work that claimed "done" before the time was over is waited for, and counts."""

    claimed = threading.Event()
    release = threading.Event()
    results: list[str | None] = []

    def work(decision: Decision) -> str:
        decision.claim_done()
        claimed.set()
        release.wait()
        return "attached"

    async def attach(nursery: trio.Nursery) -> None:
        results.append(await run_in_time(nursery, work, limit_s=1, kind="x"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attach, nursery)
        await trio.to_thread.run_sync(claimed.wait)
        mock_clock.jump(2)
        await trio.testing.wait_all_tasks_blocked()
        assert results == []
        release.set()

    assert results == ["attached"]


async def test_run_in_time_when_cancelled() -> None:
    """Work whose caller was cancelled counts as late, and undoes itself."""

    release = threading.Event()
    verdicts: list[bool] = []

    def work(decision: Decision) -> str:
        release.wait()
        verdicts.append(decision.claim_done())
        return "attached"

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_in_time(nursery, work, limit_s=60, kind="x")
        release.set()

    assert verdicts == [False]


async def test_probe_threads_while_other_work_hangs() -> None:
    """Threads that hang in work of any kind do not fail it: there are others to be had."""

    thread_limiter("disk", total=1)
    release = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_in_thread, "disk", release.wait)
        await trio.testing.wait_all_tasks_blocked()
        await probe_threads()
        release.set()


def test_probe_threads_when_the_system_gives_none() -> None:
    """It fails when no worker thread can be had."""

    # A stack of 128 TiB is more than there are addresses.
    program = """
import threading, trio
from berth.runtime.threads import probe_threads
threading.stack_size(1 << 47)
trio.run(probe_threads)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "RuntimeError: can't start new thread"
