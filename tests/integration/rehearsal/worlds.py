"""Tests that are run in worlds of their own, by other test runners.

Each module of tests is run by one pytest that is the first process of a new world
(`berth.rehearsal.enter`), a few of them at a time; the world is made empty between two tests. What
became of each test is written down there and told here, as if it had run here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from berth.errors import HostError
from berth.rehearsal.enter import inside
from berth.rehearsal.mounts import unmount
from berth.rehearsal.world import ROOT

RESULTS = "BERTH_REHEARSAL_RESULTS"
"""Names, inside, the file to which results are written."""

LIMIT_S = 300.0
"""How long all tests of a module may take together."""


class WorldTestError(Exception):
    """The test failed in its world; the text is the other runner's."""


class Worlds:
    """Runs the modules; each is begun as soon as there is room for it.

    Args:
        modules: The tests to run, by module, as pytest names them.
        root: Where pytest is run.
    """

    def __init__(self, modules: Mapping[Path, Sequence[str]], root: Path) -> None:
        self._root = root
        self._folder = tempfile.TemporaryDirectory(prefix="berth-worlds-")
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(max_workers=1 + (os.cpu_count() or 1))
        self._outcomes: dict[Path, Future[tuple[Mapping[str, Any], str]]] = {
            module: self._pool.submit(self._run, module, names) for module, names in modules.items()
        }

    def outcome(self, module: Path, name: str) -> None:
        """Wait for a test's outcome, and pass it on by raising what a test raises."""
        results, output = self._outcomes[module].result()
        result = results.get(name)
        if result is None:
            raise WorldTestError(f"{name} was not run in its world:\n{output}")
        if result["outcome"] == "skipped":
            pytest.skip(result["text"])
        if result["outcome"] != "passed":
            raise WorldTestError(result["text"])

    def close(self) -> None:
        """End what still runs."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def _run(self, module: Path, names: Sequence[str]) -> tuple[Mapping[str, Any], str]:
        results = Path(self._folder.name) / f"{module.stem}.json"
        pytest_arguments = ["-q", "--no-header", "-p", "no:cacheprovider", *names]
        command = inside("run", sys.executable, "-m", "pytest", *pytest_arguments)
        with self._lock:
            if self._closed:
                return {}, "the session ended"
            process = subprocess.Popen(
                command,
                env={**os.environ, RESULTS: str(results)},
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += f"\nstill running after {LIMIT_S:.0f} s"
        finally:
            self._running.discard(process)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        return {item["name"]: item for item in map(json.loads, lines)}, output


class WorldTest(pytest.Item):
    """A test that another runner runs in a world."""

    def __init__(self, *, inner: pytest.Item, worlds: list[Worlds], **keywords: Any) -> None:
        super().__init__(**keywords)
        self._inner = inner
        self._worlds = worlds
        # Not the mark by which pytest-trio would take this for a coroutine.
        self.own_markers.extend(mark for mark in inner.own_markers if mark.name != "trio")

    def runtest(self) -> None:
        """Wait for what became of it."""
        try:
            self._worlds[0].outcome(self._inner.path, self._inner.nodeid)
        except HostError as error:
            pytest.skip(f"SKIPPED FOR WANT OF NAMESPACES: {error}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any, **__: Any) -> str:
        """The other runner's own report."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the test is."""
        path, line, _ = self._inner.reportinfo()
        return Path(path), line, self._inner.name


def note(report: pytest.TestReport) -> None:
    """Write down, inside, what became of a test; a failure after it counts as its own."""
    if report.when != "call" and report.passed:
        return
    sections = [f"---- {title} ----\n{text}" for title, text in report.sections]
    result = {
        "name": report.nodeid,
        "outcome": report.outcome,
        "text": "\n".join([report.longreprtext, *sections]),
    }
    with Path(os.environ[RESULTS]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def empty_world() -> None:
    """End every process but this one, and take away every mount and file of a test's own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    own = (str(ROOT), "/run/cdi", "/run/netns")
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    for place in reversed([line.split()[4] for line in table]):
        if place.startswith(own):
            # One mount's end may take others with it: /run/netns is shared with itself.
            with contextlib.suppress(HostError):
                unmount(Path(place))
    for folder in (ROOT, Path("/run")):
        for path in folder.iterdir():
            if path.name not in {"boot_id", ROOT.name}:
                subprocess.run(["rm", "-rf", str(path)], check=True)
    for link in Path("/sys/class/net").iterdir():
        if link.name != "lo":
            subprocess.run(["ip", "link", "delete", link.name], check=False, capture_output=True)
