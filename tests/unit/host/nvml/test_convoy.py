"""Calls of one moment share a thread, and one that hangs keeps only itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from berth.host.nvml.convoy import SHARED_S
from berth.host.nvml.registry import Registry
from berth.host.nvml.values import NoAnswer

DEADLINE_S = 4.0


class Asked:
    """Those who ask at one moment, with what each was told."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.answers: dict[str, Any] = {}

    async def all(self, functions: dict[str, Callable[[], Any]]) -> None:
        """Ask all; returns when each was told something."""
        async with trio.open_nursery() as nursery:
            for key, function in functions.items():
                nursery.start_soon(self.one, key, function)

    async def one(self, key: str, function: Callable[[], Any]) -> None:
        """Ask one."""
        self.answers[key] = await self.registry.ask(
            key, "probe", function, deadline_s=DEADLINE_S, shared=True
        )


@pytest.fixture
def let() -> Iterator[threading.Event]:
    """Lets a call return that hangs; it is let at the end of the test, at the latest."""
    made = threading.Event()
    yield made
    made.set()


async def test_calls_of_one_moment_have_one_thread_and_others_another() -> None:
    """Each has its own answer."""

    asked = Asked()
    keys = ["a", "b", "c"]
    await asked.all(dict.fromkeys(keys, threading.get_ident))
    first = dict(asked.answers)
    assert first.keys() == set(keys)
    assert len(set(first.values())) == 1

    await asked.all({key: partial(str, key) for key in keys})
    assert asked.answers == {key: key for key in keys}
    assert asked.registry.open_calls() == ()


async def test_call_that_hangs_keeps_nobody_from_an_answer(
    let: threading.Event, mock_clock: trio.testing.MockClock
) -> None:
    """The others have theirs when `SHARED_S` is over; it was made once, and ends by itself."""

    asked, made = Asked(), []

    def hang() -> None:
        made.append("made")
        let.wait()

    functions: dict[str, Callable[[], Any]] = {key: partial(str, key) for key in "abcd"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asked.all, {**functions, "b": hang})
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(SHARED_S)
        while len(asked.answers) < 3:
            await trio.testing.wait_all_tasks_blocked()
        assert asked.answers == {"a": "a", "c": "c", "d": "d"}
        mock_clock.jump(DEADLINE_S)

    assert isinstance(asked.answers["b"], NoAnswer)
    assert [call.key for call in asked.registry.open_calls()] == ["b"]
    let.set()
    while asked.registry.open_calls():
        await trio.testing.wait_all_tasks_blocked()
    assert made == ["made"]


async def test_caller_who_leaves_takes_nobody_along(let: threading.Event) -> None:
    """Though it was the first to come, and its call hangs."""

    asked = Asked()
    async with trio.open_nursery() as nursery:
        for key in "bc":
            nursery.start_soon(asked.one, key, partial(str, key))
        with trio.CancelScope() as leaving:
            leaving.cancel()
            await asked.one("a", let.wait)

    assert asked.answers == {"b": "b", "c": "c"}


async def test_error_of_one_is_raised_to_who_asked_alone() -> None:
    """And so is the want of a thread, to each."""

    asked = Asked()

    def fail() -> None:
        raise RuntimeError("a defect")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(asked.one, "a", partial(str, "a"))
        with pytest.raises(RuntimeError, match="a defect"):
            await asked.one("b", fail)

    assert asked.answers == {"a": "a"}


async def test_without_a_thread_nothing_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each who asked is told so, and may ask again."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asked, refused = Asked(), []

    async def ask(key: str) -> None:
        try:
            await asked.one(key, partial(str, key))
        except RuntimeError:
            refused.append(key)

    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        async with trio.open_nursery() as nursery:
            for key in "ab":
                nursery.start_soon(ask, key)
    assert sorted(refused) == ["a", "b"]
    assert asked.registry.open_calls() == ()

    await asked.all({key: partial(str, key) for key in "ab"})
    assert asked.answers == {"a": "a", "b": "b"}
