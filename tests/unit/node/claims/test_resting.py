"""Devices that rest after they were given up: kept over a restart, and for no longer than asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from berth.config.bind import REST_LIMIT_S
from berth.node.claims.resting import FILE, Resting, rest_file
from berth.readiness.demands import Demands
from berth.runtime.files import Folder
from tests.unit.node.claims.waiting import DOWN, START_S, Scene, awaited
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
    assert scene.kept.value == {FAST: scene.now_s() + 300}
    nursery.cancel_scope.cancel()


async def test_device_of_which_nothing_is_asked_any_more_rests_no_longer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Its group lost `bind` while nobody ran; one that is not seen now rests on."""

    scene = Scene(Demands(), rests={FAST: START_S + 300, "nic-usb": START_S + 300})
    seen = scene.inventory.get()
    scene.inventory.set(look(names=()).inventory)
    await scene.waits.load()
    assert not any(one.taints for one in scene.waits.mark(seen).devices)

    await nursery.start(scene.waits.run)
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {FAST, "nic-usb"}
    scene.inventory.set(seen)
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {"nic-usb"}
    assert scene.kept.value == {"nic-usb": START_S + 300}
    nursery.cancel_scope.cancel()


async def test_device_rests_no_longer_when_a_reload_asks_nothing_of_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The operator who takes `bind` away wants it to be given."""

    scene = Scene(rests={FAST: START_S + 300})
    await scene.waits.load()
    await nursery.start(scene.waits.run)
    scene.hear()
    await wait_all_tasks_blocked()
    assert scene.waits.rests.get() == {FAST}

    scene.demands.set(Demands())
    await wait_all_tasks_blocked()
    assert (scene.waits.rests.get(), scene.kept.value) == (frozenset(), {})
    nursery.cancel_scope.cancel()


async def test_what_was_written_counts_as_far_as_it_still_can(tmp_path: Path) -> None:
    """Who has rested meanwhile is left out; a clock that was ahead lets nobody rest for ever."""

    until_s = {"ahead": 1e12, "now": 100.0, "over": 99.0, "rests": 150.5}
    await rest_file(Folder(tmp_path)).write(until_s)
    resting = Resting(rest_file(Folder(tmp_path)))
    await resting.load(100)

    assert resting.names.get() == {"ahead", "rests"}
    assert resting.settle(100, is_ready=lambda name: name == "rests") == 100 + REST_LIMIT_S


async def test_file_has_the_form_that_every_release_wrote(tmp_path: Path) -> None:
    """What is read is what was written."""

    await rest_file(Folder(tmp_path)).write({"b": 2.5, "a": 1})

    assert await rest_file(Folder(tmp_path)).read() == {"a": 1, "b": 2.5}
    content = (tmp_path / FILE).read_bytes()
    assert content == b'{"schema": 1, "until": {"a": 1, "b": 2.5}}'
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("until", ["[]", "null", '{"a": "b"}', '{"a": true}'])
async def test_file_without_moments_is_told_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, until: str
) -> None:
    """The devices are offered again."""

    (tmp_path / FILE).write_text(f'{{"schema": 1, "until": {until}}}')
    resting = Resting(rest_file(Folder(tmp_path)))
    await resting.load(100)

    assert resting.names.get() == frozenset()
    assert (tmp_path / f"{FILE}.bad-1").exists()
    assert "devices that rest are lost, they are offered again" in caplog.text
