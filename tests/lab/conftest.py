"""Fixtures of the tests on the emulated machine, and what is told when one fails."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster.session import bed, classes, cluster, namespace, pytest_runtest_setup
from tests.cluster.session import pytest_runtest_makereport as with_logs
from tests.cluster.session import pytest_terminal_summary as cluster_summary
from tests.lab.session import NODE, REFUSED, lab, site

__all__ = ["bed", "classes", "cluster", "lab", "namespace", "pytest_runtest_setup", "site"]

HERE = Path(__file__).parent
TAIL_LINES = "80"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield from with_logs(item)
    node = item.config.stash.get(NODE, None)
    if report.failed and node is not None:
        journal = ("journalctl", "-q", "--no-pager", "-n", TAIL_LINES)
        for title, which in {"berthd": ("-u", "berthd*"), "kernel": ("-k",), "all": ()}.items():
            with contextlib.suppress(HostError):
                report.sections.append((f"lab: {title}", node.run(*journal, *which)))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    cluster_summary(terminalreporter, config)
    if told := config.stash.get(REFUSED, ""):
        terminalreporter.section("LAB TESTS DID NOT RUN", red=True, bold=True)
        terminalreporter.line(told)
