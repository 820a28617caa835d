"""Two calls at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from berth.errors import HostError, KubeError
from berth.runtime.together import together


def after(seconds: float, outcome: object) -> Callable[[], Awaitable[object]]:
    """A call that takes some time and gives something, or raises it."""

    async def call() -> object:
        await trio.sleep(seconds)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


@pytest.mark.parametrize(("one_s", "other_s"), [(1, 3), (3, 1)])
async def test_both_are_waited_for_at_once(
    autojump_clock: MockClock, one_s: float, other_s: float
) -> None:
    """It takes as long as the longer one."""

    assert await together(after(one_s, "a"), after(other_s, 2)) == ("a", 2)
    assert trio.current_time() == 3


@pytest.mark.parametrize(
    ("first", "second"), [(HostError("x", "early"), "late"), ("late", HostError("x", "early"))]
)
async def test_error_of_one_ends_the_other(
    autojump_clock: MockClock, first: object, second: object
) -> None:
    """It is raised as it is, and nobody waits for what is not wanted any more."""

    times = {True: 1, False: 100}

    with pytest.raises(HostError, match="early"):
        await together(
            after(times[isinstance(first, HostError)], first),
            after(times[isinstance(second, HostError)], second),
        )

    assert trio.current_time() == 1


async def test_first_error_counts(autojump_clock: MockClock) -> None:
    """Of two that fail the one that came first is told."""

    with pytest.raises(KubeError, match="first"):
        await together(after(2, HostError("x", "second")), after(1, KubeError("y", "first")))


async def test_what_cannot_be_cancelled_is_waited_for(autojump_clock: MockClock) -> None:
    """A write that has begun has ended when the other's error is told."""

    ended: list[float] = []

    async def write() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        ended.append(trio.current_time())

    with pytest.raises(HostError):
        await together(write, after(1, HostError("x", "full")))

    assert ended == [5]


async def test_cancel_reaches_both(autojump_clock: MockClock) -> None:
    """The caller's time is over for each of them."""

    with trio.move_on_after(1) as scope:
        await together(after(10, 1), after(20, 2))

    assert scope.cancelled_caught
    assert trio.current_time() == 1


async def test_defect_is_a_group(autojump_clock: MockClock) -> None:
    """What is no error of ours is no answer either."""

    with pytest.raises(BaseException, match="Trio nursery") as caught:
        await together(after(1, ZeroDivisionError()), after(2, 1))

    assert "ZeroDivisionError" in repr(caught.value)
