"""Calls that look at NICs: what hangs holds up no other work, and answers are asked for first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from berth.errors import HostError
from berth.node.health.rounds import Unanswerable
from berth.node.watches.calls import OPEN_S, Calls, in_thread

T = TypeVar("T")


async def at_once(work: Callable[[], T], /) -> T:
    """Do here what blocks."""
    await trio.lowlevel.checkpoint()
    return work()


async def test_looks_that_hang_take_no_place_of_other_work() -> None:
    """A hundred of them, and trio's own threads are as free as before."""

    gate = threading.Event()
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(in_thread, gate.wait)
            with trio.fail_after(5):
                await trio.testing.wait_all_tasks_blocked()
                assert await trio.to_thread.run_sync(lambda: "free") == "free"
            # Nobody waits for them at the end either.
            nursery.cancel_scope.cancel()
    finally:
        gate.set()


async def test_what_must_answer_first_is_asked_now_and_then(autojump_clock: MockClock) -> None:
    """Looks in a row need one answer."""

    asked: list[float] = []
    calls = Calls(at_once, first=lambda: asked.append(trio.current_time()))
    for _ in range(4):
        assert await calls.make(lambda: "seen", patience_s=1) == "seen"
        await trio.sleep(OPEN_S / 2)

    assert asked == [0, OPEN_S]


@pytest.mark.parametrize("place", ["first", "look"])
async def test_a_refusal_is_no_answer(autojump_clock: MockClock, place: str) -> None:
    """Of what is asked first as of the look itself; the next one is asked all the same."""

    refuses = {place}

    def refuse(where: str) -> str:
        if where in refuses:
            raise HostError("host", "too many open files")
        return "seen"

    def ask() -> None:
        refuse("first")

    calls = Calls(at_once, first=ask)
    answer = await calls.make(lambda: refuse("look"), patience_s=1)
    assert isinstance(answer, Unanswerable)
    assert "too many open files" in answer.why
    refuses.clear()
    assert await calls.make(lambda: refuse("look"), patience_s=1) == "seen"


@pytest.mark.parametrize("ended_by", ["no thread", "cancel"])
async def test_question_that_never_began_blinds_nobody(
    autojump_clock: MockClock, ended_by: str
) -> None:
    """A machine may have no thread for us, or the watch be ended while it waits for one."""

    is_well = False

    async def aside(work: Callable[[], T], /) -> T:
        if is_well:
            return await at_once(work)
        if ended_by == "cancel":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise RuntimeError("can't start new thread")

    calls = Calls(aside, first=lambda: None)
    with trio.move_on_after(0.1), contextlib.suppress(RuntimeError):
        await calls.make(lambda: "seen", patience_s=1)
    is_well = True

    assert await calls.make(lambda: "seen", patience_s=1) == "seen"
