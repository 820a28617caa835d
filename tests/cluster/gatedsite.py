"""A cluster beside the first, with feature gates of its own, and sites in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.cluster.bed import Bed, Cluster
from tests.cluster.conftest import clean_node
from tests.cluster.session import made_namespace
from tests.cluster.site import MANIFESTS, Site


@contextlib.contextmanager
def gated_cluster(bed: Bed, *gates: str) -> Iterator[Cluster]:
    """One whose every component has these gates on, with the shipped DeviceClasses."""
    with bed.cluster(gates=dict.fromkeys(gates, True)) as cluster:
        cluster.api.apply((MANIFESTS / "deviceclasses.yaml").read_text())
        yield cluster


@contextlib.contextmanager
def site_in(cluster: Cluster) -> Iterator[Site]:
    """Its node with kubelet 1.37 and containerd 2.4, in order again afterwards."""
    node = contextlib.contextmanager(clean_node)
    namespace = contextlib.contextmanager(made_namespace)
    with node(cluster, "1.37+2.4") as one, namespace(cluster) as name:
        yield Site(cluster, one, name)
