"""Fixtures of the tests on the emulated machine, and what is told when one fails."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster import debian
from tests.cluster.bed import Bed, Cluster
from tests.cluster.requirement import progress_shown
from tests.cluster.session import (
    bed,
    classes,
    cluster,
    namespace,
    pytest_runtest_setup,
    pytest_terminal_summary,
)
from tests.cluster.session import pytest_runtest_makereport as with_logs
from tests.lab import machine as machines
from tests.lab import software
from tests.lab.labnode import LabNode
from tests.lab.labsite import LabSite
from tests.lab.machine import READY, Machine

__all__ = [
    "bed",
    "classes",
    "cluster",
    "namespace",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
]

HERE = Path(__file__).parent
TAIL_LINES = "80"
_NODE = pytest.StashKey[LabNode]()
_BEGAN = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, bed: Bed, cluster: Cluster) -> Iterator[LabNode]:
    """The machine, on, as a Ready node of the cluster, with our package in it and not running."""
    with progress_shown(request.config):
        debian.install(software.TOOLS)
        image, disk = software.installed(software.package())
    own = bed.folder.path / "lab"
    own.mkdir()
    machines.copy_disk(disk, own / "disk.qcow2")
    machine = Machine(cluster.control.box, own, image, own / "disk.qcow2")
    machine.start(snapshot=READY)
    node = LabNode(cluster.control, machine)
    request.config.stash[_NODE] = node
    node.join()
    yield node
    machine.stop()


@pytest.fixture
def site(cluster: Cluster, classes: None, lab: LabNode, namespace: str) -> Iterator[LabSite]:
    """The machine, our daemon and a namespace; all in order again after the test."""
    yield LabSite(cluster, lab, namespace)
    cluster.drain(lab.name)
    lab.tidy()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield from with_logs(item)
    node = item.config.stash.get(_NODE, None)
    if report.failed and node is not None:
        journal = ("journalctl", "-q", "--no-pager", "-n", TAIL_LINES)
        for title, which in {"berthd": ("-u", "berthd*"), "kernel": ("-k",), "all": ()}.items():
            with contextlib.suppress(HostError):
                report.sections.append((f"lab: {title}", node.run(*journal, *which)))
    return report
