"""Devices for which kubelet does not ask berth: pods come and go without it, and it knows of them.

A seat at the plugin door shares each of the devices.
"""

from __future__ import annotations

from tests.cluster.podresources import dynamic
from tests.cluster.pods import container
from tests.cluster.site import Site
from tests.cluster.skips import (
    ASKED,
    COUNTED,
    consoles,
    holds,
    lab,
    results,
    start,
    wait_skipping,
)
from tests.cluster.test_credentials import TOKEN, WITH_TOKEN

__all__ = ["lab"]

SEAT = "berth.dev/seat"
SEATS = """
[[generic]]
name = "seat"
match = { path = "/dev/tty2[0-1]" }
nodes = ["{node}", "/dev/tty1{1}"]
door = "plugin"
"""
LASTING = COUNTED.replace('"all"', '"unprepare"')


def seats(site: Site) -> str:
    """How many seats the node has to give."""
    node = site.api.get(site.node.object_path)
    return str(node["status"]["allocatable"].get(SEAT, ""))


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


def test_kubelets_list_names_a_claim_that_it_skips_and_none_of_its_devices(lab: Site) -> None:
    """So it is no witness of who has a device; a claim that no container uses it does not name."""

    start(lab, COUNTED)
    wait_skipping(lab, "*")
    for claim in ("named", "unused"):
        lab.claim(claim, ASKED)
    main = container("main", "named")
    lab.run("user", "named", "unused", containers=[main])

    (given,) = results(lab, "named")
    assert given["skipNodeOperations"] == ["*"]
    assert dynamic(lab, "user") == {"named": []}
    lab.wait_same("pods", lambda: sorted(pods for *_, pods in holds(lab)), [["user"]] * 2)
