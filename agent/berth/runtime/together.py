"""Two calls at the same time, with the error of one instead of a group of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from berth.errors import BerthError

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


async def together(
    first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
) -> tuple[A, B]:
    """Wait for both; gives what they give.

    When one fails the other is cancelled and waited for, so nothing is left under way.

    Raises:
        BerthError: What the one that failed first raised.
    """
    of_first: list[A] = []
    of_second: list[B] = []
    faults: list[BerthError] = []

    async def run(call: Callable[[], Awaitable[T]], results: list[T]) -> None:
        try:
            results.append(await call())
        except BerthError as error:
            faults.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, first, of_first)
        nursery.start_soon(run, second, of_second)
    if faults:
        raise faults[0]
    return of_first[0], of_second[0]
