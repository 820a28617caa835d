"""Devices that rest after they were given up: kept over a restart, and for no longer than asked."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.readiness.demands import Demands
from tests.unit.node.claims.waiting import DOWN, START_S, Kept, Scene, awaited
from tests.unit.node.machine import FAST, look


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


async def test_device_of_which_nothing_is_asked_any_more_rests_no_longer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its group lost `bind` while nobody ran; one that is not seen now rests on."""

    scene = Scene(Demands(), kept=Kept({FAST: START_S + 300, "nic-usb": START_S + 300}))
    seen = scene.inventory.get()
    scene.inventory.set(look(names=()).inventory)
    await scene.waits.load()
    assert not any(one.taints for one in scene.waits.mark(seen).devices)

    await nursery.start(scene.waits.run)
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {FAST, "nic-usb"}
    scene.inventory.set(seen)
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == scene.kept.until_s.keys() == {"nic-usb"}
    nursery.cancel_scope.cancel()


async def test_device_rests_no_longer_when_a_reload_asks_nothing_of_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The operator who takes `bind` away wants it to be given."""

    scene = Scene(kept=Kept({FAST: START_S + 300}))
    await scene.waits.load()
    await nursery.start(scene.waits.run)
    scene.hear()
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {FAST}

    scene.demands.set(Demands())
    await wait_all_tasks_blocked()
    assert (scene.waits.rests.get(), scene.kept.until_s) == (frozenset(), {})
    nursery.cancel_scope.cancel()
