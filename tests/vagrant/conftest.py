"""Fixtures of the tests of the node in a VM that a user can have."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster import debian
from tests.cluster.rundir import RunFolder
from tests.nspawn import bed as nspawn
from tests.vagrant import roots
from tests.vagrant.host import Host

HERE = Path(__file__).parent
TOOLS = {"/usr/bin/mmdebstrap": "mmdebstrap"}
_REFUSED = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vagrant)


@pytest.fixture(scope="session")
def root(request: pytest.FixtureRequest) -> None:
    """All that a machine with vagrant is made of is there."""
    with _progress_shown(request):
        _require_all(request.config)
        roots.root()


@pytest.fixture(scope="session")
def box(request: pytest.FixtureRequest, root: None) -> Path:
    """The folder with the box."""
    with _progress_shown(request):
        return roots.box()


def _progress_shown(request: pytest.FixtureRequest) -> AbstractContextManager[None]:
    """What is made the first time takes minutes: it must be seen how far it is."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()


def _require_all(config: pytest.Config) -> None:
    """Fail where everything must be there (`CI=true`), else skip and say so at the end too."""
    lacks = nspawn.missing()
    if not lacks:
        try:
            debian.install(TOOLS)
        except HostError as error:
            lacks = [str(error)]
    if not lacks:
        return
    told = f"no vagrant on this machine: it lacks {', '.join(lacks)}"
    if os.environ.get("CI") == "true":
        pytest.fail(told, pytrace=False)
    config.stash[_REFUSED] = told
    pytest.skip(told)


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
