"""What a pod's status says of its devices, as real kubelets have it from our stream.

A device node that is always there stands for a device that can break; a person's word breaks it.
"""

from __future__ import annotations

import time

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.pods import is_running
from tests.cluster.site import LIMIT_S, PodView, Site

DEVICE = "null-full"
LEASE_S = 12
CONFIG = f"""
[[generic]]
name = "null"
match = {{ path = "/dev/full" }}
health = {{ interval_s = 2, deadline_s = 1, timeout_s = {LEASE_S} }}
"""
PROMPT_S = 10.0
"""Within it a change is in the pod's status; kubelet makes one by itself only each 60 to 90 s."""


def start(site: Site) -> PodView:
    """Start the daemon, and a pod that has the device."""
    site.node.start_berthd(CONFIG, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered((DEVICE,))
    site.claim("device", request("device", of="generic"))
    return site.run("user", "device")


def told(pod: Object) -> tuple[str, str]:
    """Health and message of the pod's one device; empty where its status says nothing of it."""
    (status,) = pod["status"]["containerStatuses"]
    for resource in status.get("allocatedResourcesStatus", ()):
        if resource["name"] == "claim:device":
            (found,) = resource["resources"]
            return found["health"], found.get("message", "")
    return "", ""


def wait_told(pod: PodView, health: str, words: str = "", *, limit_s: float = PROMPT_S) -> str:
    """Wait until the pod's status says so; gives the message."""

    def says(now: Object) -> bool:
        found, message = told(now)
        return found == health and words in message

    began = time.monotonic()
    message = told(pod.wait(says, what=f"is told that its device is {health}"))[1]
    assert time.monotonic() - began < limit_s
    return message


def test_status_of_a_pod_follows_its_device(site: Site) -> None:
    """Well, taken out of service with the words of who did it, and well again; the pod runs on."""

    pod = start(site)
    assert wait_told(pod, "Healthy") == ""
    site.berth("health", "set", DEVICE, "fan-broken", "--message", "is replaced on Friday")
    wait_told(pod, "Unhealthy", "is replaced on Friday")
    site.berth("health", "clear", DEVICE)
    assert wait_told(pod, "Healthy") == ""
    assert is_running(pod.now)


def test_kubelet_that_was_away_learns_what_changed_meanwhile(site: Site) -> None:
    """Its first stream has all of it, and the pod's status follows."""

    pod = start(site)
    wait_told(pod, "Healthy")
    site.node.kubelet.terminate()
    site.berth("health", "set", DEVICE, "fan-broken", "--message", "is replaced on Friday")
    site.node.kubelet.start()
    wait_told(pod, "Unhealthy", "is replaced on Friday", limit_s=LIMIT_S)
    site.node.kubelet.terminate()
    site.berth("health", "clear", DEVICE)
    site.node.kubelet.start()
    wait_told(pod, "Healthy", limit_s=LIMIT_S)
    assert is_running(pod.now)


def test_daemon_that_is_gone_and_back_tells_again(site: Site) -> None:
    """The stream is opened again and again, and each time the first message has everything."""

    pod = start(site)
    wait_told(pod, "Healthy")
    site.berth("health", "set", DEVICE, "fan-broken", "--message", "is replaced on Friday")
    wait_told(pod, "Unhealthy")
    for _ in range(3):
        site.node.berthd.kill()
        site.node.berthd.start()
        site.node.berthd.wait_ready()
    site.berth("health", "clear", DEVICE)
    assert wait_told(pod, "Healthy", limit_s=LIMIT_S) == ""


def test_daemon_that_slept_for_longer_than_the_lease_is_heard_at_once(site: Site) -> None:
    """Kubelet makes no new status for what it was told before: the mark is what it hears.

    A person's word does not expire; a device that was well would be unknown first, and well again.
    """

    pod = start(site)
    site.berth("health", "set", DEVICE, "fan-broken", "--message", "is replaced on Friday")
    wait_told(pod, "Unhealthy", "is replaced on Friday")
    with site.node.berthd.asleep():
        # Nobody tells that a lease is over; kubelet sees it when it looks at the pod again.
        time.sleep(LEASE_S + 1)
        pod.nudge()
        wait_told(pod, "Unknown")
    message = wait_told(pod, "Unhealthy", "told again since")
    assert message.startswith("is replaced on Friday")


def test_old_kubelet_runs_pods_as_ever(old_site: Site) -> None:
    """1.34 asks nobody how devices are, unless its gate is opened."""

    pod = start(old_site)
    old_site.berth("health", "set", DEVICE, "fan-broken")
    assert is_running(pod.now)
    assert told(pod.now) == ("", "")
