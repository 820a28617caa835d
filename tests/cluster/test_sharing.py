"""Claims that more than one pod uses, one at a time or all at once, and pods without a scheduler.

Kubelet asks for a claim until it is prepared, once for all pods that come later; those that start
side by side each ask.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config, request
from tests.cluster.pods import container, is_running
from tests.cluster.site import PodView, Site
from tests.cluster.test_peripherals import consoles

CONSOLES = """
[[generic]]
name = "console"
match = { path = "/dev/tty1[01]" }
rename = "/dev/berth/"
"""
NAMES = ("console-tty10", "console-tty11")
MANY = tuple(f"p{number:02}" for number in range(16))
GROUPS = "scheduling.k8s.io/v1beta1"


@pytest.fixture(name="lab")
def _lab(site: Site) -> Site:
    """A site whose node offers two consoles."""
    return start(site)


def start(site: Site) -> Site:
    """Have the daemon offer two consoles."""
    site.node.start_berthd(CONSOLES, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    return site


def pods_of(site: Site) -> list[str]:
    """The pods that `berth holds` tells of the only hold."""
    (hold,) = site.listed("holds")
    return sorted(hold["pods"])


def counts(site: Site) -> tuple[int, int]:
    """How often a claim was prepared and undone."""
    return len(site.log_lines("claim prepared")), len(site.log_lines("claim unprepared"))


def test_claim_of_sixteen_pods_is_prepared_once_and_undone_at_the_end(lab: Site) -> None:
    """All have the device, over a restart too, and all are known; the last one's end frees it."""

    lab.claim("shared", request("serial", of="generic"))
    made = [lab.create(name, "shared") for name in MANY]
    for pod in made:
        lab.cluster.wait_running(pod.now, limit_s=90)

    devices = {tuple(consoles(pod)) for pod in made}
    assert len(devices) == 1
    assert 1 <= counts(lab)[0] <= len(MANY)
    assert counts(lab)[1] == 0
    lab.wait_same("pods", lambda: pods_of(lab), sorted(MANY), limit_s=20)
    lab.node.berthd.terminate()
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    assert pods_of(lab) == sorted(MANY)

    for pod in made[:-1]:
        lab.api.delete(pod.path, grace_s=1)
    for pod in made[:-1]:
        lab.api.wait_gone(pod.path, limit_s=60)
    lab.wait_same("pods", lambda: pods_of(lab), [MANY[-1]], limit_s=60)
    assert counts(lab)[1] == 0
    assert consoles(made[-1])
    made[-1].delete()
    lab.wait_same("holds", lambda: lab.listed("holds"), [], limit_s=20)
    assert counts(lab)[1] == 1


def test_pod_without_a_scheduler_gets_what_is_allocated_already(lab: Site) -> None:
    """It names its node itself; of a claim that nobody allocated it has to wait."""

    lab.claim("shared", request("serial", of="generic"))
    first = lab.run("first", "shared")
    bound = {"nodeName": lab.node.name}
    second = lab.run("second", "shared", **bound)
    assert consoles(second) == consoles(first)
    lab.claim("unallocated", request("serial", of="generic"))
    waiting = lab.create("waiting", "unallocated", **bound)
    assert "is not allowed to use" in waiting.wait_event("FailedPrepareDynamicResources")
    assert counts(lab) == (1, 0)

    first.delete()
    assert consoles(second)
    second.delete()
    lab.wait_same("holds", lambda: lab.listed("holds"), [], limit_s=20)
    assert counts(lab) == (1, 1)


def group(site: Site, claim: str, *, template: bool = False) -> Object:
    """A group of pods that share a claim."""
    source = "resourceClaimTemplateName" if template else "resourceClaimName"
    return site.api.create(
        {
            "apiVersion": GROUPS,
            "kind": "PodGroup",
            "metadata": {"name": "team", "namespace": site.namespace},
            "spec": {
                "schedulingPolicy": {"basic": {}},
                "resourceClaims": [{"name": claim, source: claim}],
            },
        }
    )


IN_GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "team"}}


def test_claim_of_a_pod_group_serves_all_its_pods(alpha_site: Site) -> None:
    """It is the group's, names no pod, and is undone when the last pod has ended."""

    site = start(alpha_site)
    site.template("shared", request("serial", of="generic"))
    group(site, "shared", template=True)
    pods = [site.run(name, templates=["shared"], **IN_GROUP) for name in ("one", "two")]

    (claim,) = site.api.items(site.claim_path())
    assert [one["resource"] for one in claim["status"]["reservedFor"]] == ["podgroups"]
    assert consoles(pods[0]) == consoles(pods[1])
    (newest, _) = pods[1].metadata("resourceclaimtemplates/shared/serial")
    assert newest["metadata"]["name"] == claim["metadata"]["name"]
    assert counts(site) == (1, 0)
    assert pods_of(site) == ["one", "two"]
    pods[0].delete()
    assert consoles(pods[1])
    pods[1].delete()
    site.wait_same("holds", lambda: site.listed("holds"), [], limit_s=20)
    assert counts(site) == (1, 1)


def test_nic_of_a_pod_group_is_in_the_pod_that_has_the_claim(alpha_site: Site) -> None:
    """Kubelet is asked whose it is, since the claim names no pod; a second pod is refused."""

    site = alpha_site
    site.open()
    site.claim("uplink", config=[nic_config(addresses=[{"address": "192.0.2.10/24"}])])
    group(site, "uplink")
    first = container("first", "uplink", command=["/bin/sh", "-c", "ip link show net1"])

    pod = site.run("user", "uplink", initContainers=[first], **IN_GROUP)

    assert pod.links() == {"lo", "eth0", "net1"}
    assert "net1" in pod.wait_said("net1", container="first")
    other = PodView(site, "other")
    site.create("other", "uplink", **IN_GROUP)
    assert "its NIC can be in one pod only" in other.wait_event("FailedCreatePodSandBox")
    pod.delete()
    site.api.wait(other.path, is_running, limit_s=60)
