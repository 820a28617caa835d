"""Collects the figures of all rows; they are shown when the run ends, and kept as JSON."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.figures import Row, document, table
from tests.cluster import bed as beds
from tests.cluster import parts
from tests.cluster.bed import Bed, Cluster
from tests.cluster.session import classes, namespace
from tests.cluster.site import MANIFESTS
from tests.lab.session import lab, site

__all__ = ["classes", "lab", "namespace", "site"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_ROWS = pytest.StashKey[list[Row]]()

Report = Callable[[Row], None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.bench)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Takes a row."""
    return request.config.stash.setdefault(_ROWS, []).append


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """One run of the test bed."""
    lacks = beds.missing()
    if lacks:
        pytest.skip(f"no cluster on this machine: it lacks {', '.join(lacks)}")
    parts.install_tools()
    made = Bed()
    yield made
    made.close()


@pytest.fixture(scope="session")
def cluster(bed: Bed) -> Cluster:
    """A control plane with our classes."""
    made = bed.start_cluster()
    made.api.apply((MANIFESTS / "deviceclasses.yaml").read_text())
    return made


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = config.stash.get(_ROWS, [])
    if not rows:
        return
    terminalreporter.section("FIGURES")
    for line in table(rows):
        terminalreporter.line(line)
    path = Path(os.environ.get("BERTH_BENCH_JSON") or ROOT / ".cache" / "bench.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(rows, _machine()) + "\n")
    terminalreporter.line(f"kept in {path}")


def _machine() -> dict[str, str]:
    """Where the figures come from."""
    load = Path("/proc/loadavg").read_text().split()[0]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return {
        "cpus": str(os.cpu_count()),
        "load_at_end": load,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }
