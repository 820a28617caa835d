"""Pods of both doors that want the same devices at the same moment (case 20).

Kubelet chooses devices for the old-style pods, the scheduler for the claims, and neither knows of
the other's choice until our lists and taints tell it. So both choose the same, and our ledger
decides.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.pods import is_running, phase
from tests.cluster.site import PodView, Site
from tests.cluster.test_peripherals import RESOURCE, asking, consoles, wait_allocatable

DEVICES = 8
ROUNDS = 13
"""So many rounds of eight devices are more than a hundred races."""
CONSOLES = """
[[generic]]
name = "console"
match = { path = "/dev/tty2[0-7]" }
door = "both"
rename = "/dev/berth/"
"""
KUBELET_KNEW = "requested number of devices unavailable"
"""Our list came between the scheduler's choice and kubelet's own."""
NAMES = tuple(f"console-tty2{number}" for number in range(DEVICES))


def test_hundred_races_have_one_winner_each(site: Site) -> None:
    """Twice as many pods as devices: as many run, no two share one, the rest is told."""

    site.node.start_berthd(CONSOLES, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    dice = random.Random(20)  # noqa: S311 - an order, no secret
    refused = {"old": 0, "new": 0}
    for number in range(ROUNDS):
        wait_allocatable(site, DEVICES)
        pods = _start(site, number, dice)
        settled = site.api.wait_all(
            f"/api/v1/namespaces/{site.namespace}/pods",
            lambda seen: sum(map(is_running, seen.values())) == DEVICES,
            what=f"{DEVICES} running pods",
            limit_s=60,
        )
        _require_different(site, [pods[name] for name in settled if is_running(settled[name])])
        for name, state in settled.items():
            if not is_running(state):
                refused[name.partition("-")[0]] += _require_told(pods[name], state)
        _end(site, pods)

    logging.getLogger(__name__).info("lost races: %s", refused)
    # Were it never close, this would be no race.
    assert min(refused.values()) > 0, refused


def _start(site: Site, number: int, dice: random.Random) -> Mapping[str, PodView]:
    """Make the pods of a round, in whatever order."""
    names = [f"{door}-{number}-{each}" for door in ("old", "new") for each in range(DEVICES)]
    dice.shuffle(names)
    pods = {}
    for name in names:
        if name.startswith("old"):
            pods[name] = site.create(name, containers=asking())
        else:
            site.claim(name, request("serial", of="generic", cel='own.group == "console"'))
            pods[name] = site.create(name, name)
    return pods


def _require_different(site: Site, winners: list[PodView]) -> None:
    """What the containers themselves have: one device each, no two the same."""
    found = [each for pod in winners for each in consoles(pod).values()]
    assert len(found) == len(set(found)) == DEVICES
    holds = site.listed("holds")
    assert sorted(hold["device"] for hold in holds) == sorted(NAMES)


def _require_told(pod: PodView, state: Object) -> bool:
    """Why a pod does not run; whether it lost a race, rather than found nothing to ask for."""
    if phase(state) == "Failed":
        message = state["status"]["message"]
        assert "is held by claim" in message or KUBELET_KNEW in message, message
        return True
    asked = [each for each in pod.events() if "NodePrepareResources failed" in each]
    assert all("is held by" in each and RESOURCE in each for each in asked), asked
    return bool(asked)


def _end(site: Site, pods: Mapping[str, PodView]) -> None:
    """End all pods and claims of a round, and wait until nobody has anything."""
    for pod in pods.values():
        site.api.delete(pod.path, grace_s=1)
    for pod in pods.values():
        site.api.wait_gone(pod.path, limit_s=60)
    for name in pods:
        if name.startswith("new"):
            site.api.delete(site.claim_path(name))
    site.wait_same("holds", lambda: site.listed("holds"), [], limit_s=90)
