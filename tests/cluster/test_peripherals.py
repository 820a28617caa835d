"""Devices that stay where they are, through both doors, on a real kubelet and runtime.

Virtual consoles stand for serial adapters: the machine has plenty of them, nobody uses them, and
`/dev/tty1*` are real character devices whose numbers the container can be asked for.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from berth.node.plugin.running import mark_name
from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.pods import container, phase
from tests.cluster.site import PodView, Site

RESOURCE = "berth.dev/console"
CONSOLES = """
[[generic]]
name = "console"
match = { path = "/dev/tty1[0-3]" }
door = "both"
rename = "/dev/berth/"

[[generic]]
name = "zero"
match = { path = "/dev/full" }
count = 3
door = "both"
"""
NAMES = tuple(f"console-tty1{number}" for number in range(4))
OFFERS = (*NAMES, "zero-full")
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
OUTLAST_S = 35
"""Longer than a device that nobody has takes to be free."""

GENERIC = {"of": "generic", "cel": 'own.group == "console"'}


def asking(count: int = 1, resource: str = RESOURCE, mark: str | None = None) -> list[Object]:
    """A container that asks in the old way.

    Args:
        mark: What its author writes over the mark by which berth knows it again.
    """
    env = [] if mark is None else [{"name": mark_name(resource), "value": mark}]
    return [container("main", resources={"limits": {resource: str(count)}}, env=env)]


def consoles(pod: PodView) -> dict[str, str]:
    """The consoles that a container has, with their numbers; by what it sees itself."""
    told = pod.run("sh", "-c", "cd /dev/berth 2>/dev/null && stat -c '%n %t:%T' * || true")
    return dict(line.split() for line in told.splitlines())


def allocatable(site: Site, resource: str = RESOURCE) -> str:
    """How many of a resource the node has to give."""
    node = site.api.get(f"/api/v1/nodes/{site.node.name}")
    return str(node["status"]["allocatable"].get(resource, ""))


def wait_allocatable(site: Site[Any], count: int, resource: str = RESOURCE) -> None:
    """Wait until the node has so many to give."""
    site.api.wait(
        f"/api/v1/nodes/{site.node.name}",
        lambda node: node["status"]["allocatable"].get(resource) == str(count),
        what=f"{count} {resource}",
        limit_s=site.limit_s,
    )


@pytest.fixture(name="lab")
def _lab(site: Site) -> Site:
    """A site whose node offers four consoles and a device for three."""
    site.node.start_berthd(CONSOLES, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(OFFERS)
    wait_allocatable(site, 4)
    return site


def test_claim_gives_its_node_and_nothing_more(lab: Site) -> None:
    """At the path that the group says, with the host's numbers; no other console is there."""

    lab.claim("serial", request("serial", **GENERIC))
    pod = lab.run("user", "serial")

    name = _device(lab, "serial").removeprefix("console-")
    number = int(name.removeprefix("tty"))
    assert consoles(pod) == {name: f"4:{number:x}"}
    (hold,) = lab.listed("holds")
    assert (hold["device"], hold["door"], hold["pods"]) == (_device(lab, "serial"), "dra", ["user"])


def test_resource_gives_as_many_as_are_asked_for(lab: Site) -> None:
    """In the old way: no claim, no class."""

    pod = lab.run("old", containers=asking(2))

    assert len(consoles(pod)) == 2
    lab.wait_same(
        "holders", lambda: sorted(_holders(lab)), [f"pod {lab.namespace}/old, container main"] * 2
    )
    pod.delete()
    # A kubelet that is younger than a minute is not believed that a pod has ended.
    lab.wait_same("holders", lambda: _holders(lab), [], limit_s=95)


def _device(site: Site, claim: str) -> str:
    found = site.api.get(site.claim_path(claim))
    (result,) = found["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


def _holders(site: Site) -> list[str]:
    return [hold["holder"] for hold in site.listed("holds")]


def test_device_of_a_claim_is_given_to_no_other_pod(lab: Site) -> None:
    """Kubelet counts it as unhealthy while the claim has it, and gets it back after the end."""

    lab.claim("serial", request("serial", **GENERIC))
    pod = lab.run("user", "serial")
    wait_allocatable(lab, 3)
    others = lab.run("others", containers=asking(3))

    assert consoles(pod).keys().isdisjoint(consoles(others))
    assert len(consoles(others)) == 3
    pod.delete()
    wait_allocatable(lab, 4)


def test_device_of_a_resource_is_given_to_no_claim(lab: Site) -> None:
    """The scheduler keeps claims from what the other door gave."""

    others = lab.run("others", containers=asking(4))
    lab.claim("serial", request("serial", **GENERIC))
    waiting = lab.create("user", "serial")
    lab.wait_same("user", lambda: phase(waiting.now), "Pending")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")

    others.delete()
    lab.cluster.wait_running(waiting.now, limit_s=60)
    assert len(consoles(waiting)) == 1


def test_shares_go_to_as_many_as_there_are_slots(lab: Site) -> None:
    """By both doors together."""

    wait_allocatable(lab, 3, "berth.dev/zero")
    first = lab.run("first", containers=asking(1, "berth.dev/zero"))
    for name in ("second", "third"):
        lab.claim(name, request("zero", of="generic", cel='own.group == "zero"'))
        lab.run(name, name)
    wait_allocatable(lab, 1, "berth.dev/zero")
    assert "full" in first.run("sh", "-c", "ls /dev")


def test_kubelet_restart_keeps_what_was_given(lab: Site) -> None:
    """Running pods are left alone, their devices stay theirs, and the door opens again."""

    pod = lab.run("old", containers=asking(2))
    had = consoles(pod)
    lab.node.kubelet.terminate()
    lab.node.kubelet.start()
    lab.node.wait_ready()
    wait_allocatable(lab, 4)
    second = lab.run("second", containers=asking(2))

    assert consoles(pod) == had
    assert consoles(second).keys().isdisjoint(had)


def test_reboot_keeps_what_was_given(lab: Site) -> None:
    """Kubelet remembers it and asks nobody again; neither a claim nor another pod gets it."""

    pod = lab.run("old", containers=asking(2), restartPolicy="Always")
    had = consoles(pod)
    lab.node.reboot(before_kubelet=lambda: lab.node.start_berthd(CONSOLES).wait_ready())
    wait_allocatable(lab, 4)
    lab.cluster.wait_running(pod.now, limit_s=90)
    lab.wait_same("old", lambda: consoles(pod), had, limit_s=90)
    second = lab.run("second", containers=asking(1))
    lab.claim("serial", request("serial", **GENERIC))
    user = lab.run("user", "serial")

    others = [consoles(each).keys() for each in (second, user)]
    assert all(had.keys().isdisjoint(names) for names in others)
    assert others[0] != others[1]


def test_pods_deleted_by_force_keep_their_devices_until_their_containers_end(lab: Site) -> None:
    """Kubelet lists them no more, and the runtime still has their containers; then they are free.

    Whatever a pod's author wrote over its container's mark.
    """

    marks = {"plain": None, "wiped": "", "forged": f"{RESOURCE}:nowhere"}
    for name, mark in marks.items():
        lab.run(name, containers=asking(1, mark=mark))
    # Their containers are known to be their own from here on.
    lab.wait_same("states", lambda: _states(lab), ["bound"] * len(marks))
    # Kubelet is as old as its socket; of a younger one nothing is believed for a minute.
    then = time.time() - 600
    os.utime(lab.node.path(POD_RESOURCES), (then, then))
    lab.node.containerd.freeze()
    for name in marks:
        lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/{name}", grace_s=0)
    lab.wait_same("states", lambda: _states(lab), ["missed"] * len(marks), limit_s=30)
    # The one thing that is waited for is that nothing happens, and that tells nobody.
    time.sleep(OUTLAST_S)
    assert len(_holders(lab)) == len(marks)

    lab.node.containerd.thaw()
    lab.wait_same("holders", lambda: _holders(lab), [], limit_s=60)


def _states(lab: Site) -> list[str]:
    """How far each hold is."""
    return [hold["state"] for hold in lab.listed("holds")]


def test_daemon_restart_keeps_what_was_given(lab: Site) -> None:
    """Nothing is offered as free before the ledger is read."""

    pod = lab.run("old", containers=asking(3))
    had = consoles(pod)
    lab.node.berthd.terminate()
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    wait_allocatable(lab, 4)
    lab.claim("serial", request("serial", **GENERIC))
    user = lab.run("user", "serial")

    assert consoles(user).keys().isdisjoint(had)
