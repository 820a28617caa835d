"""Claims that a scheduler of now would not make: told by name, and nobody else is held up."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from berth.errors import HostError
from tests.cluster.api import Object
from tests.cluster.berthd import DRIVER
from tests.cluster.claimforms import choice, request
from tests.cluster.site import Site, device
from tests.cluster.test_shared_parent import LAN, PARENT, child

DEADLINE_S = 45
"""How long kubelet waits for a prepare, and so how long a device may be waited for."""


def own_pool(site: Site) -> str:
    """The pool of the node's NICs."""
    return f"{site.node.name}/nic"


def result(pool: str, name: str, **more: object) -> Object:
    """One device of an allocation."""
    return {"request": "nic", "driver": DRIVER, "pool": pool, "device": name, **more}


def give(site: Site, name: str, *results: Object, pods: Sequence[Object]) -> None:
    """Allocate a claim by hand, and reserve it for pods."""
    term = {"key": "metadata.name", "operator": "In", "values": [site.node.name]}
    users = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for pod in pods
    ]
    status: Object = {
        "allocation": {
            "devices": {"results": list(results)},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [term]}]},
        },
        "reservedFor": users,
    }
    site.api.merge(f"{site.claim_path(name)}/status", {"status": status})


def test_selector_that_fails_is_told_by_the_scheduler_and_nothing_is_held(site: Site) -> None:
    """It fails for all devices at once; the node knows of no such pod, and says who knows more."""

    site.open()
    site.claim("odd", request(selectors=choice(cel='own.rail == "red"')["selectors"]))
    pod = site.create("odd", "odd")

    told = pod.wait_event("FailedScheduling")

    assert "CEL runtime error: no such key: rail" in told
    assert device("nic0") in told
    with pytest.raises(HostError, match=r"why the scheduler finds no device"):
        site.berth("why", f"{site.namespace}/odd")
    assert site.listed("holds") == []
    guarded = 'device.attributes["berth.dev"].?rail.orValue("red") == "red"'
    site.claim("good", request(selectors=choice(cel=guarded)["selectors"]))
    site.run("good", "good")


def test_devices_that_are_not_here_are_refused_by_name_while_others_are_served(site: Site) -> None:
    """One was unplugged since, one never was, one is its namesake in another node's pool."""

    site.limit_s = DEADLINE_S + 45
    site.open(nics=["nic0", "nic1"])
    homes = {"nic1": site.home("nic1")}
    foreign = result("node9/nic", device("nic1"))
    given = {
        "former": result(own_pool(site), device("nic0")),
        "never": result(own_pool(site), device("nic7")),
        "foreign": foreign,
    }
    with site.node.kubelet.asleep():
        for name in given:
            site.claim(name)
        # Past the scheduler, which would look at the claim once more.
        pods = {name: site.create(name, name, nodeName=site.node.name) for name in given}
        for name, one in given.items():
            give(site, name, one, pods=[pods[name].now])
        site.node.remove_nic("nic0")
        site.wait_offered([device("nic1")])
    told = pods["foreign"].wait_refused()

    assert told == (
        f"{device('nic1')} of pool node9/nic: is no device of this node: "
        f"the pools of this node are {site.node.name} and {own_pool(site)}; "
        "delete the pod and its claim, so that one of its own node is allocated"
    )
    (why,) = json.loads(site.berth("why", f"{site.namespace}/foreign", "--json"))["found"]
    assert why["verdict"].endswith(told)
    site.claim("good")
    good = site.run("good", "good")
    assert good.links() == {"lo", "eth0", "net1"}
    for name, nic in (("former", "nic0"), ("never", "nic7")):
        found = pods[name].wait_refused()
        assert f"{device(nic)} is not seen on this node; `berth devices` lists what is" in found
        assert "if it is gone for good, delete the pod and its claim" in found
    assert {hold["claim"] for hold in site.listed("holds")} == {f"{site.namespace}/good"}
    for pod in (*pods.values(), good):
        pod.delete()
    assert site.listed("holds") == []
    site.wait_home("nic1", homes["nic1"])


def test_amount_that_is_none_gives_room_to_nobody(site: Site) -> None:
    """The server keeps less than nothing, or half a slot; neither leaves more to others."""

    site.open(LAN, offers=[PARENT])
    uid = "6a8f0d2e-5b1c-4f7a-9e3d-2c1b0a9f8e7d"
    site.claim("odd", child())
    with site.node.kubelet.asleep():
        pod = site.create("odd", "odd", nodeName=site.node.name)
        amounts = {f"{DRIVER}/slots": "-1"}
        one = result(own_pool(site), PARENT, shareID=uid, consumedCapacity=amounts)
        give(site, "odd", {**one, "request": "child"}, pods=[pod.now])
    site.cluster.wait_running(pod.now, limit_s=site.limit_s)

    (hold,) = site.listed("holds")
    assert hold["slots"] == 3
