"""Claims whose allocation is older than the slices: their own device, or a word why not.

The scheduler allocates by what the slices say, while kubelet stands still; before it asks for the
claim, the daemon is given other settings, or is another one.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping

from tests.cluster.api import Object
from tests.cluster.berthd import CONFIG
from tests.cluster.claimforms import request
from tests.cluster.node import SLICES
from tests.cluster.pods import is_running
from tests.cluster.site import LAB, Site, device
from tests.cluster.test_odd_claims import DEADLINE_S, own_pool
from tests.cluster.test_peripherals import consoles

MANY = """
[[generic]]
name = "many"
match.path = [
  "/dev/tty{ones}", "/dev/tty[1-5][0-9]", "/dev/tty6[01]", "/dev/null", "/dev/zero",
]

[[generic]]
name = "console"
match = {{ path = "/dev/tty6{last}" }}
rename = "/dev/berth/"
"""
"""Two slices, of 64 devices and of two: those that the claim asks for are in the second."""
BEFORE = MANY.format(ones="[0-9]", last="[23]")
ASKED = request("one", of="generic", cel='own.group == "console"')


def generation(site: Site) -> int:
    """The generation of the node's only pool that is whole; 0 while none is."""
    slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    pools = [one["spec"]["pool"] for one in slices]
    found = {each["generation"] for each in pools}
    whole = len(found) == 1 and {each["resourceSliceCount"] for each in pools} == {len(pools)}
    return found.pop() if whole else 0


def allocated(site: Site, claim: str) -> Object:
    """The one device that the scheduler gives to a claim."""

    def given(found: Mapping[str, Object]) -> object:
        return found.get("status", {}).get("allocation")

    found = site.api.wait(site.claim_path(claim), given, what=f"{claim} allocated")
    (one,) = found["status"]["allocation"]["devices"]["results"]
    return dict(one)


def reload(site: Site, config: str) -> None:
    """Have the daemon take other settings; one that starts anew publishes only to a kubelet."""
    site.node.write(CONFIG, config)
    site.node.berthd.signal(signal.SIGHUP)


def why(site: Site, claim: str) -> str:
    """What the operator is told of the claim."""
    (found,) = json.loads(site.berth("why", f"{site.namespace}/{claim}", "--json"))["found"]
    return str(found["verdict"])


def test_claim_of_an_older_generation_gets_its_own_device_once_it_is_back(site: Site) -> None:
    """Its neighbor of the same group is free all the time, and never is what the pod gets."""

    site.limit_s = DEADLINE_S + 45
    site.node.start_berthd(BEFORE, activated=True).wait_ready()
    site.wait_registered()
    site.wait_same("generation", lambda: generation(site) > 0, True, limit_s=20)
    first = generation(site)
    site.claim("old", ASKED)
    with site.node.kubelet.asleep():
        pod = site.create("old", "old")
        name = allocated(site, "old")["device"]
        (other,) = {"console-tty62", "console-tty63"} - {name}
        reload(site, MANY.format(ones="[0-8]", last=other[-1]))
        site.wait_same("generation", lambda: generation(site), first + 1, limit_s=20)
    told = pod.wait_refused()

    assert f"{name} is not seen on this node; `berth devices` lists what is" in told
    assert "delete the pod and its claim" in told
    assert f"{name} is not seen on this node" in why(site, "old")
    assert site.listed("holds") == []
    site.claim("new", ASKED)
    assert list(consoles(site.run("new", "new"))) == [other.removeprefix("console-")]
    reload(site, BEFORE)
    site.wait_same("generation", lambda: generation(site), first + 2, limit_s=20)
    pod.nudge()
    pod.wait(is_running, what="runs")
    assert list(consoles(pod)) == [name.removeprefix("console-")]


def test_claim_of_a_pool_that_has_another_name_now_is_refused_at_once(site: Site) -> None:
    """As a driver left it whose pools had other names; the device of that name stays at home."""

    site.node.add_nic("nic0")
    site.node.start_berthd(LAB, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered([device("nic0")])
    at_home = site.home("nic0")
    site.claim("old")
    with site.node.kubelet.asleep():
        site.node.berthd.terminate()
        rename_pool(site, f"{site.node.name}/cards")
        pod = site.create("old", "old")
        given = allocated(site, "old")
        assert (given["pool"], given["device"]) == (f"{site.node.name}/cards", device("nic0"))
        site.node.berthd.start()
        site.node.berthd.wait_ready()
    told = pod.wait_refused()
    site.wait_same("pools", lambda: pools(site), {own_pool(site)}, limit_s=20)

    assert told == (
        f"{device('nic0')} of pool {site.node.name}/cards: is no device of this node: "
        f"the pools of this node are {site.node.name} and {own_pool(site)}; "
        "delete the pod and its claim, so that one of its own node is allocated"
    )
    assert why(site, "old").endswith(told)
    assert (site.listed("holds"), site.home("nic0")) == ([], at_home)
    pod.delete()
    site.api.delete(site.claim_path("old"))
    site.claim("new")
    assert site.run("new", "new").links() == {"lo", "eth0", "net1"}


def pools(site: Site) -> set[str]:
    """The pools of the node."""
    slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    return {one["spec"]["pool"]["name"] for one in slices}


def rename_pool(site: Site, name: str) -> None:
    """Publish the node's only slice in a pool of another name, and in no other."""
    (old,) = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    site.api.delete(f"{SLICES}/{old['metadata']['name']}")
    kept = {key: old["metadata"][key] for key in ("generateName", "ownerReferences")}
    pool = {**old["spec"]["pool"], "name": name}
    spec = {**old["spec"], "pool": pool}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    site.api.create({**kind, "metadata": kept, "spec": spec})
