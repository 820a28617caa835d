"""Scenarios on a rehearsal's stage; `worlds` says where they run."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from berth.rehearsal.stage import Setting, Stage
from berth.rehearsal.world import ROOT
from tests.integration.rehearsal.players import until
from tests.integration.rehearsal.worlds import RESULTS, Worlds, WorldTest, empty_world, note

HERE = Path(__file__).parent
INSIDE = RESULTS in os.environ
GROUP = {"name": "spare", "match": {"name": [f"nic{number}" for number in range(32)]}}

Stages = Callable[..., Awaitable[Stage]]

_worlds: list[Worlds] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that set a stage into worlds, unless this is one."""
    modules: dict[Path, list[str]] = {}
    for place, item in enumerate(items):
        if INSIDE or not item.path.is_relative_to(HERE):
            continue
        if "stages" in getattr(item, "fixturenames", ()):
            modules.setdefault(item.path, []).append(item.nodeid)
            parent = cast("pytest.Collector", item.parent)
            items[place] = WorldTest.from_parent(parent, name=item.name, inner=item, worlds=_worlds)
    if modules and not config.option.collectonly:
        _worlds.append(Worlds(modules, config.rootpath))


def pytest_sessionfinish() -> None:
    """End the worlds that nobody waits for any more."""
    while _worlds:
        _worlds.pop().close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the daemons logged beside a failure."""
    report = yield
    if report.failed and INSIDE:
        for log in sorted(ROOT.glob("*.log")):
            report.sections.append((log.name, log.read_text(encoding="utf-8", errors="replace")))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell the session outside."""
    if INSIDE:
        note(report)


@pytest.fixture(autouse=True)
def _own_world() -> Iterator[None]:
    """Leave nothing to the next test."""
    yield
    if INSIDE:
        empty_world()


@pytest.fixture
def stages(_own_world: None, nursery: trio.Nursery) -> Iterator[Stages]:
    """Sets stages: with so many NICs, the daemon started unless it is said otherwise."""

    async def set_stage(nics: int = 1, *, start: bool = True, **setting: Any) -> Stage:
        config = {"nic": {"group": [GROUP]}, **setting.pop("config", {})}
        stage = Stage(Setting(config=config, **setting))
        await nursery.start(stage.run)
        for number in range(nics):
            await stage.world.add_nic(f"nic{number}", mac=mac(number))
        if start:
            await stage.start()
            await until(lambda: len(stage.cluster.devices()) == nics)
        return stage

    yield set_stage
    nursery.cancel_scope.cancel()


def mac(number: int) -> str:
    """Address of the NIC of a number."""
    return f"02:00:5e:10:00:{number:02x}"
