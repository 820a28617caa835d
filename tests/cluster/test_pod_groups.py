"""A NIC of a claim that does not name its pod: no container has to refer to the claim.

Kubelet tells on the node which claims a pod has; the API server is asked for what it does not tell.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import outages
from tests.cluster.api import Object
from tests.cluster.claimforms import nic_config
from tests.cluster.gates import Gates
from tests.cluster.pods import container, is_running
from tests.cluster.site import PodView, Site
from tests.cluster.test_sharing import IN_GROUP, group

REFUSED = "FailedCreatePodSandBox"
INSIDE = {"lo", "eth0", "net1"}
OUTSIDE = {"lo", "eth0"}
CONFIG = [nic_config(addresses=[{"address": "192.0.2.10/24"}])]


def bare(site: Site, name: str, *claims: str, **more: Any) -> PodView:
    """Create a pod that has claims of which its container says nothing."""
    return site.create(
        name, *claims, containers=[container("main")], restartPolicy="Always", **more
    )


def run(site: Site, name: str, *claims: str, **more: Any) -> PodView:
    """The same, and wait until it runs."""
    pod = bare(site, name, *claims, **more)
    site.cluster.wait_running(pod.now, limit_s=site.limit_s)
    return pod


def container_id(now: Object) -> str:
    """The runtime's id of the pod's container."""
    return str(now["status"]["containerStatuses"][0].get("containerID", ""))


def wait_next(pod: PodView, before: str) -> None:
    """Wait until the pod runs in another container than that."""
    pod.wait(lambda now: is_running(now) and container_id(now) != before, what="in a new sandbox")


class InRuntime:
    """A pod as the runtime knows it, without a word of the API server.

    Args:
        site: Where it runs.
        pod: Read once.
    """

    def __init__(self, site: Site, pod: PodView) -> None:
        self._site = site
        self._uid = pod.now["metadata"]["uid"]

    def kill_sandbox(self) -> None:
        """End the process that holds its sandbox."""
        (sandbox,) = self._ids("sandbox") & self._tasks()
        self._site.node.ctr("tasks", "kill", "-s", "SIGKILL", sandbox)

    def running(self) -> set[str]:
        """Ids of its containers that run."""
        return self._ids("container") & self._tasks()

    def _ids(self, kind: str) -> set[str]:
        of_pod = f'labels."io.kubernetes.pod.uid"=={self._uid}'
        of_kind = f'labels."io.cri-containerd.kind"=={kind}'
        return set(self._site.node.ctr("containers", "list", "-q", f"{of_pod},{of_kind}").split())

    def _tasks(self) -> set[str]:
        lines = self._site.node.ctr("tasks", "list").splitlines()
        return {line.split()[0] for line in lines if "RUNNING" in line}


@pytest.fixture(name="site")
def _site(alpha_site: Site) -> Iterator[Site]:
    """A site with a NIC that a group's claim is for, and kubelet's gates back at the end."""
    alpha_site.open()
    alpha_site.claim("uplink", config=CONFIG)
    group(alpha_site, "uplink")
    yield alpha_site
    if alpha_site.node.gates is not None:
        alpha_site.node.change_gates(None)


def test_nic_of_a_group_is_in_a_pod_whose_containers_do_not_refer_to_it(site: Site) -> None:
    """A stranger of the namespace has nothing of it; a second pod waits until the first ends."""

    pod = run(site, "user", "uplink", **IN_GROUP)
    stranger = run(site, "stranger")
    other = bare(site, "other", "uplink", **IN_GROUP)

    told = other.wait_event(REFUSED, "one pod only")
    assert f"claim {site.namespace}/uplink: is used by pod {site.namespace}/user" in told
    assert (pod.links(), stranger.links()) == (INSIDE, OUTSIDE)
    pod.delete()
    site.api.wait(other.path, is_running, limit_s=60)
    assert PodView(site, "other").links() == INSIDE


def test_nic_of_a_groups_template_is_in_such_a_pod_too(alpha_site: Site) -> None:
    """Which claim the template made, kubelet does not tell, and the API server does."""

    site = alpha_site
    site.open()
    site.template("uplink", config=CONFIG)
    group(site, "uplink", template=True)

    pod = run(site, "user", templates=["uplink"], **IN_GROUP)
    stranger = run(site, "stranger", **IN_GROUP)

    assert (pod.links(), stranger.links()) == (INSIDE, OUTSIDE)


def test_next_sandbox_of_such_a_pod_has_the_nic_again(site: Site) -> None:
    """Kubelet prepares nothing anew, and the daemon has been restarted meanwhile."""

    pod = run(site, "user", "uplink", **IN_GROUP)
    before = container_id(pod.now)
    site.node.berthd.terminate()
    site.node.berthd.start()
    site.node.berthd.wait_ready()

    site.kill_sandbox(pod)
    wait_next(pod, before)

    assert PodView(site, "user").links() == INSIDE


def test_pod_that_started_while_the_daemon_was_frozen_is_completed(alpha_site: Site) -> None:
    """The runtime gave up after 2 s and started it; no container says that it has a claim."""

    site = alpha_site
    berthd = outages.open_furnished(site, command=outages.FUSED)
    site.claim("uplink", config=CONFIG)
    group(site, "uplink")
    outages.arm(site, "attach", 1, signal.SIGSTOP)
    pod = bare(site, "user", "uplink", **IN_GROUP)
    berthd.wait_frozen()
    site.cluster.wait_running(pod.now, limit_s=60)
    berthd.thaw()

    site.wait_same("links", pod.links, INSIDE, limit_s=20)
    site.wait_log("pod had started without its NICs", f"{site.namespace}/user")


def test_stranger_starts_while_the_api_server_hangs(site: Site) -> None:
    """Kubelet makes it a new sandbox, and tells on the node that it has no claim."""

    run(site, "user", "uplink", **IN_GROUP)
    stranger = InRuntime(site, run(site, "stranger"))
    before = stranger.running()

    with site.cluster.control.apiserver.asleep():
        stranger.kill_sandbox()
        site.wait_same("runs", lambda: bool(stranger.running() - before), True, limit_s=60)


def test_without_kubelets_word_the_api_server_tells(site: Site) -> None:
    """With neither, a stranger that may be of the group waits for one of them, and is told why."""

    site.node.change_gates({**Gates.ALL_ALPHA.flags, "PodsAPI": False})
    pod = run(site, "user", "uplink", **IN_GROUP)
    view = run(site, "stranger")
    assert (pod.links(), view.links()) == (INSIDE, OUTSIDE)
    stranger = InRuntime(site, view)
    before, was = stranger.running(), container_id(view.now)

    with site.cluster.control.apiserver.asleep():
        stranger.kill_sandbox()
        refused = "nobody says whether it has"
        site.wait_same(
            "refused",
            lambda: refused in site.berth("why", f"{site.namespace}/stranger"),
            True,
            limit_s=60,
        )
        assert not stranger.running() - before

    wait_next(view, was)


def test_second_pod_of_a_claim_is_refused_though_no_container_refers_to_it(site: Site) -> None:
    """The claim names pods: kubelet asked for it with the first alone."""

    site.node.add_nic("nic1")
    site.claim("named", config=CONFIG)
    first = site.run("first", "named")

    told = bare(site, "second", "named").wait_event(REFUSED, "one pod only")

    assert f"claim {site.namespace}/named: is used by pod first" in told
    assert first.links() == INSIDE
