"""Devices for which kubelet does not ask berth: pods come and go without it, and it knows of them.

Virtual consoles stand for what is only counted: nobody uses them, and a seat at the plugin door
shares each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Object
from tests.cluster.claimforms import request
from tests.cluster.gates import Gates
from tests.cluster.node import SLICES
from tests.cluster.pods import container
from tests.cluster.site import MANIFESTS, PodView, Site
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN, make_token

SEAT = "berth.dev/seat"
SEATS = """
[[generic]]
name = "seat"
match = { path = "/dev/tty2[0-1]" }
nodes = ["{node}", "/dev/tty1{1}"]
door = "plugin"
"""
COUNTED = """
[[generic]]
name = "counted"
match = { path = "/dev/tty1[0-1]" }
skip_node_operations = "all"
"""
LASTING = COUNTED.replace('"all"', '"unprepare"')
NAMES = ("counted-tty10", "counted-tty11")
GATE = "DRAOptionalNodeOperations"
ASKED = request("one", of="generic", cel='own.group == "counted"')
NOT_IN_FORCE = "skip_node_operations is not in force"


@pytest.fixture(name="lab")
def _lab(alpha_site: Site) -> Iterator[Site]:
    """A site whose gates are all on, and a daemon that may see claims."""
    for name in ("rbac.yaml", "admission.yaml"):
        alpha_site.api.apply((MANIFESTS / name).read_text())
    alpha_site.node.write(TOKEN, make_token(alpha_site))
    yield alpha_site
    if alpha_site.node.gates is not None:
        alpha_site.node.change_gates(None)


def start(site: Site, config: str) -> None:
    """Start the daemon, its sockets held by another, until its slices stand."""
    site.node.start_berthd(config + WITH_TOKEN, activated=True).wait_ready()
    site.wait_registered()
    site.wait_offered(NAMES)


def wait_skipping(site: Site, *operations: str) -> None:
    """Wait until each slice of the node with a device says that kubelet skips these."""

    def told() -> list[list[str]]:
        slices = site.api.items(SLICES, fieldSelector=f"spec.nodeName={site.node.name}")
        return [one["spec"].get("skipNodeOperations", []) for one in slices]

    site.wait_same("what is skipped", told, [list(operations)], limit_s=30)


def results(site: Site, claim: str) -> list[Object]:
    """What the scheduler gave to a claim."""
    found = site.api.get(site.claim_path(claim))
    return list(found["status"]["allocation"]["devices"]["results"])


def holds(site: Site) -> list[tuple[str, str, list[str]]]:
    """Each held device, how it is held and by which pods."""
    return [(one["device"], one["state"], one["pods"]) for one in site.listed("holds")]


def seats(site: Site) -> str:
    """How many seats the node has to give."""
    node = site.api.get(site.node.object_path)
    return str(node["status"]["allocatable"].get(SEAT, ""))


def consoles(pod: PodView) -> list[str]:
    """The consoles that the container has."""
    return pod.run("sh", "-c", "ls /dev | grep ^tty1 || true").split()


def test_pods_start_and_end_while_the_daemon_is_away(lab: Site) -> None:
    """Kubelet calls nobody; the daemon finds the holder when it is back, and frees it in time."""

    start(lab, COUNTED + SEATS)
    wait_skipping(lab, "*")
    lab.wait_same("seats", lambda: seats(lab), "2", limit_s=30)
    lab.claim("first", ASKED)
    lab.claim("second", ASKED)

    lab.node.berthd.kill()
    first = lab.run("early", "first")
    first.delete()
    second = lab.run("late", "second")
    (given,) = results(lab, "second")
    assert (given["skipNodeOperations"], consoles(second)) == (["*"], [])
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()

    lab.wait_same("holds", lambda: holds(lab), [(given["device"], "skipped", ["late"])], limit_s=20)
    shown = {one["name"]: one["held_by"] for one in lab.listed("devices")}
    assert shown[given["device"]] == [f"{lab.namespace}/second"]
    # Its seat is one with it, so the device plugin does not give that.
    lab.wait_same("seats", lambda: seats(lab), "1", limit_s=30)
    assert f"claim {lab.namespace}/second" in lab.berth("why", "late")
    second.delete()
    lab.wait_same("holds", lambda: holds(lab), [], limit_s=30)
    lab.wait_same("seats", lambda: seats(lab), "2", limit_s=30)


def test_holder_is_known_from_the_first_moment_of_the_next_life(lab: Site) -> None:
    """Also to a daemon whose group is for the device plugin by then, and that sees no server."""

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    lab.claim("mine", ASKED)
    pod = lab.run("user", "mine")
    (given,) = results(lab, "mine")
    lab.wait_same("holds", lambda: holds(lab), [(given["device"], "skipped", ["user"])], limit_s=20)

    blind = WITH_TOKEN.replace(TOKEN, "/etc/berth/none")
    lab.node.start_berthd(SEATS + blind, activated=True).wait_ready()

    lab.wait_same("seats", lambda: seats(lab), "1", limit_s=60)
    assert holds(lab) == [(given["device"], "skipped", ["user"])]
    lab.node.start_berthd(SEATS + WITH_TOKEN, activated=True).wait_ready()
    pod.delete()
    lab.wait_same("holds", lambda: holds(lab), [], limit_s=30)


def test_claim_that_is_only_prepared_is_cleared_up_when_it_is_gone(lab: Site) -> None:
    """Its container has the device; its pod ends while the daemon is away, which reaps it then."""

    start(lab, LASTING)
    wait_skipping(lab, "NodeUnprepareResources")
    lab.claim("mine", ASKED)
    pod = lab.run("user", "mine")
    (given,) = results(lab, "mine")
    assert consoles(pod) == [given["device"].removeprefix("counted-")]
    lab.wait_log("claim that kubelet does not ask for")

    lab.node.berthd.kill()
    pod.delete()
    lab.node.berthd.start()
    lab.node.berthd.wait_ready()

    lab.wait_same("holds", lambda: holds(lab), [], limit_s=30)
    assert lab.node.run("ls", "/var/run/cdi") == ""


def test_node_whose_kubelet_does_not_know_it_is_asked_as_ever(lab: Site) -> None:
    """The scheduler would take no device that says so; this one says nothing, and is prepared."""

    lab.node.change_gates({**Gates.ALL_ALPHA.flags, GATE: False})
    lab.api.wait(lab.node.object_path, lambda it: GATE not in it["status"]["declaredFeatures"])
    start(lab, COUNTED)
    lab.claim("mine", ASKED)

    pod = lab.run("user", "mine")

    wait_skipping(lab)
    (given,) = results(lab, "mine")
    assert consoles(pod) == [given["device"].removeprefix("counted-")]
    assert holds(lab) == [(given["device"], "prepared", ["user"])]
    why = f"{NOT_IN_FORCE}: feature gate {GATE} is off: the node does not declare it"
    assert why in lab.berth("devices", "--json")
    assert why in lab.berth("why", "user", "--json")


def test_slice_that_says_so_gets_no_pod_where_kubelet_does_not_know_it(lab: Site) -> None:
    """What berth avoids: the pod stays Pending, and its event tells no more than that."""

    lab.node.change_gates({**Gates.ALL_ALPHA.flags, GATE: False})
    lab.api.wait(lab.node.object_path, lambda it: GATE not in it["status"]["declaredFeatures"])
    name = lab.node.name
    spec = {
        "driver": "lab.example",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "counter"}],
        "skipNodeOperations": ["*"],
    }
    lab.api.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": "lab-"},
            "spec": spec,
        }
    )
    any_class = {"selectors": [{"cel": {"expression": 'device.driver == "lab.example"'}}]}
    lab.api.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "lab.example"},
            "spec": any_class,
        }
    )
    lab.claim("theirs", {"name": "one", "exactly": {"deviceClassName": "lab.example"}})

    pod = lab.create("user", "theirs", containers=[container("main")])

    assert "cannot allocate all claims" in pod.wait_event("FailedScheduling", "claims")
    lab.api.delete("/apis/resource.k8s.io/v1/deviceclasses/lab.example")


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
