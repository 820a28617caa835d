"""A sick device, as everybody in a cluster is told of it: scheduler, kubelet, claim, and its pods.

Two virtual consoles stand for devices, as in `test_peripherals`; an operator takes one out of
service, since nobody can make one sick.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from tests.cluster.api import Object
from tests.cluster.berthd import CONFIG
from tests.cluster.claimforms import request
from tests.cluster.node import SLICES
from tests.cluster.pods import phase
from tests.cluster.site import LAB, LIMIT_S, PodView, Site, device
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, devices_of, granted, make_token
from tests.cluster.test_peripherals import consoles, wait_allocatable

__all__ = ["granted"]

FAULT = "berth.dev/fault"
TAINT_RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
NAMES = ("console-tty10", "console-tty11")
CONSOLES = f"""
[[generic]]
name = "console"
match = {{ path = "/dev/tty1[01]" }}
door = "both"
rename = "/dev/berth/"
{WITH_TOKEN}
"""
OUT = ("fan-broken", "--message", "is replaced on Friday")


@pytest.fixture(name="lab")
def _lab(site: Site, granted: None) -> Site:
    """A site whose node offers two consoles, and may write claim statuses."""
    return start(site)


def start(site: Site, config: str = CONSOLES, *, free: int = 2) -> Site:
    """Have the daemon offer two consoles, of which so many are free and well."""
    site.node.write(TOKEN, make_token(site))
    site.node.start_berthd(config, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    wait_allocatable(site, free)
    return site


def run_on(site: Site, name: str, console: int, **more: object) -> PodView:
    """Create a pod with a claim for one of the consoles."""
    site.claim(name, wanted(console, **more))
    return site.create(name, name)


def wanted(console: int, **more: object) -> Object:
    """A request for one of the consoles."""
    return request("serial", of="generic", cel=f'own.node == "/dev/tty1{console}"', **more)


def taints(site: Site) -> dict[str, list[tuple[str, str, str]]]:
    """Key, value and effect of each taint in the node's slices."""
    return {
        device["name"]: [
            (taint["key"], taint.get("value", ""), taint["effect"]) for taint in device["taints"]
        ]
        for item in slices(site)
        for device in item["spec"].get("devices") or ()
        if device.get("taints")
    }


def slices(site: Site) -> list[Object]:
    """The node's slices."""
    return site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")


def wait_healthy(site: Site, claim: str, status: str) -> Mapping[str, Object]:
    """Wait until the claim says so of its device; gives its conditions by type."""

    def conditions(now: Object) -> dict[str, Object]:
        (entry,) = devices_of(now) or ({},)
        return {one["type"]: one for one in entry.get("conditions", ())}

    def told(now: Object) -> bool:
        return str(conditions(now).get("Healthy", {}).get("status")) == status

    return conditions(site.api.wait(site.claim_path(claim), told, limit_s=20))


def test_sick_devices_are_told_everywhere_and_heal(lab: Site) -> None:
    """Taint, list, refusal and condition say the same; who tolerates it gets it."""

    user = run_on(lab, "user", 0)
    lab.cluster.wait_running(user.now, limit_s=LIMIT_S)
    assert wait_healthy(lab, "user", "True")["Ready"]["reason"] == "Prepared"
    wait_allocatable(lab, 1)

    for name in NAMES:
        lab.berth("health", "set", name, *OUT)
    tainted = [(FAULT, "fan-broken", "NoSchedule")]
    lab.wait_same("taints", lambda: taints(lab), dict.fromkeys(NAMES, tainted))
    wait_allocatable(lab, 0)
    told = wait_healthy(lab, "user", "False")["Healthy"]
    assert (told["reason"], "is replaced on Friday" in told["message"]) == ("FanBroken", True)

    waiting = run_on(lab, "waiting", 1)
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")
    mender = run_on(lab, "mender", 1, tolerations=[{"key": FAULT, "operator": "Exists"}])
    lab.cluster.wait_running(mender.now, limit_s=LIMIT_S)
    assert list(consoles(mender)) == ["tty11"]
    assert (phase(waiting.now), phase(user.now)) == ("Pending", "Running")
    mender.delete()

    for name in NAMES:
        lab.berth("health", "clear", name)
    lab.wait_same("taints", lambda: taints(lab), {}, limit_s=LIMIT_S)
    lab.cluster.wait_running(waiting.now, limit_s=60)
    assert wait_healthy(lab, "user", "True")["Healthy"]["reason"] == "Healthy"


def test_claim_of_a_device_that_fell_ill_since_is_refused_by_name(lab: Site) -> None:
    """Its pod was bound a moment before the verdict; kubelet tries again when it has healed."""

    with lab.node.kubelet.asleep():
        user = run_on(lab, "user", 0)
        user.wait(lambda now: now["spec"].get("nodeName"), what="bound")
        lab.berth("health", "set", NAMES[0], *OUT)
    assert user.wait_refused().startswith("console-tty10: is unhealthy (fan-broken): ")

    lab.berth("health", "clear", NAMES[0])
    wait_allocatable(lab, 2)
    user.nudge()
    lab.cluster.wait_running(user.now, limit_s=60)


def test_taints_outlast_a_restart_and_other_hands(lab: Site) -> None:
    """Nothing is written for a restart; ours come back, those of others stay."""

    user = run_on(lab, "user", 0)
    lab.cluster.wait_running(user.now, limit_s=LIMIT_S)
    lab.berth("health", "set", NAMES[0], *OUT)
    before = wait_healthy(lab, "user", "False")
    ours = (FAULT, "fan-broken", "NoSchedule")
    lab.wait_same("taints", lambda: taints(lab), {NAMES[0]: [ours]})
    (published,) = slices(lab)
    start(lab, free=1)
    assert [one["metadata"]["generation"] for one in slices(lab)] == [
        published["metadata"]["generation"]
    ]

    foreign = {"key": "ops.example/repair", "effect": "NoSchedule"}
    devices = [{**one, "taints": [foreign]} for one in published["spec"]["devices"]]
    lab.api.merge(f"{SLICES}/{published['metadata']['name']}", {"spec": {"devices": devices}})
    theirs = ("ops.example/repair", "", "NoSchedule")
    lab.wait_same(
        "taints",
        lambda: taints(lab),
        {NAMES[0]: [ours, theirs], NAMES[1]: [theirs]},
    )
    assert "another hand keeps claims from console-tty11" in lab.berth("devices", "--json")
    lab.berth("health", "clear", NAMES[0])
    after = wait_healthy(lab, "user", "True")
    lab.wait_same("taints", lambda: taints(lab), {name: [theirs] for name in NAMES})
    assert after["Ready"]["lastTransitionTime"] == before["Ready"]["lastTransitionTime"]


def test_new_device_is_written_once(site: Site) -> None:
    """When it has answered: not as one that nobody has asked, and again a moment later."""

    site.open(nics=["nic0"])
    versions: list[set[str]] = []
    query = {"fieldSelector": f"spec.nodeName={site.node.name}"}
    for now in site.api.snapshots(SLICES, limit_s=8, **query):
        versions.append({each["metadata"]["resourceVersion"] for each in now.values()})
        if len(versions) == 1:
            site.node.run("ip", "link", "add", "nic1", "type", "veth", "peer", "name", "far1")
    site.node.run("ip", "link", "delete", "nic1")

    found = site.wait_offered([device("nic0")])
    assert len(set(map(frozenset, versions))) == 2
    assert not any("taints" in each for each in found.values())


def test_nic_that_was_not_put_back_stays_with_a_fault(site: Site) -> None:
    """Its successor waits until what stands in the way is gone, and its taint with it."""

    site.node.add_nic("nic0")
    site.node.add_nic("nic1")
    site.node.run("ip", "route", "add", "198.51.100.0/24", "dev", "nic0")
    config = LAB.replace("match", "take_configured = true\nmatch")
    site.open(f"[health]\nrecover_after_s = 2\n{config}", nics=["nic0", "nic1"])
    wanted_nic = request("nic", cel='own.ifName == "nic0"')
    site.claim("first", wanted_nic)
    first = site.run("first", "first")
    site.node.run("ip", "route", "add", "198.51.100.0/24", "dev", "nic1")
    first.delete()

    tainted = {device("nic0"): [(FAULT, "restore-failed", "NoSchedule")]}
    site.wait_same("taints", lambda: taints(site), tainted, limit_s=LIMIT_S)
    site.claim("next", wanted_nic)
    waiting = site.create("next", "next")
    waiting.wait_event("FailedScheduling", "cannot allocate all claims")

    site.node.run("ip", "route", "delete", "198.51.100.0/24", "dev", "nic1")
    site.wait_same("taints", lambda: taints(site), {}, limit_s=60)
    site.cluster.wait_running(waiting.now, limit_s=60)


def test_rules_of_the_cluster_are_shown_and_left_alone(lab: Site) -> None:
    """The scheduler heeds them beside our slices, which stay as they are."""

    before = slices(lab)
    selector = {"driver": "berth.dev", "pool": lab.node.name, "device": NAMES[1]}
    for name, chosen in (("repair", selector), ("of-others", {"driver": "other.dev"})):
        taint = {"key": "ops.example/repair", "value": "tuesday", "effect": "NoSchedule"}
        lab.api.request(
            "POST",
            TAINT_RULES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": name},
                "spec": {"deviceSelector": chosen, "taint": taint},
            },
        )
    try:
        told = f"DeviceTaintRule repair taints {NAMES[1]}: ops.example/repair=tuesday:NoSchedule"
        warnings = json.loads(lab.berth("devices", "--json"))["warnings"]
        assert [each for each in warnings if "DeviceTaintRule" in each] == [told]
        waiting = run_on(lab, "waiting", 1)
        waiting.wait_event("FailedScheduling", "cannot allocate all claims")
        assert [one["metadata"]["resourceVersion"] for one in slices(lab)] == [
            one["metadata"]["resourceVersion"] for one in before
        ]
    finally:
        for name in ("repair", "of-others"):
            lab.api.delete(f"{TAINT_RULES}/{name}")
    lab.cluster.wait_running(waiting.now, limit_s=60)
    assert "DeviceTaintRule" not in lab.berth("devices", "--json")


def test_rules_of_the_cluster_are_not_seen_by_a_kubelets_rights(site: Site) -> None:
    """One line says so, and nothing else is missing."""

    site.open()

    warnings = json.loads(site.berth("devices", "--json"))["warnings"]
    assert "DeviceTaintRules are not seen: these credentials may not list them" in warnings


def test_pods_are_ended_for_reasons_that_the_operator_names(site: Site, granted: None) -> None:
    """From the reload on the controller deletes the pod; its claim is undone though it is sick."""

    lab = start(site)
    user = run_on(lab, "user", 0)
    lab.cluster.wait_running(user.now, limit_s=LIMIT_S)
    lab.berth("health", "set", NAMES[0], *OUT)
    tainted = {NAMES[0]: [(FAULT, "fan-broken", "NoSchedule")]}
    lab.wait_same("taints", lambda: taints(lab), tainted)

    lab.node.write(CONFIG, f'[health]\nevict = ["fan-broken"]\n{CONSOLES}')
    assert "evict was []" in lab.berth("reload")

    tainted = {NAMES[0]: [(FAULT, "fan-broken", "NoExecute")]}
    lab.wait_same("taints", lambda: taints(lab), tainted)
    lab.api.wait_gone(user.path, limit_s=LIMIT_S)
    lab.wait_same("holds", lambda: lab.listed("holds"), [])


def wait_evicted(site: Site, user: PodView, *, limit_s: float = LIMIT_S) -> None:
    """Wait until the controller has deleted a pod for a taint, and it is gone."""
    events = f"/api/v1/namespaces/{site.namespace}/events"
    site.api.wait_gone(user.path, limit_s=limit_s)
    told = site.api.items(events, fieldSelector=f"involvedObject.name={user.name}")
    assert "DeviceTaintManagerEviction" in {each["reason"] for each in told}


def tolerating(seconds: int | None = None) -> Object:
    """What a request says that stays for so many seconds, or for ever."""
    toleration: Object = {"operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return {"tolerations": [toleration, {"operator": "Exists", "effect": "NoSchedule"}]}


def test_rule_of_the_cluster_ends_pods_when_their_time_is_over(lab: Site) -> None:
    """One at once, one after the seconds that it tolerates; both devices are given back."""

    at_once = run_on(lab, "brief", 0)
    patient = run_on(lab, "patient", 1, **tolerating(10))
    for pod in (at_once, patient):
        lab.cluster.wait_running(pod.now, limit_s=LIMIT_S)
    before = slices(lab)
    taint = {"key": "ops.example/move-out", "effect": "NoExecute"}
    selector = {"driver": "berth.dev", "pool": lab.node.name}
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "move-out"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    lab.api.request("POST", TAINT_RULES, rule)
    began = time.monotonic()
    try:
        wait_evicted(lab, at_once)
        assert phase(patient.now) == "Running"
        assert "deletionTimestamp" not in patient.now["metadata"]
        assert time.monotonic() - began < 10
        lasting = run_on(lab, "lasting", 0, **tolerating())
        lab.cluster.wait_running(lasting.now, limit_s=LIMIT_S)
        wait_evicted(lab, patient)
        assert time.monotonic() - began >= 9  # the server counts from whole seconds
        assert phase(lasting.now) == "Running"
        assert [hold["claim"] for hold in lab.listed("holds")] == [f"{lab.namespace}/lasting"]
        assert slices(lab) == before
    finally:
        lab.api.delete(f"{TAINT_RULES}/move-out")


def test_time_that_a_pod_tolerates_does_not_begin_anew(site: Site, granted: None) -> None:
    """Our own taint stands since it was first written: over another verdict and a restart."""

    config = f'[health]\nevict = ["fan-broken"]\n{CONSOLES}'
    lab = start(site, config)
    user = run_on(lab, "user", 0, **tolerating(15))
    lab.cluster.wait_running(user.now, limit_s=LIMIT_S)
    lab.berth("health", "set", NAMES[0], *OUT)
    began = time.monotonic()
    tainted = {NAMES[0]: [(FAULT, "fan-broken", "NoExecute")]}
    lab.wait_same("taints", lambda: taints(lab), tainted)
    time.sleep(5)  # what is shown is that this time counts

    lab.berth("health", "set", NAMES[1], "bent")
    both = {**tainted, NAMES[1]: [(FAULT, "bent", "NoSchedule")]}
    lab.wait_same("taints", lambda: taints(lab), both)
    start(lab, config, free=0)
    assert phase(user.now) == "Running"

    wait_evicted(lab, user)
    assert 13 <= time.monotonic() - began < 20
    lab.wait_same("holds", lambda: lab.listed("holds"), [], limit_s=20)
