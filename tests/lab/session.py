"""What every test on the emulated machine has: the machine as a node, and a site on it.

Each conftest of such tests takes these fixtures in by their names, and with them those of
`tests.cluster.session`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import debian
from tests.cluster.bed import Bed, Cluster
from tests.cluster.requirement import progress_shown, require_all
from tests.lab import machine as machines
from tests.lab import software
from tests.lab.labnode import LabNode
from tests.lab.labsite import LabSite
from tests.lab.machine import READY, Machine

NODE = pytest.StashKey[LabNode]()
"""The machine, once it is on."""
REFUSED = pytest.StashKey[str]()
"""Why there is none."""


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, bed: Bed, cluster: Cluster) -> Iterator[LabNode]:
    """The machine, on, as a Ready node of the cluster, with our package in it and not running."""
    with progress_shown(request.config):
        require_all(
            request.config,
            "emulated machine",
            lacks=machines.missing(),
            install=lambda: debian.install(software.TOOLS),
            refused=REFUSED,
        )
        image, disk = software.installed(software.package())
    own = bed.folder.path / "lab"
    own.mkdir()
    machines.copy_disk(disk, own / "disk.qcow2")
    machine = Machine(cluster.control.box, own, image, own / "disk.qcow2")
    machine.start(snapshot=READY)
    node = LabNode(cluster.control, machine)
    request.config.stash[NODE] = node
    node.join()
    yield node
    machine.stop()


@pytest.fixture
def site(cluster: Cluster, classes: None, lab: LabNode, namespace: str) -> Iterator[LabSite]:
    """The machine, our daemon and a namespace; all in order again after the test.

    No pod's network is left while our daemon still runs: whatever it had open there would keep it
    alive, and a NIC in it (NW §10 row 12).
    """
    made = LabSite(cluster, lab, namespace)
    yield made
    cluster.drain(lab.name)
    try:
        made.wait_same("networks of pods", lab.namespaces, [], limit_s=60)
    finally:
        lab.tidy()
