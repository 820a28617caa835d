"""Fixtures of the tests of the node in a VM that a user can have."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster import debian
from tests.cluster.requirement import progress_shown, require_all
from tests.cluster.rundir import RunFolder
from tests.nspawn import bed as nspawn
from tests.vagrant import roots
from tests.vagrant.host import Host

HERE = Path(__file__).parent
_REFUSED = pytest.StashKey[str]()
TOOLS = {"/usr/bin/mmdebstrap": "mmdebstrap"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vagrant)


@pytest.fixture(scope="session")
def root(request: pytest.FixtureRequest) -> None:
    """All that a machine with vagrant is made of is there."""
    with progress_shown(request.config):
        require_all(
            request.config,
            "vagrant",
            lacks=nspawn.missing(),
            install=lambda: debian.install(TOOLS),
            refused=_REFUSED,
        )
        roots.root()


@pytest.fixture(scope="session")
def box(request: pytest.FixtureRequest, root: None) -> Path:
    """The folder with the box."""
    with progress_shown(request.config):
        return roots.box()


@pytest.fixture(scope="module")
def bare_host(root: None) -> Iterator[Host]:
    """A machine with vagrant, without a box or a package."""
    yield from _host({})


@pytest.fixture
def host(box: Path, tmp_path: Path) -> Iterator[Host]:
    """The same with both, as a user has them who wants to start a node."""
    shutil.copy(nspawn.package(), tmp_path)
    yield from _host({box: roots.BOX, tmp_path: roots.DIST})


def _host(binds: Mapping[Path, str]) -> Iterator[Host]:
    folder = RunFolder()
    made = Host(folder.path / "host", binds)
    made.start()
    yield made
    made.close()
    folder.close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if told := config.stash.get(_REFUSED, ""):
        terminalreporter.section("VAGRANT TESTS DID NOT RUN", red=True, bold=True)
        terminalreporter.line(told)
