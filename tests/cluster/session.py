"""What every test on a cluster has: the bed, one cluster, a namespace, and logs when it fails.

Each conftest of such tests takes these fixtures and hooks in by their names.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster import bed as beds
from tests.cluster import parts
from tests.cluster.api import Object
from tests.cluster.bed import Bed, Cluster
from tests.cluster.gates import Gates
from tests.cluster.requirement import progress_shown, require_all
from tests.cluster.site import MANIFESTS

TAIL_LINES = 60
_BED = pytest.StashKey[Bed]()
_REFUSED = pytest.StashKey[str]()
_LOG_STARTS = pytest.StashKey[dict[Path, int]]()


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """One run of the test bed; ended with everything in it when the session ends."""
    with progress_shown(request.config):
        require_all(
            request.config,
            "cluster",
            lacks=beds.missing(),
            install=parts.install_tools,
            refused=_REFUSED,
        )
    made = Bed()
    request.config.stash[_BED] = made
    yield made
    made.close()


@pytest.fixture(scope="session")
def cluster(bed: Bed) -> Cluster:
    """A cluster whose control plane is up and whose nodes start on demand.

    Its feature gates are the defaults, or those of `$BERTH_GATES`, a value of `Gates`.
    """
    return bed.shared(Gates(os.environ.get("BERTH_GATES", Gates.DEFAULT.value)))


@pytest.fixture(scope="session")
def alpha_cluster(bed: Bed) -> Cluster:
    """Another one beside it, with every alpha and beta gate on."""
    made = bed.shared(Gates.ALL_ALPHA)
    apply_classes(made)
    return made


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own; its pods are gone before the next test."""
    yield from made_namespace(cluster)


def made_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace in which pods are admitted; when it is over, its pods are gone."""
    made: Object = cluster.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "t-"}}
    )
    name = str(made["metadata"]["name"])
    # No pod is admitted before it.
    cluster.api.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    for pod in cluster.api.items(pods):
        cluster.api.delete(f"{pods}/{pod['metadata']['name']}", grace_s=1)
    cluster.api.wait_all(pods, lambda left: not left, what=f"pods of {name} gone")
    cluster.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def classes(cluster: Cluster) -> None:
    """The shipped DeviceClasses."""
    apply_classes(cluster)


def apply_classes(cluster: Cluster) -> None:
    """Give a cluster the shipped DeviceClasses."""
    cluster.api.apply((MANIFESTS / "deviceclasses.yaml").read_text())


def _logs(config: pytest.Config) -> dict[Path, str]:
    """Every log of the bed's boxes, with its box's and its own name; of discarded nodes too."""
    running = config.stash.get(_BED, None)
    if running is None:
        return {}
    return {
        log: f"{log.parent.parent.name}: {log.stem}"
        for folders in ("*", "*/*")
        for log in sorted(running.folder.path.glob(f"{folders}/log/*.log"))
    }


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_LOG_STARTS] = {log: log.stat().st_size for log in _logs(item.config)}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        starts = item.stash.get(_LOG_STARTS, {})
        for log, title in _logs(item.config).items():
            with log.open("rb") as file:
                file.seek(starts.get(log, 0))
                lines = file.read().decode(errors="replace").splitlines()
            if lines:
                report.sections.append((title, "\n".join(lines[-TAIL_LINES:])))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if told := config.stash.get(_REFUSED, ""):
        # Each conftest that takes this hook in calls it.
        config.stash[_REFUSED] = ""
        terminalreporter.section("CLUSTER TESTS DID NOT RUN", red=True, bold=True)
        terminalreporter.line(told)
