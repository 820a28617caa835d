"""Killed before any step of prepare and unprepare, the next start ends in one of two states.

Either the claim stands with its GPU bound and its files written, or the GPU is with its driver and
nothing of the claim is left (gpu-and-health.md T18, §9 row 16).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.integration.node.bindingbeds import BindingNode
from tests.integration.node.fates import Driver
from tests.vfio_tree import AWAY, HOME, VfioMachine

pytestmark = pytest.mark.root


@pytest.fixture(name="driver")
def _driver() -> Iterator[Driver]:
    driver = Driver("tests.integration.node.bindingcrash")
    yield driver
    driver.close()


class Scene:
    """A machine, the state of a node on it, and the lives that work on both."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        VfioMachine(folder / "machine")
        self._driver = driver
        self._folder = folder

    def run(self, work: str, *, kill_at: int = 0) -> list[int]:
        """Have one life do some work; gives the numbers of its steps, none if it was killed."""
        told = self._driver.order(work=work, folder=str(self._folder), kill_at=kill_at)
        assert ("killed" in told) is bool(kill_at)
        return [] if kill_at else list(told["changes"])

    def outcome(self) -> str:
        """``bound`` or ``home``; anything else fails."""
        return trio.run(self._outcome)

    async def _outcome(self) -> str:
        machine = VfioMachine(self._folder / "machine")
        node = BindingNode(machine, self._folder / "state")
        await node.recovery.load()
        if node.records.all():
            assert node.record().prepared
            assert machine.state() == AWAY
            assert node.device_nodes()
            return "bound"
        assert machine.state() == HOME
        assert machine.core.nodes() == set()
        assert node.traces() == {}
        return "home"


def crash_at_each(scene: Scene, work: str, *, step: int) -> None:
    """Crash at every so many steps of a piece of work; each time the next start settles it."""
    steps = {"prepare": scene.run("prepare"), "unprepare": scene.run("unprepare")}[work]
    assert len(steps) >= 8
    ends = {}
    for number in steps[::step]:
        if work == "unprepare":
            scene.run("prepare")
        scene.run(work, kill_at=number)
        scene.run("recover")
        ends[number] = scene.outcome()
        # A second start finds nothing to do.
        assert scene.run("recover") == [] or ends[number] == "bound"
        assert scene.outcome() == ends[number]
        scene.run("unprepare")
        assert scene.outcome() == "home"
    assert "home" in ends.values()
    if work == "unprepare":
        # Before the end was written down the claim stands.
        assert ends[steps[0]] == "bound"


@pytest.mark.parametrize("work", ["prepare", "unprepare"])
def test_crash_before_some_steps(driver: Driver, tmp_path: Path, work: str) -> None:
    """Settled by the next start."""

    crash_at_each(Scene(driver, tmp_path), work, step=4)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["prepare", "unprepare"])
def test_crash_before_each_step(driver: Driver, tmp_path: Path, work: str) -> None:
    """Settled by the next start, whichever step was not made."""

    crash_at_each(Scene(driver, tmp_path), work, step=1)


@pytest.mark.slow
def test_crash_in_the_start_after_a_crash(driver: Driver, tmp_path: Path) -> None:
    """The start that settles things may be killed too, at each step; the one after it settles."""

    scene = Scene(driver, tmp_path)
    steps = scene.run("prepare")
    scene.run("unprepare")
    # In the middle the function has neither driver.
    at = steps[len(steps) // 2]
    scene.run("prepare", kill_at=at)
    changes = scene.run("recover")
    assert len(changes) >= 4

    for number in changes:
        scene.run("prepare", kill_at=at)
        scene.run("recover", kill_at=number)
        scene.run("recover")
        assert scene.outcome() == "home"
