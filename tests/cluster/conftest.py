"""Fixtures of the tests on a real cluster, and what is told when one fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import parts
from tests.cluster.bed import Bed, Cluster
from tests.cluster.gates import Gates
from tests.cluster.node import Node
from tests.cluster.session import (
    alpha_cluster,
    apply_classes,
    bed,
    classes,
    cluster,
    made_namespace,
    namespace,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_terminal_summary,
)
from tests.cluster.site import Site

__all__ = [
    "alpha_cluster",
    "bed",
    "classes",
    "cluster",
    "namespace",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
]

HERE = Path(__file__).parent
# These end parts of a node again and again. Kubelet's pauses after each end add up, so they take
# minutes and a quiet machine; `make outages` runs them.
OUTAGES = frozenset(
    f"test_{name}.py"
    for name in ("crashes", "reboot", "restarts", "runtime", "slices", "successor")
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if item.path.name in OUTAGES:
                item.add_marker(pytest.mark.outage)


@pytest.fixture
def node137(cluster: Cluster) -> Iterator[Node]:
    """A node with kubelet 1.37 and containerd 2.4."""
    yield from _clean_node(cluster, "1.37+2.4")


@pytest.fixture
def node21(cluster: Cluster) -> Iterator[Node]:
    """A node with kubelet 1.37 and containerd 2.1."""
    yield from _clean_node(cluster, "1.37+2.1")


@pytest.fixture
def node134(cluster: Cluster) -> Iterator[Node]:
    """A node with kubelet 1.34 and containerd 1.7."""
    yield from _clean_node(cluster, "1.34+1.7")


@pytest.fixture(params=sorted(parts.KINDS))
def node(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Node]:
    """A node of each kind, one after the other."""
    yield from _clean_node(cluster, request.param)


def _clean_node(cluster: Cluster, kind: str) -> Iterator[Node]:
    """The cluster's node of that kind; a test that leaves it unusable costs the next a new one."""
    node = cluster.node(kind)
    yield node
    if node.name not in cluster.nodes:
        return
    try:
        node.revive()
        cluster.drain(node.name, limit_s=60)
        node.tidy()
    except BaseException:
        cluster.discard(node)
        raise


@contextlib.contextmanager
def _site(cluster: Cluster) -> Iterator[Site]:
    node = contextlib.contextmanager(_clean_node)
    namespace = contextlib.contextmanager(made_namespace)
    with node(cluster, "1.37+2.4") as one, namespace(cluster) as name:
        yield Site(cluster, one, name)


@pytest.fixture
def site(cluster: Cluster, classes: None, node137: Node, namespace: str) -> Site:
    """A node with kubelet 1.37 and containerd 2.4 for NICs and our daemon, and a namespace."""
    return Site(cluster, node137, namespace)


@pytest.fixture
def alpha_site(alpha_cluster: Cluster) -> Iterator[Site]:
    """The same in the cluster whose alpha and beta gates are all on."""
    with _site(alpha_cluster) as site:
        yield site


@pytest.fixture(scope="module")
def shared_alpha_site(alpha_cluster: Cluster) -> Iterator[Site]:
    """The same for all tests of a module."""
    with _site(alpha_cluster) as site:
        yield site


@pytest.fixture
def default_site(bed: Bed) -> Iterator[Site]:
    """The same where no gate is set, whatever the others of the run are set to."""
    cluster = bed.shared(Gates.DEFAULT)
    apply_classes(cluster)
    with _site(cluster) as site:
        yield site


@pytest.fixture(params=list(Gates), ids=lambda gates: str(gates.value))
def gates(request: pytest.FixtureRequest) -> Gates:
    """Each setting of the gates, one after the other."""
    setting: Gates = request.param
    return setting


@pytest.fixture
def gated_site(bed: Bed, gates: Gates) -> Iterator[Site]:
    """The same in the cluster whose gates are so: once with defaults, once with all on."""
    cluster = bed.shared(gates)
    apply_classes(cluster)
    with _site(cluster) as site:
        yield site


@pytest.fixture(scope="module")
def shared_site(cluster: Cluster, classes: None) -> Iterator[Site]:
    """The same for all tests of a module, whose pods and daemon are still there for the next."""
    with _site(cluster) as site:
        yield site


@pytest.fixture
def each_site(cluster: Cluster, classes: None, node: Node, namespace: str) -> Site:
    """The same on a node of each kind, one after the other."""
    return Site(cluster, node, namespace)


@pytest.fixture
def old_site(cluster: Cluster, classes: None, node134: Node, namespace: str) -> Site:
    """The same on a node with kubelet 1.34 and containerd 1.7."""
    return Site(cluster, node134, namespace)
