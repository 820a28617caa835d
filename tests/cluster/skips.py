"""Devices for which kubelet does not ask berth: settings, the site, and what is looked at.

Virtual consoles stand for what is only counted: nobody uses them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.node import SLICES
from tests.cluster.site import MANIFESTS, PodView, Site
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, make_token

COUNTED = """
[[generic]]
name = "counted"
match = { path = "/dev/tty1[0-1]" }
skip_node_operations = "all"
"""
NAMES = ("counted-tty10", "counted-tty11")
GATE = "DRAOptionalNodeOperations"
ASKED = request("one", of="generic", cel='own.group == "counted"')
NOT_IN_FORCE = "skip_node_operations is not in force"


@pytest.fixture
def lab(alpha_site: Site) -> Iterator[Site]:
    """A site whose gates are all on, and a daemon that may see claims."""
    for name in ("rbac.yaml", "admission.yaml"):
        alpha_site.api.apply((MANIFESTS / name).read_text())
    alpha_site.node.write(TOKEN, make_token(alpha_site))
    yield alpha_site
    if alpha_site.node.gates is not None:
        alpha_site.node.change_gates(None)


def start(site: Site, config: str, credentials: str = WITH_TOKEN) -> None:
    """Start the daemon, its sockets held by another, until its slices stand."""
    site.node.start_berthd(config + credentials, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)


def wait_skipping(site: Site, *operations: str) -> None:
    """Wait until each slice of the node with a device says that kubelet skips these."""

    def told() -> list[list[str]]:
        slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
        return [one["spec"].get("skipNodeOperations", []) for one in slices]

    site.wait_same("what is skipped", told, [list(operations)], limit_s=30)


def results(site: Site, claim: str) -> list[Object]:
    """What the scheduler gave to a claim."""
    found = site.api.get(site.claim_path(claim))
    return list(found["status"]["allocation"]["devices"]["results"])


def holds(site: Site) -> list[tuple[str, str, list[str]]]:
    """Each held device, how it is held and by which pods."""
    return [(one["device"], one["state"], one["pods"]) for one in site.listed("holds")]


def consoles(pod: PodView) -> list[str]:
    """The consoles that the container has."""
    return pod.run("sh", "-c", "ls /dev | grep ^tty1 || true").split()
