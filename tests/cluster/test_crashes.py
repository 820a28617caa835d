"""berthd is killed: at rest, between prepare and sandbox, at each step of a NIC's way in and out.

Afterwards a pod has its NIC, or the NIC is at home as it was. One that is in its pod when the pod's
namespace ends is gone, because it is a veth end; then that is told, and nothing waits for it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster import outages
from tests.cluster.api import Object
from tests.cluster.berthd import CONFIG
from tests.cluster.crashing import FUSE
from tests.cluster.site import PodView, Site, device

DAEMON = [sys.executable, str(Path(__file__).with_name("crashing.py")), "--config", CONFIG]
LEAST_STEPS = 4
"""A NIC moves, is addressed, comes up, gets a route; on its way home it is no less."""


def test_daemon_killed_at_rest_changes_nothing_for_a_pod(site: Site) -> None:
    """The pod keeps its NIC, and the next start knows how to bring it home."""

    berthd = outages.open_furnished(site, activated=True)
    was = site.home("nic0")
    view = outages.run(site, "pod")
    link = view.link("net1")
    berthd.kill()
    assert view.link("net1") == link
    berthd.start()
    berthd.wait_ready()

    assert view.link("net1") == link
    outages.delete(site, view)
    site.wait_home("nic0", was)


def test_daemon_killed_in_the_middle_of_a_prepare_prepares_anew(site: Site) -> None:
    """The next start takes back what was begun, and kubelet's next call finds all as it was."""

    berthd = outages.open_furnished(site, activated=True, command=DAEMON)
    was = site.home("nic0")
    log = _arm(site, 1)
    view = outages.create(site, "pod")

    assert _ended_killed(site, "claim prepared", log)
    site.wait_home("nic0", was)
    view.wait_event("FailedPrepareDynamicResources")
    assert "claim prepared" not in berthd.log_text()
    # Any change of the pod makes kubelet call at once.
    site.api.merge(view.path, {"metadata": {"annotations": {"poke": "1"}}})
    site.cluster.wait_running(view.now, limit_s=45)
    outages.wait_inside(view)


def test_daemon_killed_between_prepare_and_sandbox_attaches_as_planned(site: Site) -> None:
    """What was prepared is on disk; the hook finds it there."""

    berthd = outages.open_furnished(site, activated=True)
    with _prepared(site) as view:
        berthd.kill()
        berthd.start()
        berthd.wait_ready()
    site.cluster.wait_running(view.now)

    outages.wait_inside(view)
    assert berthd.log_text().count("claim prepared") == 1


def test_pod_that_started_while_the_daemon_was_away_gets_its_nic_late(site: Site) -> None:
    """The runtime tells at the next start that it runs; the journal names it."""

    berthd = outages.open_furnished(site, activated=True)
    with _prepared(site) as view:
        berthd.kill()
    site.cluster.wait_running(view.now)
    without = view.links()
    berthd.start()
    berthd.wait_ready()

    outages.wait_inside(view)
    outages.wait_told(site, "pod")
    assert "net1" not in without
    assert site.log_lines("pod had started without its NICs", f"{site.namespace}/pod")


def test_pod_that_cannot_get_its_nic_late_gets_no_container_either(site: Site) -> None:
    """Its own link has the name by now. That is told at once; kubelet's next container is refused.

    Once the name is free that container gets its NIC and runs.
    """

    berthd = outages.open_furnished(site, activated=True)
    with _prepared(site, restartPolicy="Always") as view:
        berthd.kill()
    site.cluster.wait_running(view.now)
    in_pod = outages.enter(site, view)
    site.node.run(*in_pod, "ip", "link", "add", "net1", "type", "veth", "peer", "name", "other")
    berthd.start()
    berthd.wait_ready()
    outages.wait_log(berthd, "pod runs without its NICs, its next container is refused")
    # Not at once: what is run in a container ends with it.
    view.run("sh", "-c", "(sleep 1; kill 1) > /dev/null 2>&1 &")
    told = view.wait_event("Failed")
    site.node.run(*in_pod, "ip", "link", "delete", "net1")

    outages.wait_inside(view, limit_s=60)
    assert "net1" in told


def test_daemon_killed_at_each_step_of_attach_and_return_leaves_nothing_half_done(
    site: Site,
) -> None:
    """Step by step until it is not killed any more, in the same daemon's lives."""

    outages.open_furnished(site, activated=True, command=DAEMON)
    was = site.home("nic0")
    killed = dict.fromkeys(("NIC attached", "NIC home"), 0)

    for step in itertools.count():
        with _prepared(site, f"pod{step}") as view:
            armed = _arm(site, step)
        killed["NIC attached"] += _ended_killed(site, "NIC attached", armed)
        site.cluster.wait_running(view.now)
        outages.wait_inside(view)
        outages.wait_told(site, view.name)

        armed = _arm(site, step)
        site.api.delete(view.path)
        killed["NIC home"] += _ended_killed(site, "NIC home", armed)
        site.api.wait_gone(view.path)
        _require_home(site, was)
        if max(killed.values()) <= step:
            break
    assert min(killed.values()) > LEAST_STEPS


@contextlib.contextmanager
def _prepared(site: Site, name: str = "pod", **more: Any) -> Iterator[PodView]:
    """A pod whose claim is prepared, and whose sandbox is not begun before the block's end."""
    berthd, containerd = site.node.berthd, site.node.containerd
    known = berthd.log_text().count("claim prepared")
    containerd.freeze()
    try:
        view = outages.create(site, name, **more)
        outages.wait_log(berthd, "claim prepared", count=known + 1)
        yield view
    finally:
        containerd.thaw()


def _arm(site: Site, step: int) -> str:
    """Have the daemon die at that step from now on; gives its log until now."""
    site.node.path(FUSE).write_text(str(step))
    return site.node.berthd.log_text()


def _ended_killed(site: Site, done: str, log: str) -> bool:
    """Wait until the daemon is dead, or says that it is done; gives which.

    A dead one is started again; a fuse that was not used up is taken away.
    """
    berthd = site.node.berthd
    outages.poll(
        lambda: berthd.alive and berthd.log_text().count(done) == log.count(done),
        lambda working: not working,
        what=f"{done!r}, or the daemon's end",
    )
    if berthd.alive:
        site.node.path(FUSE).unlink()
        return False
    berthd.start()
    berthd.wait_ready()
    return True


def _require_home(site: Site, was: Object) -> None:
    """Wait until the NIC is offered as it was; one that died with its pod is plugged in anew."""
    outside = site.cluster.control.box.run
    if not outside("ip", "link", "show", site.node.peer("nic0"), check=False):
        assert site.log_lines("NIC lost", device("nic0"))
        del site.node.nics["nic0"]
        site.node.add_nic("nic0")
        outages.furnish(site, "nic0")
    site.wait_home("nic0", was)
    site.wait_offered([device("nic0")])
