"""Pods that are bound when their devices are ready: the scheduler waits for what the daemon says.

The other end of a NIC is set down, so that the NIC has no carrier; for a command a file stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from berth.errors import HostError
from tests.cluster.api import Object
from tests.cluster.bed import Bed
from tests.cluster.claimforms import request
from tests.cluster.node import SLICES
from tests.cluster.pods import phase
from tests.cluster.site import LAB, LIMIT_S, MANIFESTS, PodView, Site, device
from tests.cluster.test_credentials import (
    TOKEN,
    WITH_TOKEN,
    conditions,
    devices_of,
    granted,
    make_token,
)
from tests.cluster.test_taints import NAMES, taints

__all__ = ["granted"]

READY, FAILED = "berth.dev/ready", "berth.dev/failed"
PENDING = "BindingConditionsPending"
BOUND_LIMIT_S = 60.0
LINK_UP = f'{LAB}bind = {{ when = "link-up", within_s = 300 }}\n{WITH_TOKEN}'
HURRIED = LINK_UP.replace("within_s = 300", "within_s = 3, rest_s = 600")
ASKED = "/usr/local/lib/attached"
COMMAND = f"""
[[generic]]
name = "console"
match = {{ path = "/dev/tty1[01]" }}
bind = {{ when = "command", command = ["{ASKED}", "{{node}}"], interval_s = 1, within_s = 300 }}
{WITH_TOKEN}
"""


@pytest.fixture(name="lab")
def _lab(site: Site, granted: None) -> Site:
    """A site whose daemon may hear of claims, and write their statuses."""
    site.node.write(TOKEN, make_token(site))
    return site


def cut(site: Site, *nics: str) -> None:
    """Take the carrier of NICs away."""
    for nic in nics:
        site.cluster.control.box.run("ip", "link", "set", site.node.peer(nic), "down")


def mend(site: Site, nic: str) -> None:
    """Give a NIC its carrier back."""
    site.cluster.control.box.run("ip", "link", "set", site.node.peer(nic), "up")


def published(site: Site) -> Mapping[str, Sequence[str]]:
    """What the pods of each device in the node's slices wait for."""
    query = {"fieldSelector": f"spec.nodeName={site.node.name}"}
    return {
        each["name"]: [
            *each.get("bindingConditions", ()),
            *each.get("bindingFailureConditions", ()),
        ]
        for item in site.api.items(SLICES, **query)
        for each in item["spec"].get("devices") or ()
    }


def start(site: Site, config: str, *nics: str) -> None:
    """Offer NICs without carrier whose pods wait for it."""
    for nic in nics:
        site.node.add_nic(nic)
    cut(site, *nics)
    site.open(config, nics=(), offers=[device(nic) for nic in nics])
    site.wait_same(
        "conditions", lambda: published(site), {device(nic): [READY, FAILED] for nic in nics}
    )


def wait_told(site: Site, claim: str, ready: tuple[str, str]) -> Object:
    """Wait until the claim says so of its device, by the status and reason of `READY`."""

    def told(now: Object) -> bool:
        return [conditions(each).get(READY) for each in devices_of(now)] == [ready]

    (entry,) = devices_of(site.api.wait(site.claim_path(claim), told, limit_s=LIMIT_S))
    return entry


def pending(site: Site, name: str, *, of: str = "nic") -> PodView:
    """A pod with a claim, once the scheduler waits with it."""
    site.claim(name, request("nic", of=of))
    pod = site.create(name, name)
    pod.wait_event(PENDING)
    return pod


def why(site: Site, pod: PodView) -> str:
    """What the node says of a pod that does not start."""
    (found,) = json.loads(site.berth("why", f"{site.namespace}/{pod.name}", "--json"))["found"]
    return str(found["verdict"])


def test_pod_is_bound_when_its_nic_has_carrier(lab: Site) -> None:
    """It is Pending until then, with a reason at each place where one looks for it."""

    start(lab, LINK_UP, "nic0")

    pod = pending(lab, "user")

    told = wait_told(lab, "user", ("False", "NoCarrier"))
    assert conditions(told) == {READY: ("False", "NoCarrier"), FAILED: ("False", "InTime")}
    assert (phase(pod.now), pod.now["spec"].get("nodeName")) == ("Pending", None)
    assert lab.api.get(lab.claim_path("user"))["status"]["allocation"]["allocationTimestamp"]
    assert f"{device('nic0')} is not ready: nic0 has no carrier" in why(lab, pod)
    mend(lab, "nic0")
    lab.cluster.wait_running(pod.now, limit_s=BOUND_LIMIT_S)
    ready = wait_told(lab, "user", ("True", "Prepared"))
    assert conditions(ready)["Healthy"] == ("True", "Healthy")
    assert {each["type"] for each in ready["conditions"]} == {
        *(READY, FAILED, "Ready", "NetworkReady", "Healthy")
    }
    pod.delete()


def test_nic_that_gets_no_carrier_is_given_up_for_another(lab: Site) -> None:
    """The failure condition clears the allocation; the taint keeps the same NIC from the next."""

    start(lab, HURRIED, "nic0", "nic1")
    mend(lab, "nic1")

    pod = pending(lab, "user")

    lab.wait_same(
        "taints",
        lambda: taints(lab),
        {device("nic0"): [("berth.dev/not-ready", "late", "NoSchedule")]},
        limit_s=LIMIT_S,
    )
    lab.cluster.wait_running(pod.now, limit_s=BOUND_LIMIT_S)
    (result,) = lab.api.get(lab.claim_path("user"))["status"]["allocation"]["devices"]["results"]
    assert result["device"] == device("nic1")
    mend(lab, "nic0")
    lab.claim("next", request("nic"))
    other = lab.create("next", "next")
    lab.cluster.wait_running(other.now, limit_s=BOUND_LIMIT_S + LIMIT_S)


def test_restarted_daemon_goes_on_waiting(lab: Site) -> None:
    """What comes up while it is away binds the pod when it is back; the slice is not written."""

    start(lab, LINK_UP, "nic0")
    pod = pending(lab, "user")
    before = wait_told(lab, "user", ("False", "NoCarrier"))
    query = {"fieldSelector": f"spec.nodeName={lab.node.name}"}
    (slice_before,) = lab.api.items(SLICES, **query)

    lab.node.berthd.kill()
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    lab.wait_same("why", lambda: "has no carrier" in why(lab, pod), True, limit_s=LIMIT_S)
    after = wait_told(lab, "user", ("False", "NoCarrier"))
    assert after == before
    lab.node.berthd.kill()
    mend(lab, "nic0")
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()

    # Bound at once, perhaps before kubelet has us again; where systemd holds our sockets it never
    # loses us.
    lab.cluster.wait_running(pod.now, limit_s=BOUND_LIMIT_S)
    (slice_after,) = lab.api.items(SLICES, **query)
    assert slice_after["metadata"]["resourceVersion"] == slice_before["metadata"]["resourceVersion"]


def test_command_says_when_a_pod_is_bound(lab: Site, tmp_path: Path) -> None:
    """What it prints is told; a pod that is deleted meanwhile leaves nothing here.

    The scheduler itself goes on to keep that pod's device from others until it looks again, and a
    pod that came in between is tried minutes later (seen on 1.37.2): so there are two devices.
    """

    flag = "/run/attached"
    lab.node.write(
        ASKED, f"#!/bin/sh\n[ -e {flag} ] && exit 0\necho 'fabric: no path yet'\nexit 1\n"
    )
    lab.node.run("chmod", "0755", ASKED)
    lab.node.start_berthd(COMMAND).wait_ready()
    lab.wait_registered()
    lab.wait_same("conditions", lambda: published(lab), {name: [READY, FAILED] for name in NAMES})
    gone = pending(lab, "gone", of="generic")
    told = wait_told(lab, "gone", ("False", "CommandSaysNo"))
    assert {each["message"] for each in told["conditions"] if each["type"] == READY} == {
        "fabric: no path yet"
    }

    gone.delete()
    with pytest.raises(HostError, match=r'"found": \[\]'):
        lab.berth("why", f"{lab.namespace}/gone", "--json")
    pod = pending(lab, "user", of="generic")
    wait_told(lab, "user", ("False", "CommandSaysNo"))
    lab.node.write(flag, "")

    lab.cluster.wait_running(pod.now, limit_s=BOUND_LIMIT_S)
    lab.node.run("rm", flag)


def test_prepare_waits_where_the_daemon_may_not_tell(site: Site) -> None:
    """With kubelet's own rights no conditions are published, and the pod waits on its node."""

    site.node.add_nic("nic0")
    cut(site, "nic0")
    site.open(LINK_UP.replace(WITH_TOKEN, ""), nics=(), offers=[device("nic0")])
    assert published(site) == {device("nic0"): []}

    site.claim("user")
    pod = site.create("user", "user")
    pod.wait(lambda now: now["spec"].get("nodeName"), what="bound")

    site.wait_same("why", lambda: "has no carrier" in why(site, pod), True, limit_s=LIMIT_S)
    mend(site, "nic0")
    site.cluster.wait_running(pod.now, limit_s=120)


def test_prepare_waits_where_the_gate_is_off(bed: Bed) -> None:
    """The server drops the conditions: one write, and pods that wait on their node."""

    with bed.cluster(gates={"DRADeviceBindingConditions": False}) as cluster:
        for name in ("deviceclasses.yaml", "rbac.yaml"):
            cluster.api.apply((MANIFESTS / name).read_text())
        cluster.api.wait("/api/v1/namespaces/default/serviceaccounts/default", bool)
        site = Site(cluster, cluster.node("1.37+2.4"), "default")
        site.node.write(TOKEN, make_token(site))
        site.node.add_nic("nic0")
        cut(site, "nic0")
        site.open(LINK_UP, nics=(), offers=[device("nic0")])
        site.wait_log("stored a slice otherwise than it was sent")
        assert published(site) == {device("nic0"): []}

        site.claim("user")
        pod = site.create("user", "user")
        pod.wait(lambda now: now["spec"].get("nodeName"), what="bound")
        site.wait_same("why", lambda: "has no carrier" in why(site, pod), True, limit_s=LIMIT_S)
        mend(site, "nic0")
        site.cluster.wait_running(pod.now, limit_s=120)
        assert len(site.log_lines("slices written")) == 1


def test_group_is_left_out_where_the_daemon_may_not_tell(site: Site) -> None:
    """As its operator wished, with the reason."""

    site.node.add_nic("nic0")
    config = LINK_UP.replace(WITH_TOKEN, "").replace("within_s", 'ungated = "leave-out", within_s')
    site.open(config, nics=(), offers=[])

    told = "is not offered: unpublishable: no pod can be made to wait for it"
    site.wait_same("why", lambda: told in site.berth("why", device("nic0")), True, limit_s=20)
    assert published(site) == {}
