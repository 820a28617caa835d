"""Devices for which kubelet would not ask berth, where one part of the cluster lacks the gate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.controlplane import ADDRESS
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES, Node
from tests.cluster.pods import phase
from tests.cluster.site import PodView, Site
from tests.cluster.skips import (
    ASKED,
    COUNTED,
    GATE,
    NAMES,
    NOT_IN_FORCE,
    consoles,
    holds,
    lab,
    results,
    start,
    wait_skipping,
)
from tests.cluster.test_credentials import checked

__all__ = ["lab"]

UNDECLARED = f"{NOT_IN_FORCE}: feature gate {GATE} is off: the node does not declare it"
WIPE_FIRST, NODE_FIRST = 7, 8
"""How often a kubelet registers in vain, so that it next wipes slices, or tells its Node.

It tries to register at 13, 20, 27 s of its life, and to wipe at 15 to 18 and at 31 to 37 s."""


def close_gate(site: Site) -> None:
    """Start the node's kubelet anew without the gate."""
    site.node.change_gates({**Gates.ALL_ALPHA.flags, GATE: False})


@contextmanager
def cut_off(node: Node) -> Iterator[None]:
    """Nothing on the node reaches the API server, and learns so at once."""
    node.ip("route", "add", "blackhole", ADDRESS)
    try:
        yield
    finally:
        node.ip("route", "delete", "blackhole", ADDRESS)


def close_gate_unseen(site: Site, tries: int) -> None:
    """The same, while nothing on the node reaches the API server, for so many tries to register."""

    def tried() -> bool:
        return site.node.kubelet.log_text().count("Attempting to register node") >= tries

    with cut_off(site.node):
        close_gate(site)
        site.wait_same("tries to register", tried, True, limit_s=40)


def wait_undeclared(site: Site) -> None:
    """Wait until the Node tells that its kubelet has the gate off."""
    site.api.wait(
        site.node.object_path,
        lambda node: GATE not in node["status"]["declaredFeatures"],
        limit_s=30,
    )


def skipped(site: Site) -> list[list[str]]:
    """What each slice of the node says that kubelet skips."""
    slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
    return [one["spec"].get("skipNodeOperations", []) for one in slices]


def check_prepared(site: Site, pod: PodView, claim: str) -> None:
    """The claim was prepared as ever, and nobody says that it was skipped."""
    (given,) = results(site, claim)
    assert "skipNodeOperations" not in given
    assert consoles(pod) == [given["device"].removeprefix("counted-")]
    held = {device: (state, pods) for device, state, pods in holds(site)}
    assert held[given["device"]] == ("prepared", [pod.name])


def test_kubelet_that_lost_the_gate_gets_no_pod_until_the_daemon_is_back(lab: Site) -> None:
    """It wipes our slices as it starts; a claim that it has skipped stays one, and starts no pod.

    Only when its first pod has gone is it given anew, without the words.
    """

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    for claim in ("old", "new"):
        lab.claim(claim, ASKED)
    first = lab.run("first", "old")
    lab.node.berthd.kill()

    close_gate(lab)

    wait_undeclared(lab)
    lab.wait_same("slices", lambda: skipped(lab), [], limit_s=20)
    second, third = lab.create("second", "old"), lab.create("third", "new")
    assert "resourceclaim not available on the node" in second.wait_event("FailedScheduling")
    assert "cannot allocate all claims" in third.wait_event("FailedScheduling")
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    lab.cluster.wait_running(third.now)
    wait_skipping(lab)
    check_prepared(lab, third, "new")
    (kept,) = results(lab, "old")
    assert (kept["device"], "skipped", ["first"]) in holds(lab)
    assert UNDECLARED in lab.berth("devices", "--json")
    assert phase(second.now) == "Pending"
    first.delete()
    lab.cluster.wait_running(second.now)
    check_prepared(lab, second, "old")


def test_slices_that_outlive_the_gate_get_no_pod_until_the_daemon_is_back(lab: Site) -> None:
    """The server is away as kubelet starts: its Node may tell before its wipe is tried again."""

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    lab.claim("mine", ASKED)
    lab.node.berthd.kill()

    close_gate_unseen(lab, NODE_FIRST)

    wait_undeclared(lab)
    pod = lab.create("user", "mine")
    assert "cannot allocate all claims" in pod.wait_event("FailedScheduling", "claims")
    assert skipped(lab) == [["*"]]
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()
    lab.cluster.wait_running(pod.now)
    wait_skipping(lab)
    check_prepared(lab, pod, "mine")
    assert UNDECLARED in lab.berth("devices", "--json")


def test_pod_that_was_bound_before_kubelet_lost_the_gate_is_told_why_it_waits(lab: Site) -> None:
    """Kubelet names the gate; the claim keeps the words for as long as a pod has it."""

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    lab.claim("mine", ASKED)
    lab.node.kubelet.kill()
    pod = lab.create("user", "mine")
    pod.wait(lambda now: "nodeName" in now["spec"], what="is bound")

    close_gate(lab)

    refusal = f"{GATE} feature gate is disabled on kubelet"
    assert "mine" in pod.wait_event("FailedPrepareDynamicResources", refusal)
    wait_skipping(lab)
    assert phase(pod.now) == "Pending"
    pod.delete()
    check_prepared(lab, lab.run("again", "mine"), "mine")


def test_daemon_that_runs_follows_a_kubelet_that_lost_the_gate_unseen(lab: Site) -> None:
    """It puts back what kubelet wiped, before the Node tells; the second look at that finds out."""

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    lab.claim("mine", ASKED)

    close_gate_unseen(lab, WIPE_FIRST)

    wait_undeclared(lab)
    wait_skipping(lab)
    check_prepared(lab, lab.run("user", "mine"), "mine")


def test_node_whose_kubelet_does_not_know_it_is_asked_as_ever(lab: Site) -> None:
    """The scheduler would take no device that says so; this one says nothing, and is prepared."""

    close_gate(lab)
    wait_undeclared(lab)
    start(lab, COUNTED)
    lab.claim("mine", ASKED)

    pod = lab.run("user", "mine")

    wait_skipping(lab)
    check_prepared(lab, pod, "mine")
    assert UNDECLARED in lab.berth("devices", "--json")
    assert UNDECLARED in lab.berth("why", "user", "--json")


def test_cluster_without_it_prepares_as_ever(site: Site) -> None:
    """With the gates as Kubernetes has them; nothing that the server would drop is written."""

    site.node.start_berthd(COUNTED, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)
    site.claim("mine", ASKED)

    pod = site.run("user", "mine")

    wait_skipping(site)
    assert len(consoles(pod)) == 1
    assert [state for _, state, _ in holds(site)] == ["prepared"]
    assert f"{NOT_IN_FORCE}: feature gate {GATE} is off" in site.berth("devices", "--json")
    assert not site.log_lines("which is accepted")
    pod.delete()
    site.wait_same("holds", lambda: holds(site), [], limit_s=30)


def test_kubelets_own_credentials_see_no_holder_so_it_is_asked_as_ever(lab: Site) -> None:
    """All gates are on, and nothing is granted to the daemon."""

    start(lab, COUNTED, credentials="")
    lab.claim("mine", ASKED)

    pod = lab.run("user", "mine")

    wait_skipping(lab)
    check_prepared(lab, pod, "mine")
    told = lab.berth("devices", "--json")
    assert f"{NOT_IN_FORCE}: claims are not seen: " in told
    assert "resourceclaims" in told
    assert "skip_node_operations of counted is not in force" in str(checked(lab, "API server"))
