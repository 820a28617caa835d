"""Fixtures of the tests under a real systemd, and what is told when one fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster import debian
from tests.cluster.rundir import RunFolder
from tests.nspawn import container as containers
from tests.nspawn.container import Container
from tests.nspawn.node import Node
from tests.nspawn.rootfs import rootfs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RELEASES = tuple(os.environ.get("RELEASES", "12 13").split())
"""Debian releases to test on; `testing` is the third that there is."""
TOOLS = {
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/bin/systemd-analyze": "systemd",
    "/usr/bin/systemd-nspawn": "systemd-container",
}
TAIL_LINES = 80
_NODES = pytest.StashKey[list[Node]]()
_REFUSED = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nspawn)


class Bed:
    """One run: its folder, and the containers that were started in it."""

    def __init__(self, nodes: list[Node]) -> None:
        self._folder = RunFolder()
        self._nodes = nodes
        self._number = 0

    def boot(self, release: str, also: tuple[str, ...] = ()) -> Node:
        """A container of a release in which nothing is installed yet but further packages."""
        self._number += 1
        name = f"debian{release}-{self._number}"
        made = Container(
            name, rootfs(release, also), folder=self._folder.path, cgroup=self._folder.cgroup
        )
        node = Node(made)
        self._nodes.append(node)
        made.boot()
        return node

    def end(self, node: Node) -> None:
        """End one of them."""
        self._nodes.remove(node)
        node.container.close()

    def close(self) -> None:
        """End all of them."""
        for node in list(self._nodes):
            self.end(node)
        self._folder.close()


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """The run; every container ends with it."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    # A root file system takes a minute: its progress must be seen.
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        _require_all(request.config)
        for release in RELEASES:
            rootfs(release)
    made = Bed(request.config.stash.setdefault(_NODES, []))
    yield made
    made.close()


def _require_all(config: pytest.Config) -> None:
    """Fail where everything must be there (`CI=true`), else skip and say so at the end too."""
    lacks = containers.missing()
    if not lacks:
        try:
            debian.install(TOOLS)
        except HostError as error:
            lacks = [str(error)]
    if not lacks:
        return
    told = f"no containers on this machine: it lacks {', '.join(lacks)}"
    if os.environ.get("CI") == "true":
        pytest.fail(told, pytrace=False)
    config.stash[_REFUSED] = told
    pytest.skip(told)


@pytest.fixture(scope="session")
def package() -> Path:
    """The package: `$BERTH_DEB`, else the one that `make deb` makes of this tree."""
    if given := os.environ.get("BERTH_DEB"):
        return Path(given)
    subprocess.run(["make", "--silent", "deb"], cwd=ROOT, check=True)
    return max((ROOT / "dist").glob("berthd_*.deb"), key=lambda path: path.stat().st_mtime)


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
