"""berthd is killed: at rest, between prepare and sandbox, at each step of a NIC's way in and out.

Afterwards a pod has its NIC, or the NIC is at home as it was. One that is in its pod when the pod's
namespace ends is gone, because it is a veth end; then that is told, and nothing waits for it.
"""

from __future__ import annotations

import itertools

from tests.cluster import outages
from tests.cluster.api import Object
from tests.cluster.outages import FUSED
from tests.cluster.site import PodView, Site, device

LEAST_STEPS = 5
"""Before, between and after the messages that move a NIC, address it, set it up and route by it;
on its way home there are no less."""

ASKS_FOR_BERTH = {"required-plugins.noderesource.dev": '["berth"]'}
"""As `docs/how-to/set-up-a-nic-node.md` has it."""


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

    berthd = outages.open_furnished(site, activated=True, command=FUSED)
    was = site.home("nic0")
    outages.arm(site, "stage", 1)
    view = outages.create(site, "pod")
    berthd.wait()
    berthd.start()
    berthd.wait_ready()

    site.wait_home("nic0", was)
    view.wait_event("FailedPrepareDynamicResources")
    assert "claim prepared" not in berthd.log_text()
    outages.poke(site, view)
    site.cluster.wait_running(view.now)
    outages.wait_inside(view)


def test_daemon_killed_between_prepare_and_sandbox_attaches_as_planned(site: Site) -> None:
    """What was prepared is on disk; the hook finds it there."""

    berthd = outages.open_furnished(site, activated=True)
    view = outages.create_prepared(site, "pod")
    berthd.kill()
    berthd.start()
    berthd.wait_ready()
    site.node.containerd.thaw()
    site.cluster.wait_running(view.now)

    outages.wait_inside(view)
    assert berthd.log_text().count("claim prepared") == 1


def test_pod_that_started_while_the_daemon_was_away_gets_its_nic_late(site: Site) -> None:
    """The runtime tells at the next start that it runs; the journal names it."""

    berthd = outages.open_furnished(site, activated=True)
    view = _start_without(site)
    links = view.links()
    berthd.start()
    berthd.wait_ready()

    outages.wait_inside(view)
    outages.wait_told(site, "pod")
    assert "net1" not in links
    assert site.log_lines("pod had started without its NICs", f"{site.namespace}/pod")


def test_pod_that_asks_for_the_daemon_waits_for_it(site: Site) -> None:
    """The runtime makes no container of it meanwhile, by its annotation; it starts with its NIC."""

    berthd = outages.open_furnished(site, activated=True)
    view = outages.create_prepared(site, "pod", annotations=ASKS_FOR_BERTH)
    berthd.kill()
    site.node.containerd.thaw()
    told = view.wait_event("Failed", "required plugin")
    before = [status.get("containerID") for status in view.now["status"]["containerStatuses"]]
    berthd.start()
    berthd.wait_ready()
    site.cluster.wait_running(view.now, limit_s=60)

    assert ('"berth"' in told, before) == (True, [None])
    assert "net1" in view.links()
    assert site.log_lines("sandbox was made without the pod's NICs", f"{site.namespace}/pod")
    assert not site.log_lines("pod had started without its NICs")


def test_pod_that_cannot_get_its_nic_late_gets_no_container_either(site: Site) -> None:
    """Its own link has the name by now. That is told at once; kubelet's next container is refused.

    Once the name is free that container gets its NIC and runs.
    """

    berthd = outages.open_furnished(site, activated=True)
    view = _start_without(site, restartPolicy="Always")
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
    """Step by step, until neither way has a step more."""

    outages.open_furnished(site, activated=True, command=FUSED)
    was = site.home("nic0")
    killed = dict.fromkeys(("attach", "return"), 0)

    for step in itertools.count():
        outages.arm(site, "attach", step)
        view = outages.create(site, f"pod{step}")
        site.cluster.wait_running(view.now)
        killed["attach"] += _start_if_killed(site)
        outages.wait_inside(view)
        outages.wait_told(site, view.name)

        outages.arm(site, "return", step)
        site.api.delete(view.path)
        _wait_ended(site, view)
        killed["return"] += _start_if_killed(site)
        site.api.wait_gone(view.path)
        _require_home(site, was)
        if max(killed.values()) <= step:
            break
    assert min(killed.values()) >= LEAST_STEPS


def _start_without(site: Site, **more: object) -> PodView:
    """A pod that runs without its NIC, because the daemon was killed behind its prepare."""
    view = outages.create_prepared(site, "pod", **more)
    site.node.berthd.kill()
    site.node.containerd.thaw()
    site.cluster.wait_running(view.now)
    return view


def _wait_ended(site: Site, view: PodView) -> None:
    """Wait until a deleted pod is gone, or the daemon is and so keeps it from that."""
    pods = view.path.rpartition("/")[0]
    outages.poll(
        lambda: (
            site.node.berthd.alive
            and site.api.items(pods, fieldSelector=f"metadata.name={view.name}")
        ),
        lambda busy: not busy,
        what=f"end of {view.name}",
    )


def _start_if_killed(site: Site) -> bool:
    """Start the daemon again if its fuse was used up, else take the fuse away; gives which."""
    if outages.disarm(site):
        return False
    berthd = site.node.berthd
    berthd.wait()
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
