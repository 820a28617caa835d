"""Scenarios on a rehearsal's stage: each test runs in a world of its own.

The test process itself stays where it is. Each test is run by another pytest that is the first
process of a new world (`berth.rehearsal.enter`), so nothing of one test reaches the next, or this
machine, and whatever a test leaves ends with its world.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from berth.errors import HostError
from berth.rehearsal.enter import inside
from berth.rehearsal.stage import Setting, Stage
from berth.rehearsal.world import ROOT
from tests.integration.rehearsal.players import until

INSIDE = "BERTH_REHEARSAL_TEST"
HERE = Path(__file__).parent
LIMIT_S = 120.0


class WorldTest(pytest.Item):
    """A test that another pytest runs in a world of its own."""

    def __init__(self, *, inner: pytest.Item, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._inner = inner
        # Not the mark by which pytest-trio would take this for a coroutine.
        self.own_markers.extend(mark for mark in inner.own_markers if mark.name != "trio")

    def runtest(self) -> None:
        """Run it there; its report is shown as it is."""
        pytest_arguments = ["-q", "--no-header", "-p", "no:cacheprovider", self._inner.nodeid]
        try:
            command = inside("run", sys.executable, "-m", "pytest", *pytest_arguments)
        except HostError as error:
            pytest.skip(f"SKIPPED FOR WANT OF NAMESPACES: {error}")
        done = subprocess.run(
            command,
            env={**os.environ, INSIDE: "1"},
            cwd=self.config.rootpath,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode != 0:
            raise WorldTestError(f"{done.stdout}{done.stderr}")
        if " skipped" in done.stdout:
            pytest.skip(done.stdout)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any, **__: Any) -> str:
        """The other pytest's own report."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the test is."""
        path, line, _ = self._inner.reportinfo()
        return Path(path), line, self._inner.name


class WorldTestError(Exception):
    """The test failed in its world."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put each test of this folder into a world, unless this is one."""
    if INSIDE in os.environ:
        return
    for place, item in enumerate(items):
        if item.path.is_relative_to(HERE) and "stages" in getattr(item, "fixturenames", ()):
            parent = cast("pytest.Collector", item.parent)
            items[place] = WorldTest.from_parent(parent, name=item.name, inner=item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the daemons logged beside a failure."""
    report = yield
    if report.failed and INSIDE in os.environ:
        for log in sorted(ROOT.glob("*.log")):
            report.sections.append((log.name, log.read_text(encoding="utf-8", errors="replace")))
    return report


GROUP = {"name": "spare", "match": {"name": [f"nic{number}" for number in range(32)]}}

Stages = Callable[..., Awaitable[Stage]]


@pytest.fixture
def stages(nursery: trio.Nursery) -> Iterator[Stages]:
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
