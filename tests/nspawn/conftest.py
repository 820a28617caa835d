"""Fixtures of the tests under a real systemd, and what is told when one fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster.requirement import progress_shown, require_all
from tests.nspawn import bed as beds
from tests.nspawn.bed import Bed
from tests.nspawn.node import Node

HERE = Path(__file__).parent
RELEASES = tuple(os.environ.get("RELEASES", "12 13").split())
"""Debian releases to test on; `testing` is the third that there is."""
TAIL_LINES = 80
_REFUSED = pytest.StashKey[str]()
_NODES = pytest.StashKey[list[Node]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nspawn)
            # A container is one process' own: with -n each release is run by one of them.
            if isinstance(item, pytest.Function) and "callspec" in vars(item):
                params = item.callspec.params
                release = next(filter(None, map(params.get, ("shared", "bare", "managed"))), "")
                item.add_marker(pytest.mark.xdist_group(f"debian{release}"))


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """The run; every container ends with it."""
    with progress_shown(request.config):
        require_all(
            request.config,
            "containers",
            lacks=beds.missing(),
            install=beds.install_tools,
            refused=_REFUSED,
        )
    made = Bed(request.config.stash.setdefault(_NODES, []))
    yield made
    made.close()


@pytest.fixture(scope="session")
def package() -> Path:
    """The package under test."""
    return beds.package()


@pytest.fixture(scope="session", params=RELEASES)
def shared(request: pytest.FixtureRequest, bed: Bed, package: Path) -> Iterator[Node]:
    """A node of each release with the package installed; all tests share it."""
    node = bed.boot(request.param)
    node.provision(package)
    yield node
    bed.end(node)


@pytest.fixture
def node(shared: Node) -> Iterator[Node]:
    """The same, as it was after the installation, and made so again when the test is over."""
    shared.mark()
    yield shared
    shared.tidy()


@pytest.fixture(params=RELEASES)
def bare(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Node]:
    """A container of the test's own, of each release, in which nothing is installed."""
    node = bed.boot(request.param)
    yield node
    bed.end(node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for node in item.config.stash.get(_NODES, []):
            title = f"{node.container.name}: journal"
            with contextlib.suppress(HostError):
                text = node.run("journalctl", "--no-pager", f"--lines={TAIL_LINES}")
                report.sections.append((title, text))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if told := config.stash.get(_REFUSED, ""):
        terminalreporter.section("SYSTEMD TESTS DID NOT RUN", red=True, bold=True)
        terminalreporter.line(told)
