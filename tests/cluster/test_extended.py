"""Pods that ask by their limits and are served by claims: nobody's manifest has to change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.gpumachine import GpuMachine
from tests.cluster.podresources import listed
from tests.cluster.pods import container
from tests.cluster.site import MANIFESTS, Site
from tests.cluster.test_gpus import CONTROL, NAMES, RESOURCE, _machine, nodes, start
from tests.cluster.test_peripherals import allocatable

__all__ = ["_machine"]

CLASS = yaml.safe_load((MANIFESTS / "deviceclass-extended.yaml").read_text())
LIMITS = {"limits": {RESOURCE: "2"}}


@pytest.fixture(name="lab")
def _lab(site: Site, machine: GpuMachine) -> Iterator[Site]:
    """A site of four GPUs by claims, in a cluster whose class stands for the resource's name."""
    (made,) = site.api.apply(CLASS)
    start(site, machine, door="dra", offers=NAMES)
    yield site
    site.api.delete(site.api.path(made))


def test_pod_of_the_old_style_is_served_by_a_claim(lab: Site) -> None:
    """It has as many GPUs as its limits say, no plugin is asked, and PodResources tells of them."""

    pod = lab.run("old", containers=[container("main", resources=LIMITS), container("side")])

    made = pod.now["status"]["extendedResourceClaimStatus"]
    claim = lab.api.get(lab.claim_path(made["resourceClaimName"]))
    given = {one["device"] for one in claim["status"]["allocation"]["devices"]["results"]}
    assert (len(given), given <= set(NAMES)) == (2, True)
    assert nodes(pod).keys() - CONTROL.keys() == {f"nvidia{NAMES.index(name)}" for name in given}
    assert "nvidia" not in pod.run("ls", "/dev", container="side")
    assert allocatable(lab, RESOURCE) == ""

    told = listed(lab, "old")
    assert told.usages == ()
    assert {(one.container.container, one.driver, one.device) for one in told.claims} == {
        ("main", "berth.dev", name) for name in given
    }
    assert {one.name for one in told.claims} == {made["resourceClaimName"]}
    holds = lab.listed("holds")
    assert {(one["device"], one["door"], *one["pods"]) for one in holds} == {
        (name, "dra", "old") for name in given
    }
    pod.delete()
    lab.wait_same("holds", lambda: lab.listed("holds"), [], limit_s=20)


def test_old_and_new_style_draw_on_the_same_gpus(lab: Site) -> None:
    """Three by limits and the class's own name leave one; who wants two waits for them."""

    lab.run("old", containers=[container("main", resources=LIMITS)])
    implicit = {"limits": {f"deviceclass.resource.kubernetes.io/{CLASS['metadata']['name']}": "1"}}
    lab.run("named", containers=[container("main", resources=implicit)])
    waiting = lab.create("late", containers=[container("main", resources=LIMITS)])
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")

    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/old")
    lab.cluster.wait_running(waiting.now, limit_s=60)
    assert len(nodes(waiting).keys() - CONTROL.keys()) == 2


def test_name_without_a_class_is_no_device(site: Site, machine: GpuMachine) -> None:
    """The pod waits with the scheduler's usual words, and nothing is allocated."""

    start(site, machine, door="dra", offers=NAMES)
    waiting = site.create("old", containers=[container("main", resources=LIMITS)])

    assert f"Insufficient {RESOURCE}" in waiting.wait_event("FailedScheduling")
    assert site.api.items(site.claim_path()) == []
