"""What only a real GPU can show: one folder, one command, and a report of what was seen.

Nothing here changes a setting, resets a GPU or touches its MIG layout; what is done to a GPU is
work of a process of ours. Where there is no driver every test is skipped, and says so.

`BERTH_HARDWARE_LIBRARY` in the environment puts a file in the place of the driver's: so the folder
itself is tried on machines without a GPU, by the stand-in, as far as that goes.

Source: GH §8.3.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.hardware import cuda
from tests.hardware.nvmltrace import Call, from_json

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = "BERTH_HARDWARE_LIBRARY"
REPORT = "REPORT"
"""Name of the report that is to be kept, in the environment; none is kept without."""

_TOLD = pytest.StashKey[dict[str, Any]]()

Report = Callable[[str, Any], None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@attrs.frozen(kw_only=True)
class Gear:
    """What this machine has.

    Attributes:
        library: Path of NVML's library; empty for the loader's.
        real: It is the driver's own.
    """

    library: str
    real: bool

    def ask(self, module: str, *arguments: str, timeout_s: float = 60) -> Any:
        """Run a program of this folder and give what it told on its last line; blocks."""
        command = [sys.executable, "-m", f"tests.hardware.{module}", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def gear() -> Gear:
    """A library that speaks of GPUs."""
    library = os.environ.get(LIBRARY, "")
    if library:
        return Gear(library=library, real=False)
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pytest.skip("SKIPPED FOR WANT OF A GPU: no libnvidia-ml.so.1, so no NVIDIA driver, is here")
    if not Path("/proc/driver/nvidia/version").exists():
        pytest.skip("SKIPPED FOR WANT OF A GPU: the module nvidia is not loaded")
    return Gear(library="", real=True)


@pytest.fixture(scope="session")
def calls(gear: Gear) -> tuple[Call, ...]:
    """Everything that NVML says, as of the start."""
    return from_json(gear.ask("nvmltrace", *filter(None, [gear.library])))


@pytest.fixture(scope="session")
def addresses(calls: tuple[Call, ...]) -> tuple[str, ...]:
    """The GPUs; a machine with a driver and none is skipped."""
    found = tuple(dict.fromkeys(call.of for call in calls if call.of and "/" not in call.of))
    if not found:
        pytest.skip("SKIPPED FOR WANT OF A GPU: the driver lists none")
    return found


@pytest.fixture(scope="session")
def compute(gear: Gear) -> None:
    """Skips where nothing can be computed."""
    if not cuda.there():
        pytest.skip(f"SKIPPED FOR WANT OF {cuda.LIBRARY}: nothing can be computed here")


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Takes what was seen, under a name of its own."""
    return request.config.stash.setdefault(_TOLD, {}).__setitem__


@pytest.fixture
def working(gear: Gear, compute: None) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs that compute; what still runs is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.hardware.cuda", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    told = config.stash.get(_TOLD, {})
    name = os.environ.get(REPORT, "")
    if not told:
        return
    outcomes = {
        report.nodeid.rpartition("::")[2]: outcome
        for outcome in ("passed", "failed", "skipped", "error")
        for report in terminalreporter.getreports(outcome)
    }
    document = {
        "schema": 1,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "driver": "stand-in" if os.environ.get(LIBRARY) else "the machine's own",
        "outcomes": outcomes,
        "seen": told,
    }
    for key, seen in told.items():
        if key != "calls":
            terminalreporter.write_line(f"{key}: {json.dumps(seen)}")
    if name:
        path = HERE / "reports" / f"{name}.json"
        path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")
        terminalreporter.write_line(f"report: {path.relative_to(ROOT)}")
