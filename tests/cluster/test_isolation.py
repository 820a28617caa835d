"""Pods of a runtime class whose handler is said to run them in virtual machines.

The handler is a second name of runc, so whatever is not refused really runs.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.bed import Cluster
from tests.cluster.nodeconfig import SECOND_HANDLER
from tests.cluster.pods import phase, runtime_class
from tests.cluster.site import LAB, PodView, Site, device
from tests.cluster.test_peripherals import asking, wait_allocatable

MACHINES = f"""
[nic]
vm_handlers = ["{SECOND_HANDLER}"]
"""
OTHERS = """
[[nic.group]]
name = "old"
match.name = ["nic1"]
door = "plugin"
attach = "nri"
[[generic]]
name = "console"
match = { path = "/dev/tty10" }
door = "plugin"
"""
ISOLATED: dict[str, Any] = {"runtimeClassName": SECOND_HANDLER}
REFUSED = f"runs in a virtual machine (runtime handler {SECOND_HANDLER}), into which"


@pytest.fixture(name="runtime_class", autouse=True)
def _runtime_class(cluster: Cluster) -> None:
    """The cluster has the class."""
    cluster.api.apply(runtime_class(SECOND_HANDLER))


def test_pod_in_a_machine_is_refused_its_link_by_name(each_site: Site) -> None:
    """It never runs, and its event and `berth why` say so; the next pod gets the NIC.

    Runtimes that leave a refused sandbox running are refused its containers.
    """

    site = each_site
    site.open(f"{MACHINES}{LAB}")
    at_home = site.home("nic0")
    site.claim("uplink")
    isolated = site.create("isolated", "uplink", **ISOLATED)
    bare = site.run("bare", **ISOLATED)

    _wait_refused(site, isolated, device("nic0"))

    assert bare.links() == {"lo", "eth0"}
    isolated.delete()
    site.wait_home("nic0", at_home)
    assert site.run("plain", "uplink").links() == {"lo", "eth0", "net1"}


def test_pod_in_a_machine_is_refused_what_it_asks_for_as_a_resource(site: Site) -> None:
    """A link, and a device node that no machine takes."""

    site.open(f"{MACHINES}{OTHERS}", nics=["nic1"], offers=[])
    wanted = {"berth.dev/old": device("nic1", "old"), "berth.dev/console": "console-tty10"}
    for number, (resource, name) in enumerate(wanted.items()):
        wait_allocatable(site, 1, resource)
        pod = site.create(f"isolated-{number}", containers=asking(1, resource), **ISOLATED)

        _wait_refused(site, pod, name)

        pod.delete()


def test_handlers_that_a_reload_names_are_refused_from_then_on(site: Site) -> None:
    """Before it the same class had the NIC: the daemon knows handlers by their names alone."""

    site.open(LAB)
    site.claim("uplink")
    first = site.run("first", "uplink", **ISOLATED)
    assert first.links() == {"lo", "eth0", "net1"}
    first.delete()

    site.node.write("/etc/berth/agent.toml", f"{MACHINES}{LAB}")
    site.berth("reload")

    site.create("second", "uplink", **ISOLATED).wait_event("FailedCreatePodSandBox", REFUSED)


def _wait_refused(site: Site, pod: PodView, device_name: str) -> None:
    """Wait until the user and the operator are told that a pod cannot have a device."""
    words = f"{REFUSED} {device_name} cannot be brought"

    def told() -> tuple[bool, bool]:
        why = site.berth("why", f"{site.namespace}/{pod.name}")
        return words in why, any(words in event for event in pod.events())

    site.wait_same("refusal", told, (True, True), limit_s=site.limit_s)
    assert phase(pod.now) == "Pending"
