"""Devices that rest after they were given up: kept over a restart, and for no longer than asked."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.unit.node.claims.waiting import DOWN, Scene, awaited
from tests.unit.node.machine import FAST


async def test_device_that_is_given_up_at_once_is_written_down(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """What the first look of a life brings is no less to be kept than what comes later."""

    scene = Scene()
    await scene.waits.load()
    scene.hear(awaited(allocated_at="2023-11-14T22:00:00Z"))
    scene.asks.tell(nic_fast_0=DOWN)
    await nursery.start(scene.waits.run)
    await wait_all_tasks_blocked()

    assert scene.waits.rests.get() == {FAST}
    assert scene.kept.until_s == {FAST: scene.now_s() + 300}
    nursery.cancel_scope.cancel()
